"""The communication stream: in which order exchanges go, and when each ends."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np
import simpy

from simulator.engine.plan.plan import Plan
from simulator.engine.plan.stages import Stage
from simulator.engine.rounds.fold import fold
from simulator.engine.rounds.network import Network
from simulator.models.curves import Floats

Process = Generator[simpy.Event, Any, None]
Busy = tuple[float, float, str, int, bool]
"""Start, end, label, bucket, and whether it was a collective (rather than a kernel inside an exchange)."""


class _Software:
    """The runtime's steps before an exchange: its next cycle, and the host's launch, during earlier exchanges."""

    def __init__(self, plan: Plan) -> None:
        self.runtime, self.host = plan.runtime, 0.0
        self.any = bool(self.runtime.cycle_time or self.runtime.collective_launch)

    def issued(self, ready: float) -> float:
        """When an exchange that is ready may start."""
        start, runtime = ready, self.runtime
        if runtime.cycle_time:
            start = math.ceil(start / runtime.cycle_time - 1e-9) * runtime.cycle_time
        if runtime.collective_launch:
            start = self.host = max(self.host, start) + runtime.collective_launch
        return start


def serial(plan: Plan, ready: list[float]) -> tuple[list[float], list[Busy]]:
    """One exchange after the other, every duration known: when each bucket is done, and what was busy when.

    First in, first out; or, by priority, whatever the next forward pass needs first of what is ready. Second halves of
    decoupled exchanges follow when all first halves are done.
    """
    software, busy = _Software(plan), list[Busy]()
    if plan.scheduler.by_priority:
        done = _by_priority(plan, ready, software, busy)
    else:
        done, clock, note = list(ready), 0.0, busy.append
        for index in plan.order:
            stages = plan.exchanges[index]
            if stages:
                clock = max(clock, software.issued(ready[index]) if software.any else ready[index])
                for stage in stages:
                    end = clock + stage.seconds
                    note((clock, end, stage.label, index, stage.collective))
                    clock = end
            done[index] = max(clock, ready[index])
    if plan.scheduler.decoupled:
        _second_halves(plan, done, busy, software)
    return done, busy


def _by_priority(plan: Plan, ready: list[float], software: _Software, busy: list[Busy]) -> list[float]:
    """Of what is ready, the highest priority is handed over, up to the credit; what was handed over goes in order."""
    done, clock, now = list(ready), 0.0, 0.0
    arriving = deque(sorted(range(len(ready)), key=lambda index: (ready[index], index)))
    waiting: list[tuple[int, int]] = []
    handed: deque[tuple[int, float]] = deque()
    under_way: deque[tuple[float, float]] = deque()
    credit = _Credit(plan)
    while arriving or waiting or handed:
        while arriving and ready[arriving[0]] <= now:
            index = arriving.popleft()
            heappush(waiting, (plan.priority[index], index))
        while under_way and under_way[0][0] <= now:
            credit.back(under_way.popleft()[1])
        while waiting and credit.allows(plan.nbytes[waiting[0][1]]):
            index = heappop(waiting)[1]
            credit.take(plan.nbytes[index])
            handed.append((index, now))
        if handed and clock <= now:
            index, since = handed.popleft()
            if not plan.exchanges[index]:
                credit.back(plan.nbytes[index])
                continue
            clock = max(now, software.issued(since) if software.any else since)
            for stage in plan.exchanges[index]:
                busy.append((clock, clock + stage.seconds, stage.label, index, stage.collective))
                clock += stage.seconds
            done[index] = clock
            under_way.append((clock, plan.nbytes[index]))
            continue
        upcoming = [ready[arriving[0]]] if arriving else []
        if under_way:
            upcoming.append(under_way[0][0])
        now = max(now, min(upcoming))  # what waits for credit waits for something under way
    return done


class _Credit:
    """Bytes that may be handed over at once; one exchange always may."""

    def __init__(self, plan: Plan) -> None:
        limit = plan.scheduler.in_flight
        self.limit = math.inf if limit is None else limit
        self.out, self.count = 0.0, 0

    def allows(self, nbytes: float) -> bool:
        """Whether so many more bytes may be handed over."""
        return not self.count or self.out + nbytes <= self.limit

    def take(self, nbytes: float) -> None:
        """Hand over."""
        self.out, self.count = self.out + nbytes, self.count + 1

    def back(self, nbytes: float) -> None:
        """An exchange has ended."""
        self.count -= 1
        self.out = self.out - nbytes if self.count else 0.0


def _second_halves(plan: Plan, done: list[float], busy: list[Busy], software: _Software) -> None:
    """The all-gathers of decoupled exchanges, in forward order, once everything is reduced."""
    reduced = clock = max(done, default=0.0)
    for index in sorted(range(len(done)), key=lambda index: (plan.priority[index], index)):
        if plan.second_halves[index] and software.any:
            clock = max(clock, software.issued(reduced))
        for stage in plan.second_halves[index]:
            busy.append((clock, clock + stage.seconds, stage.label, index, stage.collective))
            clock += stage.seconds
            done[index] = clock


class Slowed:
    """Compute that runs slower while a collective is under way; all workers keep their proportions.

    `slowest` (2b + 1,) are the nominal times of the slowest worker, cumulated.
    """

    def __init__(self, env: simpy.Environment, slowest: Floats, slowdown: float) -> None:
        self.env, self.slowest, self.slowdown = env, slowest, slowdown
        self.stretched = np.zeros_like(slowest)
        self.active, self.change = 0, env.event()

    def toggle(self, by: int) -> None:
        """A collective starts or ends."""
        self.active += by
        if self.active == (1 if by > 0 else 0):
            self.change.succeed()
            self.change = self.env.event()

    def stretch(self) -> Floats:
        """Actual over nominal times."""
        nominal = self.slowest
        return np.divide(self.stretched, nominal, out=np.ones_like(nominal), where=nominal > 0)

    def compute(self, live: Live) -> Process:
        """Run, and hand every bucket to the stream when it is ready."""
        base = self.env.now
        for column, seconds in enumerate(np.diff(self.slowest, prepend=0.0).tolist()):
            remaining = seconds
            while remaining > 1e-15 * max(1.0, self.env.now):  # below, the clock would not move
                began, pace = self.env.now, 1.0 / (1.0 + self.slowdown) if self.active else 1.0
                yield self.env.timeout(remaining / pace) | self.change
                remaining -= (self.env.now - began) * pace
            self.stretched[column] = self.env.now - base
            if column and column % 2 == 0:
                live.admit(column // 2 - 1)


class Live:
    """Exchanges whose durations are not known beforehand: they meet others on the links, or slow the compute down."""

    def __init__(self, plan: Plan, env: simpy.Environment, network: Network | None) -> None:
        self.plan, self.env, self.network, self.base = plan, env, network, env.now
        count = len(plan.exchanges)
        self.done_at, self.busy = [0.0] * count, list[Busy]()
        self.software, self.credit = _Software(plan), _Credit(plan)
        self.waiting: list[tuple[int, int]] = []
        self.left, self.finished = count, env.event()
        self.stream = simpy.Resource(env, capacity=count if plan.concurrent else 1)
        self.links = np.zeros((1, len(plan.wiring.capacity)))
        self.slowed: Slowed | None = None
        self.since: dict[int, float] = {}
        self.handing = False
        self.turn = {index: turn for turn, index in enumerate(plan.order)}
        self.next_turn = 0

    def run(self, ready: Sequence[float], slowed: Slowed | None) -> Process:
        """Until all exchanges have ended."""
        self.slowed = slowed
        self.env.process(slowed.compute(self) if slowed is not None else self._arrivals(ready))
        yield self.finished
        if self.plan.scheduler.decoupled:
            order = sorted(range(len(self.done_at)), key=lambda index: (self.plan.priority[index], index))
            reduced = self.env.now - self.base
            for index in order:
                if self.plan.second_halves[index]:
                    issued = self.software.issued(reduced) if self.software.any else reduced
                    yield self.env.timeout(max(0.0, self.base + issued - self.env.now))
                    yield from self._stages(index, self.plan.second_halves[index])

    def admit(self, index: int) -> None:
        """A bucket is ready everywhere."""
        first = self.plan.priority[index] if self.plan.scheduler.by_priority else self.turn[index]
        heappush(self.waiting, (first, index))
        self.since[index] = self.env.now - self.base
        if not self.handing:
            # Not before all that are ready at this instant have come.
            self.handing = True
            self.env.process(self._soon())

    def _soon(self) -> Process:
        yield self.env.timeout(0.0)
        self.handing = False
        self._hand_over()

    def _arrivals(self, ready: Sequence[float]) -> Process:
        for index in sorted(range(len(ready)), key=lambda index: (ready[index], index)):
            wait = self.base + ready[index] - self.env.now
            if wait > 0:
                yield self.env.timeout(wait)
            self.admit(index)
        yield self.env.timeout(0.0)

    def _hand_over(self) -> None:
        in_turn = not (self.plan.concurrent or self.plan.scheduler.by_priority)
        while self.waiting and self.credit.allows(self.plan.nbytes[self.waiting[0][1]]):
            if in_turn and self.waiting[0][0] != self.next_turn:
                return
            self.next_turn += 1
            index = heappop(self.waiting)[1]
            self.credit.take(self.plan.nbytes[index])
            self.env.process(self._exchange(index))

    def _exchange(self, index: int) -> Process:
        stages = self.plan.exchanges[index]
        since = self.env.now - self.base if self.plan.scheduler.by_priority else self.since[index]
        issued = self.software.issued(since) if stages and self.software.any else since
        with self.stream.request() as turn:
            yield turn
            yield self.env.timeout(max(0.0, self.base + issued - self.env.now))
            yield from self._stages(index, stages)
        self.credit.back(self.plan.nbytes[index])
        self._hand_over()
        self.left -= 1
        if not self.left:
            self.finished.succeed()

    def _stages(self, index: int, stages: Sequence[Stage]) -> Process:
        for stage in stages:
            if self.slowed is not None:
                self.slowed.toggle(1)
            began = self.env.now
            if stage.seconds:
                yield self.env.timeout(stage.seconds)
            if stage.shape and self.network is not None:
                yield self.network.start(stage.shape).done
            elif stage.rounds:
                yield self.env.timeout(self._folded(stage))
            if self.slowed is not None:
                self.slowed.toggle(-1)
            self.busy.append((began - self.base, self.env.now - self.base, stage.label, index, stage.collective))
        self.done_at[index] = self.env.now - self.base

    def _folded(self, stage: Stage) -> float:
        """Exchanges that meet on the links first in, first out."""
        began = np.full(self.plan.wiring.layout.places, self.env.now)
        overhead = self.plan.runtime.message_overhead
        ends = fold(stage.rounds or [], self.plan.wiring, began, links=self.links, overhead=overhead)
        return float(ends.max()) - self.env.now
