"""One training iteration on SimPy: a compute stream and a communication stream that wait for each other."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from simulator.engine.fold import fold
from simulator.engine.plan import BucketPlan, Plan, Stage
from simulator.models.curves import Floats
from simulator.models.timeline import Iteration, Span, covered

Clock = Any
"""Seconds of each worker: a float where all are alike, an array (p,) where they differ."""
Process = Generator[simpy.Event, Any, None]


@dataclass(frozen=True, slots=True)
class Draws:
    """How the workers differ in one iteration: compute factors (p,) and standard normal draws of the selection (p,)."""

    compute: Floats
    selection: Floats


def simulate(plan: Plan, draws: Draws | None = None) -> Iteration:
    """Run one iteration; without `draws` all workers are alike and stand for one another."""
    run = _Run(plan, draws)
    run.env.run()
    return run.iteration()


class _Run:
    """State of one iteration. Times are those of `env`, which follows the slowest worker."""

    def __init__(self, plan: Plan, draws: Draws | None) -> None:
        self.env = simpy.Environment()
        self.plan = plan
        self.factor: Clock = 1.0 if draws is None else draws.compute
        self.normal: Clock = 0.0 if draws is None else draws.selection
        self.alike = draws is None
        self.ready = [self.env.event() for _ in plan.buckets]
        self.done = [self.env.event() for _ in plan.buckets]
        self.spans: list[Span] = []
        self.gaps: list[tuple[float, float]] = []
        self.links = np.zeros((1, len(plan.wiring.capacity)))
        self.active = 0
        self.change = self.env.event()
        self.host = 0.0
        self.ready_at = [0.0] * len(plan.buckets)
        self.waiting = 0.0
        self.terms = {"forward": 0.0, "backward": 0.0, "selection": 0.0}
        self.at: Clock = 0.0
        self.computed = 0.0
        self.env.process(self._compute())
        if any(stage.rounds is not None for item in plan.buckets for stage in item.stages):
            for item in plan.buckets:
                self.env.process(self._exchange(item))
        else:
            self.env.process(self._communicate())

    def _compute(self) -> Process:
        plan = self.plan
        self.at = plan.input_time
        yield self.env.timeout(plan.input_time)
        yield from self._work("forward", plan.forward * self.factor)
        if plan.overlap:
            for item in plan.buckets:
                yield from self._work("backward", item.backward * self.factor, item.bucket.index)
                yield from self._select(item)
        else:
            yield from self._work("backward", plan.backward * self.factor)
            for item in plan.buckets:
                yield from self._select(item)
        self.computed = self.env.now
        for item in plan.buckets:
            waited = self.env.now
            yield self.done[item.bucket.index]
            if self.env.now > waited:
                self.gaps.append((waited, self.env.now))
            if item.combine_time:
                yield from self._span("compute", "combine", item.combine_time, item.bucket.index)
        yield from self._span("compute", "update", plan.update)

    def _select(self, item: BucketPlan) -> Process:
        if item.selection_time:
            # A kernel can be slow without bound but not free: the normal spread is cut at half of its time.
            seconds = item.selection_time + self.normal * item.selection_spread
            floor = item.selection_time / 2
            seconds = max(seconds, floor) if self.alike else np.maximum(seconds, floor)
            yield from self._work("selection", seconds, item.bucket.index)
        if not self.alike:
            self.waiting += float(np.mean(self.env.now - self.at))
        self.ready_at[item.bucket.index] = self.env.now
        self.ready[item.bucket.index].succeed()

    def _work(self, label: str, seconds: Clock, bucket: int = -1) -> Process:
        """Compute on every worker; slower while a collective runs, where the runtime says so."""
        before, start = self.at, self.env.now
        slowdown = self.plan.runtime.compute_slowdown
        if slowdown and self.plan.overlap:
            nominal = seconds if self.alike else float(seconds.max())
            yield from self._slowed(nominal, 1.0 + slowdown)
            stretch = (self.env.now - start) / nominal if nominal else 1.0
            self.at = self.at + seconds * stretch
        else:
            self.at = self.at + seconds
        latest = self.at if self.alike else float(self.at.max())
        if latest > self.env.now:
            yield self.env.timeout(latest - self.env.now)
        spent = self.at - before
        self.terms[label] += spent if self.alike else float(spent.mean())
        if self.env.now > start:
            self.spans.append(Span("compute", label, start, self.env.now, bucket))

    def _slowed(self, nominal: float, factor: float) -> Process:
        remaining = nominal
        while remaining > 1e-15:
            began, pace = self.env.now, 1.0 / factor if self.active else 1.0
            yield self.env.timeout(remaining / pace) | self.change
            remaining -= (self.env.now - began) * pace

    def _communicate(self) -> Process:
        """The serial stream: one exchange after the other, first in first out."""
        for item in self.plan.buckets:
            yield self.ready[item.bucket.index]
            yield from self._start(item)
            for stage in item.stages:
                yield from self._stage(stage, item.bucket.index)
            self.done[item.bucket.index].succeed()

    def _exchange(self, item: BucketPlan) -> Process:
        """One of many exchanges under way at once; they meet on the links."""
        yield self.ready[item.bucket.index]
        yield from self._start(item)
        for stage in item.stages:
            if stage.rounds is not None:
                began = np.full(self.plan.wiring.layout.places, self.env.now)
                overhead = self.plan.runtime.message_overhead
                stage.seconds = float(fold(stage.rounds, self.plan.wiring, began, self.links, overhead).max())
                stage.seconds -= self.env.now
            yield from self._stage(stage, item.bucket.index)
        self.done[item.bucket.index].succeed()

    def _start(self, item: BucketPlan) -> Process:
        """Software before an exchange: the next cycle, and the host's launch, which runs beside earlier ones."""
        runtime = self.plan.runtime
        if not item.stages:
            return
        if runtime.cycle_time:
            cycles = math.ceil(self.env.now / runtime.cycle_time - 1e-9)
            yield self.env.timeout(max(0.0, cycles * runtime.cycle_time - self.env.now))
        if runtime.collective_launch:
            self.host = max(self.host, self.ready_at[item.bucket.index]) + runtime.collective_launch
            if self.host > self.env.now:
                yield self.env.timeout(self.host - self.env.now)

    def _stage(self, stage: Stage, bucket: int) -> Process:
        self._toggle(1)
        start = self.env.now
        if stage.seconds > 0:
            yield self.env.timeout(stage.seconds)
        stream = "communication" if stage.collective else "exchange kernel"
        self.spans.append(Span(stream, stage.label, start, self.env.now, bucket))
        self._toggle(-1)

    def _toggle(self, by: int) -> None:
        self.active += by
        if self.plan.runtime.compute_slowdown and self.active == (1 if by > 0 else 0):
            self.change.succeed()
            self.change = self.env.event()

    def _span(self, stream: str, label: str, seconds: float, bucket: int = -1) -> Process:
        start = self.env.now
        yield self.env.timeout(seconds)
        self.spans.append(Span(stream, label, start, self.env.now, bucket))

    def iteration(self) -> Iteration:
        """Where the time went, mean over workers; the terms sum to the iteration's seconds."""
        plan = self.plan
        end = max((span.end for span in self.spans), default=self.env.now)
        kernels = [(s.start, s.end) for s in self.spans if s.stream == "exchange kernel"]
        inside = sum(covered(kernels, start, stop) for start, stop in self.gaps)
        gaps = sum(stop - start for start, stop in self.gaps)
        combine = sum(item.combine_time for item in plan.buckets)
        mean_at = self.at if self.alike else float(self.at.mean())
        breakdown = dict(self.terms)
        breakdown["communication_exposed"] = gaps - inside
        breakdown["combine"] = combine + inside
        breakdown["update"] = plan.update
        breakdown["idle"] = plan.input_time + self.computed - mean_at
        busy = [(s.start, s.end) for s in self.spans if s.stream == "communication"]
        total = covered(busy, 0.0, end)
        return Iteration(end, breakdown, total, self.waiting, self.spans)
