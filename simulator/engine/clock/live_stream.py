"""The communication stream where exchanges share links with others or slow down the compute: event by event."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np
import simpy

from simulator.engine.clock.software import Busy, Credit, Software
from simulator.engine.plan.plan import Plan
from simulator.engine.plan.stages import Stage
from simulator.engine.rounds.fold import fold
from simulator.engine.rounds.network import Network
from simulator.models.curves import Floats

Process = Generator[simpy.Event, Any, None]


class SlowedCompute:
    """Compute that runs slower while a collective is under way; the proportions between workers stay the same.

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

    def run(self, live: LiveStream) -> Process:
        """Compute, and hand every bucket to the stream when it is ready."""
        base = self.env.now
        for column, seconds in enumerate(np.diff(self.slowest, prepend=0.0).tolist()):
            remaining = seconds
            while remaining > 1e-15 * self.env.now:  # the clock would not move for less
                began, pace = self.env.now, 1.0 / (1.0 + self.slowdown) if self.active else 1.0
                yield self.env.timeout(remaining / pace) | self.change
                remaining -= (self.env.now - began) * pace
            self.stretched[column] = self.env.now - base
            if column and column % 2 == 0:
                live.admit(column // 2 - 1)


class LiveStream:
    """The communication stream where durations are not known beforehand.

    Exchanges share links with others, find token buckets as earlier ones left them, or slow down the compute. Where
    workers push at their own pace, an exchange is under way from its first push on. `streams`: those of exchanges that
    may still be under way. `done`: an event for each bucket, with the time of its exchange's end.
    """

    def __init__(
        self,
        plan: Plan,
        env: simpy.Environment,
        network: Network | None,
        links: Floats,
        streams: list[simpy.Resource] | None = None,
    ) -> None:
        self.plan, self.env, self.network, self.links, self.base = plan, env, network, links, env.now
        count = len(plan.exchanges)
        self.done_at, self.busy = [0.0] * count, list[Busy]()
        self.software, self.credit = Software(plan), Credit(plan)
        self.waiting: list[tuple[int, int]] = []
        self.left, self.finished = count, env.event()
        most = count if plan.concurrent else 1
        self.streams = streams or [simpy.Resource(env, capacity=most) for _ in range(plan.scheduler.streams)]
        self.done = [env.event() for _ in range(count)]
        self.slowed: SlowedCompute | None = None
        self.since: dict[int, float] = {}
        self.handing = False
        self.handed, self.in_order = [0.0] * count, plan.network.topology.works_in_order
        self.turn = {index: turn for turn, index in enumerate(plan.order)}
        self.next_turn = 0
        self.own: Floats | None = None

    def run(self, ready: Sequence[float], slowed: SlowedCompute | None, own: Floats | None = None) -> Process:
        """Run until all exchanges have ended; `own` (w, b): when each worker can push each bucket."""
        self.slowed, self.own = slowed, own
        if own is not None:
            ready = own.min(axis=0).tolist()
        self.env.process(slowed.run(self) if slowed is not None else self._arrivals(ready))
        yield self.finished
        if self.plan.scheduler.decoupled:
            order = sorted(range(len(self.done_at)), key=lambda index: (self.plan.priority[index], index))
            reduced = self.env.now - self.base
            halves = [index for index in order if self.plan.second_halves[index]]
            starts = {index: self.software.start_of(reduced) if self.software.any else reduced for index in halves}
            count = len(self.streams)
            parts = [{index: starts[index] for index in halves[number::count]} for number in range(count)]
            yield self.env.all_of([self.env.process(self._run_second_halves(*part)) for part in enumerate(parts)])

    def _run_second_halves(self, number: int, starts: Mapping[int, float]) -> Process:
        """The second halves that stream `number` runs, one after the other, from their earliest starts on."""
        for index, start in starts.items():
            yield self.env.timeout(max(0.0, self.base + start - self.env.now))
            yield from self._run_stages(index, self.plan.second_halves[index], number)

    def admit(self, index: int) -> None:
        """A bucket is ready on all workers."""
        first = self.plan.priority[index] if self.plan.scheduler.queue.by_priority else self.turn[index]
        heappush(self.waiting, (first, index))
        self.since[index] = self.env.now - self.base
        if not self.handing:
            # Buckets that become ready at the same instant are handed over together.
            self.handing = True
            self.env.process(self._hand_over_soon())

    def _hand_over_soon(self) -> Process:
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
        in_turn = not (self.plan.concurrent or self.plan.scheduler.queue.by_priority)
        while self.waiting and self.credit.allows(self.plan.nbytes[self.waiting[0][1]]):
            if in_turn and self.waiting[0][0] != self.next_turn:
                return
            number = self.next_turn % len(self.streams)
            self.next_turn += 1
            index = heappop(self.waiting)[1]
            self.credit.take(self.plan.nbytes[index])
            self.handed[index] = float(self.next_turn) if self.in_order else 0.0
            self.env.process(self._exchange(index, number))

    def _exchange(self, index: int, number: int) -> Process:
        stages = self.plan.exchanges[index]
        since = self.env.now - self.base if self.plan.scheduler.queue.by_priority else self.since[index]
        own: Floats | None = None
        if self.own is not None and stages:
            own = self.base + self.software.starts_of(self.own[:, index])
            start = float(own.min()) - self.base
        else:
            start = self.software.start_of(since) if stages and self.software.any else since
        with self.streams[number].request() as turn:
            yield turn
            yield self.env.timeout(max(0.0, self.base + start - self.env.now))
            yield from self._run_stages(index, stages, number, own)
        self.credit.give_back(self.plan.nbytes[index])
        self._hand_over()
        self.done[index].succeed(self.env.now)
        self.left -= 1
        if not self.left:
            self.finished.succeed()

    def _run_stages(self, index: int, stages: Sequence[Stage], number: int, own: Floats | None = None) -> Process:
        """The stages of an exchange; `own` (w,): when each worker starts with the first of them, None: all now."""
        for stage in stages:
            if self.slowed is not None:
                self.slowed.toggle(1)
            began = self.env.now
            if stage.seconds:
                yield self.env.timeout(stage.seconds)
                own = None if own is None else own + stage.seconds
            if stage.shape and self.network is not None:
                ready = None if own is None else self._ready(own)
                yield self.network.start(stage.shape, ready, turn=self.handed[index], stream=number).done
            elif stage.rounds:
                yield self.env.timeout(self._fold_stage(stage, own))
            own = None if stage.rounds else own
            if self.slowed is not None:
                self.slowed.toggle(-1)
            self.busy.append((began - self.base, self.env.now - self.base, stage.label, index, stage.collective))
        if own is not None:
            yield self.env.timeout(max(0.0, float(own.max()) - self.env.now))
        self.done_at[index] = self.env.now - self.base

    def _ready(self, own: Floats) -> Floats:
        """When each place may start, (P,): every worker of this job at its own time, and all others now."""
        made = np.full(len(self.plan.wiring.node), self.env.now)
        made[: len(own)] = np.maximum(own, self.env.now)
        return made

    def _fold_stage(self, stage: Stage, own: Floats | None) -> float:
        """Seconds of a stage whose exchanges use the links first in, first out."""
        began = np.full(self.plan.wiring.layout.places, self.env.now) if own is None else self._ready(own)
        overhead = self.plan.runtime.message_overhead
        ends = fold(stage.rounds or [], self.plan.wiring, began, links=self.links, overhead=overhead)
        return float(ends.max()) - self.env.now
