"""Workers that somebody interrupts, or slows down, while a simulation runs."""

from __future__ import annotations

import math

import numpy as np

from simulator.component import expected
from simulator.engine.clock.draws import Draws
from simulator.engine.clock.numbers import Seconds
from simulator.engine.clock.slowing import end_slowed
from simulator.models.curves import Floats
from simulator.records import Record


class Interruption(Record):
    """From `at` (s) on, or from the task on that runs then, a worker does nothing for so many seconds."""

    at: float
    seconds: float


class Slowed(Record):
    """Between two times (s) compute of a worker takes `factor` times as long."""

    start: float
    until: float
    factor: float


class DisturbedWorkers:
    """What happens to each of so many workers of a job; `followed`: each is followed, since it may be disturbed."""

    def __init__(self, workers: int) -> None:
        self.workers, self.followed = workers, False
        self.pauses: dict[int, list[Interruption]] = {}
        self.slowed: dict[int, list[Slowed]] = {}

    def interrupt(self, worker: int, at: float, seconds: float) -> None:
        """Let a worker do nothing for so many seconds."""
        if not 0 <= seconds < math.inf:
            raise expected("an interruption of at least 0 s", f"{seconds} s")
        self.pauses.setdefault(worker, []).append(Interruption(at, seconds))

    def slow_down(self, worker: int, factor: float, start: float, until: float) -> None:
        """Let compute of a worker take `factor` times as long between two times."""
        if not 1 <= factor < math.inf:
            raise expected("a factor of at least 1", str(factor), "a worker can be slowed down only")
        self.slowed.setdefault(worker, []).append(Slowed(start, until, factor))

    def each_of(self, draws: Draws) -> Draws:
        """The draws of every worker by itself, if they are followed."""
        if not self.followed or len(draws.compute) == self.workers:
            return draws
        return Draws(*(np.broadcast_to(each, self.workers) for each in (draws.compute, draws.selection)))

    def delay(self, start: Seconds, seconds: Seconds) -> Floats:
        """Seconds (1, w) of a task that starts at `start` (1, w) on each worker, with what happens to it meanwhile."""
        made = np.array(np.broadcast_to(seconds, (1, self.workers)))
        begin = np.broadcast_to(start, made.shape)
        for worker, windows in self.slowed.items():
            for each in windows:
                low, own = float(begin[0, worker]), float(made[0, worker])
                made[0, worker] = end_slowed(low, own, [(each.start, each.until)], each.factor - 1.0) - low
        for worker, pauses in self.pauses.items():
            for pause in sorted(pauses, key=lambda pause: pause.at):
                low = float(begin[0, worker])
                if low <= pause.at < low + made[0, worker]:
                    made[0, worker] += pause.seconds
        return made
