"""Workers that somebody interrupts, or slows down, while a simulation runs."""

from __future__ import annotations

import math

import numpy as np

from simulator.engine.clock.draws import Draws
from simulator.engine.clock.numbers import Seconds
from simulator.engine.clock.slowing import end_slowed
from simulator.errors import InputError, Problem
from simulator.models.curves import Floats
from simulator.records import Record


class Interruption(Record):
    """From `at` (s) on a worker computes nothing for so many seconds; exchanges that are under way go on."""

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
        """Let a worker do nothing for so many seconds. Raises InputError for seconds below 0, or without end."""
        if not 0 <= seconds < math.inf:
            hint = "an interruption takes time, and it ends"
            raise InputError(Problem(f"worker {worker}: interrupt", "at least 0 s", f"{seconds:g} s", hint))
        self.pauses.setdefault(worker, []).append(Interruption(at, seconds))

    def slow_down(self, worker: int, factor: float, start: float, until: float) -> None:
        """Let compute of a worker take `factor` times as long between two times.

        Raises InputError for a factor below 1, and where it ends before it starts.
        """
        where = f"worker {worker}: slow_down"
        if not 1 <= factor < math.inf:
            hint = "a worker can be slowed down only"
            raise InputError(Problem(where, "a factor of at least 1", f"{factor:g}", hint))
        if not until >= start:
            raise InputError(
                Problem(where, f"an `until` from {start:g} s on", f"{until:g} s", "it ends after it starts")
            )
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
                elif pause.at <= low < pause.at + pause.seconds:  # it began while the worker waited
                    made[0, worker] += pause.at + pause.seconds - low
        return made
