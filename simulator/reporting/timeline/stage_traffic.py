"""The bytes that every stage of every exchange sends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.phases import phases_of, traffic_of
from simulator.engine.plan.plan import Plan, Stage, join_stages
from simulator.engine.plan.work.kernels import Kernel
from simulator.engine.plan.work.shared_work import add_up
from simulator.models.curves import Floats
from simulator.models.exchange import Communication, Ints
from simulator.models.sharding import AXIS_OF
from simulator.models.timeline import Span
from simulator.records import Record, field
from simulator.scenario.scenario import Scenario
from simulator.topologies.base import Rounds


def _sent_by(steps: Sequence[Communication], network: NetworkSetup, gpus: int) -> Floats:
    """Bytes that so many GPUs send in each of the steps (s,), in groups with such a network each."""
    wiring = network.wiring
    sent = ((float(traffic_of(each, wiring).sent.sum()) for each in phases_of(step, 0, network)) for step in steps)
    return gpus / wiring.layout.workers * np.array([*map(math.fsum, sent)])


_SAME = 1e-12
"""Share of a time by which two that are the same may differ by rounding."""


class StageTraffic(Record, dict=True):
    """Bytes of stages: the sum over their messages, and the bytes over each of `links` (k,), the busiest ones."""

    scenario: Scenario
    plan: Plan
    links: Ints
    _known: dict[tuple[int, int], tuple[float, Floats]] = field(default_factory=dict)

    def bytes_of(self, span: Span, place: int) -> tuple[float, Floats]:
        """Bytes that a span sends, the `place`-th stage of its bucket's exchange, and those over each link (k,)."""
        if span.label in AXIS_OF:
            known = self._on_axes.get(span.label)  # a kernel sends nothing
            return 0.0 if known is None else span.times * float(known[span.bucket]), self._nothing[1]
        if self.plan.setup.alone:
            stages = self.plan.work.whole_chains[span.bucket]
            item = stages[place % len(stages)]  # every micro-batch may exchange them again
            return self._nothing if isinstance(item, Kernel) else self._steps[item]
        if (span.bucket, place) not in self._known:
            self._known[span.bucket, place] = self._add_up([self._stage_of(span, place).rounds or []])
        return self._known[span.bucket, place]

    def queued_until(self, span: Span, place: int) -> float:
        """When the messages of a stage got their links, if they queued longer than its call takes; else its start."""
        if span.sending <= span.start or not self.plan.live:
            return span.start
        called = span.start + self._stage_of(span, place).seconds
        return span.sending if span.sending > called + _SAME * (1.0 + called) else span.start

    def _stage_of(self, span: Span, place: int) -> Stage:
        stages = self._stages[span.bucket]
        if place < len(stages) and stages[place].label == span.label:
            return stages[place]
        return join_stages(stages)[place]  # workers go at their own pace from one stage to the next

    @cached_property
    def _stages(self) -> list[list[Stage]]:
        return [[*first, *second] for first, second in zip(*self.plan.exchanges, strict=True)]

    @cached_property
    def _steps(self) -> list[tuple[float, Floats]]:
        """Every kind of communication once: where exchanges do not overlap, buckets share them."""
        plan = self.plan
        return [self._add_up(phases_of(step, 0, plan.setup.network, protocol=False)) for step in plan.work.steps]

    @cached_property
    def _on_axes(self) -> dict[str, Floats]:
        """Bytes that all groups of GPUs send that share a sharded model, or divide layers, in the collectives of each
        unit."""
        gpus, axes = self.plan.setup.groups * self.plan.wiring.layout.workers, self.plan.axes
        return add_up(axes, (_sent_by(axis.steps, axis.network, gpus) for axis in axes))

    @property
    def _nothing(self) -> tuple[float, Floats]:
        return 0.0, np.zeros(len(self.links))

    def _add_up(self, phases: list[Rounds]) -> tuple[float, Floats]:
        total, links = self._nothing
        groups = self.plan.setup.groups  # all parts of a model are exchanged at the same time
        for rounds in phases:
            traffic = traffic_of(rounds, self.plan.wiring)
            total, links = total + groups * float(traffic.sent.sum()), links + traffic.links[self.links]
        return total, links
