"""What decides when an exchange may start: the runtime's own steps, and the credit of a scheduler."""

from __future__ import annotations

import math

import numpy as np

from simulator.engine.plan.plan import Plan
from simulator.models.curves import Floats

Busy = tuple[float, float, str, int, bool]
"""Start, end, label, bucket, and whether it was a collective (rather than a kernel inside an exchange)."""


class Software:
    """What the runtime does before an exchange starts: it waits for its next cycle, and the host launches the call.

    Both run while earlier exchanges are under way.
    """

    def __init__(self, plan: Plan) -> None:
        self.runtime, self.host, self.hosts = plan.runtime, 0.0, np.zeros(1)
        self.any = bool(self.runtime.cycle_time or self.runtime.collective_launch)

    def start_of(self, ready: float) -> float:
        """When an exchange that is ready can start."""
        start, runtime = ready, self.runtime
        if runtime.cycle_time:
            start = math.ceil(start / runtime.cycle_time - 1e-9) * runtime.cycle_time
        if runtime.collective_launch:
            start = self.host = max(self.host, start) + runtime.collective_launch
        return start

    def starts_of(self, ready: Floats) -> Floats:
        """When an exchange that is `ready` (w,) on each worker can start there, where all hosts work by themselves."""
        start, runtime = ready, self.runtime
        if runtime.cycle_time:
            start = np.ceil(start / runtime.cycle_time - 1e-9) * runtime.cycle_time
        if runtime.collective_launch:
            start = self.hosts = np.maximum(self.hosts, start) + runtime.collective_launch
        return start


class Credit:
    """How many bytes may be under way at once; one exchange always may, whatever its size."""

    def __init__(self, plan: Plan) -> None:
        limit = plan.scheduler.queue.credit
        self.limit = math.inf if limit is None else limit
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
