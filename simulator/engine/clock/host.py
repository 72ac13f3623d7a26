"""What the runtime does before an exchange starts, and the credit that a queue has."""

from __future__ import annotations

import math

import numpy as np

from simulator.engine.clock.numbers import Numbers, Seconds, later_of, latest
from simulator.models.graph import Queue


class Host:
    """The host's thread that starts exchanges: it looks for them in cycles, and launches one call after the other.

    Both go on while earlier exchanges are under way. `base`: when its first cycle begins.
    """

    def __init__(self, numbers: Numbers, base: float = 0.0) -> None:
        self.base = base
        self.cycle, self.launch = numbers.cycle, numbers.launch
        if len(numbers.points) == 1:
            self.cycle, self.launch = latest(self.cycle), latest(self.launch)
        self.in_cycles, self.launches = bool(np.any(self.cycle)), bool(np.any(self.launch))
        self.free: Seconds = 0.0

    def start_of(self, ready: Seconds) -> Seconds:
        """When an exchange that is ready can start: at the end of a cycle, and once its call is launched."""
        start = ready
        if self.in_cycles:
            ceil = math.ceil if isinstance(start, float) and isinstance(self.cycle, float) else np.ceil
            start = ceil((start - self.base) / self.cycle - 1e-9) * self.cycle + self.base
        if self.launches:
            start = self.free = later_of(self.free, start) + self.launch
        return start


class Credit:
    """How many bytes may be under way at once; one exchange always may, whatever its size."""

    def __init__(self, queue: Queue) -> None:
        self.limit = math.inf if queue.credit is None else queue.credit
        self.out, self.count = 0.0, 0

    def allows(self, nbytes: float) -> bool:
        """Whether this many more bytes may be handed over."""
        return not self.count or self.out + nbytes <= self.limit

    def take(self, nbytes: float) -> None:
        """An exchange of so many bytes is handed over."""
        self.out, self.count = self.out + nbytes, self.count + 1

    def give_back(self, nbytes: float) -> None:
        """An exchange has ended."""
        self.count -= 1
        self.out = self.out - nbytes if self.count else 0.0
