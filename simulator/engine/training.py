"""One training iteration on SimPy: a compute stream and a communication stream that wait for each other."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import simpy

from simulator.engine.fold import fold
from simulator.engine.plan import Plan
from simulator.models.curves import Floats
from simulator.models.timeline import Iteration, Span, covered

Process = Generator[simpy.Event, Any, None]


@dataclass(frozen=True, slots=True)
class Draws:
    """How the workers differ in one iteration: compute factors (p,) and standard normal draws of the selection (p,)."""

    compute: Floats
    selection: Floats


ALIKE = Draws(np.ones(1), np.zeros(1))
"""All workers alike: one stands for all."""


def simulate(plan: Plan, draws: Draws = ALIKE) -> Iteration:
    """Run one iteration."""
    return _Run(plan, draws).iteration()


class _Run:
    """State of one iteration. The clock follows the slowest worker; `ready` (b,) is when all have a bucket."""

    def __init__(self, plan: Plan, draws: Draws) -> None:
        self.plan, self.work = plan, plan.work
        self.env = simpy.Environment()
        count = len(self.work.buckets)
        self.segments = self._segments(draws)
        self.slowdown = plan.runtime.compute_slowdown if plan.overlap else 0.0
        self.ready_event = [self.env.event() for _ in range(count)] if self.slowdown else []
        self.ready: list[float] = [0.0] * count
        self.done_at = [0.0] * count
        self.busy: list[tuple[float, float, str, int, bool]] = []
        self.gaps: list[tuple[float, float]] = []
        self.links = np.zeros((1, len(plan.wiring.capacity)))
        self.active = 0
        self.change = self.env.event()
        self.host = 0.0
        if self.slowdown:
            self.env.process(self._slowed_compute())
        else:
            # A collective starts when the slowest has come.
            self.ready = self.segments[:, 2::2].max(axis=0).tolist()
        if plan.concurrent:
            for index in range(count):
                self.env.process(self._exchange(index))
        else:
            self.env.process(self._communicate())
        self.env.run()

    def _segments(self, draws: Draws) -> Floats:
        """When each worker has computed each part: (workers, 2b + 1), forward, then per bucket backward, selection.

        Without overlap all of backward comes first. Columns are cumulated seconds.
        """
        work, factor = self.work, draws.compute[:, None]
        backward = work.backward * factor
        # A kernel can be slow without bound but not free: the normal spread is cut at half of its time.
        select = np.maximum(work.selection + draws.selection[:, None] * work.selection_spread, work.selection / 2)
        if not self.plan.overlap:
            backward = np.concatenate([backward.sum(axis=1, keepdims=True), np.zeros_like(backward)[:, 1:]], axis=1)
        parts = np.empty((len(backward), 1 + 2 * backward.shape[1]))
        parts[:, :1] = work.input_time + work.forward * factor
        parts[:, 1::2] = backward
        parts[:, 2::2] = select
        return np.cumsum(parts, axis=1)

    def _slowed_compute(self) -> Process:
        """Compute that runs slower while a collective is under way; all workers keep their proportions."""
        slowest = self.segments.max(axis=0)
        nominal = np.diff(slowest, prepend=0.0)
        stretched = np.zeros_like(slowest)
        for column, seconds in enumerate(nominal.tolist()):
            remaining = seconds
            while remaining > 1e-15 * max(1.0, self.env.now):  # below, the clock would not move
                began, pace = self.env.now, 1.0 / (1.0 + self.slowdown) if self.active else 1.0
                yield self.env.timeout(remaining / pace) | self.change
                remaining -= (self.env.now - began) * pace
            stretched[column] = self.env.now
            if column and column % 2 == 0:
                index = column // 2 - 1
                self.ready[index] = self.env.now
                self.ready_event[index].succeed()
        self.segments = self.segments * np.divide(stretched, slowest, out=np.ones_like(slowest), where=slowest > 0)

    def _issued(self, index: int) -> float:
        """When a bucket's exchange may start: ready everywhere, and the software before it has run.

        That is the next cycle of the runtime, and the host's launch, which runs beside earlier exchanges.
        """
        start, runtime = self.ready[index], self.plan.runtime
        if runtime.cycle_time:
            start = math.ceil(start / runtime.cycle_time - 1e-9) * runtime.cycle_time
        if runtime.collective_launch:
            start = self.host = max(self.host, start) + runtime.collective_launch
        return start

    def _communicate(self) -> Process:
        """The serial stream: one exchange after the other, first in first out.

        It runs ahead of the clock as far as it knows when the next bucket is ready, and lets the clock catch up before
        it has to wait for one.
        """
        env, clock, ready, note = self.env, 0.0, self.ready, self.busy.append
        software = self.plan.runtime.cycle_time or self.plan.runtime.collective_launch
        for index, stages in enumerate(self.plan.exchanges):
            if self.slowdown:
                yield self.ready_event[index]
                clock = max(clock, env.now)
            if stages:
                issued = self._issued(index) if software else ready[index]
                start = clock = max(clock, issued)
                for stage in stages:
                    end = clock + stage.seconds
                    note((clock, end, stage.label, index, stage.collective))
                    clock = end
                if self.slowdown:
                    yield env.timeout(start - env.now)
                    self._toggle(1)
                    yield env.timeout(max(0.0, clock - env.now))
                    self._toggle(-1)
            self.done_at[index] = max(clock, ready[index])
        yield env.timeout(max(0.0, clock - env.now))

    def _exchange(self, index: int) -> Process:
        """One of many exchanges under way at once; they meet on the links."""
        if self.slowdown:
            yield self.ready_event[index]
        if self.plan.exchanges[index]:
            yield self.env.timeout(max(0.0, self._issued(index) - self.env.now))
        for stage in self.plan.exchanges[index]:
            seconds, now = stage.seconds, self.env.now
            if stage.rounds is not None:
                began = np.full(self.plan.wiring.layout.places, now)
                overhead = self.plan.runtime.message_overhead
                seconds = (
                    float(fold(stage.rounds, self.plan.wiring, began, links=self.links, overhead=overhead).max()) - now
                )
            self._toggle(1)
            self.busy.append((now, now + seconds, stage.label, index, stage.collective))
            yield self.env.timeout(seconds)
            self._toggle(-1)
        self.done_at[index] = max(self.env.now, self.ready[index])

    def _toggle(self, by: int) -> None:
        self.active += by
        if self.slowdown and self.active == (1 if by > 0 else 0):
            self.change.succeed()
            self.change = self.env.event()

    def iteration(self) -> Iteration:
        """Where the time went, mean over workers; the terms sum to the iteration's seconds.

        After the last gradient, buckets are combined in order as they arrive, then comes the update.
        """
        work, at = self.work, self.segments
        mean = at.mean(axis=0) if len(at) > 1 else at[0]
        parts = np.diff(mean)
        computed = now = float(at[:, -1].max())
        for done, combine in zip(self.done_at, work.combine.tolist(), strict=True):
            if done > now:
                self.gaps.append((now, done))
                now = done
            now += combine
        kernels = [(start, end) for start, end, _, _, collective in self.busy if not collective]
        inside = sum(covered(kernels, start, stop) for start, stop in self.gaps) if kernels else 0.0
        gaps = sum(stop - start for start, stop in self.gaps)
        breakdown = {
            "forward": float(mean[0]) - work.input_time,
            "backward": float(parts[::2].sum()),
            "selection": float(parts[1::2].sum()),
            "communication_exposed": gaps - inside,
            "combine": float(work.combine.sum()) + inside,
            "update": work.update,
            "idle": work.input_time + computed - float(mean[-1]),
        }
        busy = [(start, end) for start, end, _, _, collective in self.busy if collective]
        # Only exchanges that are many at a time can overlap.
        total = covered(busy, 0.0, now) if self.plan.concurrent else sum(end - start for start, end in busy)
        ready = at[:, 2::2]
        waiting = float((ready.max(axis=0) - ready).mean(axis=0).sum()) if len(at) > 1 else 0.0
        return Iteration(now + work.update, breakdown, total, waiting, self._spans)

    def _spans(self) -> list[Span]:
        """Spans of the slowest worker at each point, for the timeline."""
        slowest = [0.0, *self.segments.max(axis=0).tolist()]
        spans = []
        for column, (start, end) in enumerate(pairwise(slowest)):
            if end > start:
                label = "forward" if column == 0 else ("backward" if column % 2 else "selection")
                spans.append(Span("compute", label, start, end, (column - 1) // 2 if column else -1))
        now = slowest[-1]
        for index, (done, combine) in enumerate(zip(self.done_at, self.work.combine.tolist(), strict=True)):
            now = max(now, done)
            if combine:
                spans.append(Span("compute", "combine", now, now + combine, index))
            now += combine
        spans.append(Span("compute", "update", now, now + self.work.update))
        spans.extend(
            Span("communication" if collective else "exchange kernel", label, start, end, index)
            for start, end, label, index, collective in self.busy
        )
        return spans
