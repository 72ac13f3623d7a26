"""When each task of a graph ran: what every way to run a graph returns, and all terms and spans are read from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from simulator.engine.clock.numbers import Numbers, Seconds
from simulator.models.curves import Floats
from simulator.models.graph import Graph
from simulator.records import Record, Struct, field


class Busy(NamedTuple):
    """A part of an exchange: start, end, label, bucket, and whether it is a collective (rather than a kernel).

    `sending`: when its first message used its links; before, all queued behind others, and the host started the call.
    `times`: how often it takes place in a row.
    """

    start: float
    end: float
    label: str
    bucket: int
    collective: bool
    sending: float = -math.inf
    times: int = 1


class State(Record):
    """What a period leaves to the next one: when each worker is there, when the communication stream is free, when each
    task started and ended, and the collectives that are still under way then."""

    now: Seconds
    free: Seconds
    starts: Sequence[Seconds]
    ends: Sequence[Seconds]
    under_way: tuple[tuple[float, float], ...] = ()


class Intervals(Struct, eq=False):
    """Start and end of every task of n iterations, in seconds: numbers, or (n, 1), or (n, w) where workers differ.

    `began`: when each worker began. Tasks that wait for an iteration before take no time where there was none.
    `busy`: the parts of exchanges of a single iteration that the clock followed event by event; None where they follow
    from the start of each exchange. `before`: when tasks of the period before started, whose exchanges may still be
    under way. `alone`: seconds by itself of each task that exchanges may slow down. `known`: parts that were asked for.
    """

    graph: Graph
    numbers: Numbers
    start: list[Seconds]
    end: list[Seconds]
    began: Seconds = 0.0
    busy: list[Busy] | None = None
    before: Sequence[Seconds] = ()
    state: State | None = None
    alone: Mapping[int, Seconds] = field(default_factory=dict)
    known: dict[tuple[int, int], list[Busy]] = field(default_factory=dict)

    def slowed(self, place: int) -> Seconds:
        """Seconds by which exchanges made a task longer."""
        return self.end[place] - (self.start[place] + self.alone[place]) if place in self.alone else 0.0

    def of_point(self, values: Seconds, number: int) -> Floats:
        """The seconds of one iteration, (1,) or (w,)."""
        return np.array([values]) if isinstance(values, float) else values[number]

    def rows(self, values: Sequence[Seconds], number: int) -> Floats:
        """The seconds of one iteration, a row (1,) or (w,) of each of these."""
        if self.numbers.is_scalar:
            return np.array(values)[:, None]
        return np.array(np.broadcast_arrays(*(self.of_point(seconds, number) for seconds in values)))

    def earlier(self, worker: int = 0) -> list[Busy]:
        """The parts of a worker's exchanges that the period before has left under way."""
        left = self._parts_of(self.before, 0, worker) if self.before and self.busy is None else []
        there = float(np.min(self.began))
        return [part for part in left if part.end > there]

    def parts(self, number: int = 0, worker: int = 0) -> list[Busy]:
        """The parts of a worker's exchanges in one iteration, in the order of the graph."""
        if self.busy is not None:
            return self.busy
        if (number, worker) not in self.known:
            self.known[number, worker] = self._parts_of(self.start, number, worker)
        return self.known[number, worker]

    def _parts_of(self, starts: Sequence[Seconds], number: int, worker: int) -> list[Busy]:
        plan, made = self.numbers.points[number][0], list[Busy]()
        for place in self.graph.exchanges:
            task, start = self.graph.tasks[place], starts[place]
            clock = float(start if isinstance(start, float) else start[number].take(worker, mode="clip"))
            for stage in plan.stages_of(task):
                end = clock + stage.seconds
                made.append(Busy(clock, end, stage.label, task.bucket, stage.collective, -math.inf, task.cost.times))
                clock = end
        return made
