"""Whether a training fits into the memory of its GPUs: the parts of one worker, their sum, and the smallest GPU."""

from __future__ import annotations

import math
from functools import cached_property

from simulator.engine.plan.plan import Plan
from simulator.hardware.gpu import Gpu
from simulator.models.small_cache import ResultsOfObjects
from simulator.prediction.memory.exchange_buffers import buffer_parts, sharded_parts
from simulator.prediction.memory.parts import (
    FRAMEWORK,
    PART_LABELS,
    MemoryPart,
    activation_part,
    method_parts,
    model_parts,
    outer_parts,
    update_parts,
)
from simulator.prediction.result_parts import MemoryUse
from simulator.records import Record
from simulator.scenario.scenario import Scenario
from simulator.schedulers.local_steps import LocalSteps
from simulator.sparsifiers.dense import Dense
from simulator.units import show_memory


class Memory(Record, dict=True):
    """The memory of one worker: its parts, in the order of `PART_LABELS`, and the GPU that has least of it.

    `overlap`: bytes of gradients whose memory may be that of activations, since a single backward pass frees these
    while it makes those (`zero_grad(set_to_none=True)` of PyTorch); they are not part of `least`.
    """

    parts: tuple[MemoryPart, ...]
    gpu: Gpu
    overlap: float = 0.0

    @cached_property
    def total(self) -> float:
        """Bytes of all known parts."""
        return math.fsum(part.nbytes or 0.0 for part in self.parts)

    @cached_property
    def least(self) -> float:
        """Bytes that are needed in any case."""
        return math.fsum(part.least for part in self.parts) - self.overlap

    @cached_property
    def most(self) -> float:
        """Bytes that the known parts need at most."""
        return math.fsum(part.most for part in self.parts)

    @cached_property
    def capacity(self) -> float | None:
        """Bytes of the GPU; None where they are not stated."""
        return self.gpu.memory_size

    @cached_property
    def exceeded(self) -> bool:
        """Whether the sum is more than the GPU has, although the least may fit."""
        return self.capacity is not None and self.total > self.capacity

    @cached_property
    def unknown(self) -> tuple[str, ...]:
        """Labels of the parts that are not known."""
        return tuple(PART_LABELS[part.name] for part in self.parts if part.nbytes is None)

    @cached_property
    def fits(self) -> bool | None:
        """Whether it fits: no where even the least is too much, yes where the sum fits and all is known; else None."""
        if self.capacity is None:
            return None
        if self.least > self.capacity:
            return False
        return True if self.total <= self.capacity and not self.unknown else None

    def described(self, lists: bool = True) -> MemoryUse:
        """The memory as part of a result; without `lists`, what a row of a table has columns for."""
        known: dict[str, float | None] = {}
        for part in self.parts:  # of local steps between sites, exchanges of both kinds have buffers
            known[part.name] = None if part.nbytes is None else (known.get(part.name) or 0) + part.nbytes
        return MemoryUse(
            parts={name: known.get(name, 0.0) for name in PART_LABELS},
            total=self.total,
            least=self.least,
            most=self.most,
            capacity=self.capacity,
            gpu=self.gpu.name,
            fits=self.fits,
            not_known=list(self.unknown) if lists else None,
            details=list(self.parts) if lists else None,
        )


def memory_of(scenario: Scenario, plan: Plan) -> Memory:
    """The memory of one worker of a scenario, whose buckets and payloads are those of `plan`.

    It is remembered, since points of a sweep that differ in their network share it.
    """
    cluster = scenario.cluster
    parts = (
        scenario.workload,
        scenario.sparsifier,
        scenario.scheduler,
        plan.of_step.work,
        plan.work,
        plan.setup.runtime,
        cluster.gpu,
        cluster.other_gpus,
    )
    return _known.get(parts, lambda: _memory_of(scenario, plan), cluster.workers)


_known: ResultsOfObjects[Memory] = ResultsOfObjects(64)


def _memory_of(scenario: Scenario, plan: Plan) -> Memory:
    inner, scheduler = plan.of_step, plan.setup.scheduler
    workload, method, workers = inner.setup.workload, scenario.sparsifier, plan.wiring.layout.workers
    buckets = [bucket.pieces for bucket in plan.work.buckets]
    made = [activation_part(workload), FRAMEWORK]
    if inner.setup.sharding is not None:
        made += sharded_parts(inner)
    made += [*model_parts(workload), *update_parts(workload)]
    if inner is not plan:
        made += buffer_parts(workload, Dense(), inner)
        workload = plan.setup.workload
    if workers > 1 and isinstance(scheduler, LocalSteps):
        differences = scheduler.sends_differences or not isinstance(method, Dense)
        made += outer_parts(workload, scheduler, differences)
    if workers > 1:
        made += [*method_parts(workload, method, buckets), *buffer_parts(workload, method, plan)]
    order = {name: place for place, name in enumerate(PART_LABELS)}
    gradients, activations = (
        next(part.nbytes or 0.0 for part in made if part.name == name) for name in ("gradients", "activations")
    )
    overlap = min(gradients, activations) if workload.micro_batches == 1 else 0.0
    return Memory(tuple(sorted(made, key=lambda part: order[part.name])), smallest_gpu(scenario), overlap)


def smallest_gpu(scenario: Scenario) -> Gpu:
    """The GPU of the cluster with the least memory, of those that state it."""
    gpus = [scenario.cluster.gpu, *(item.gpu for item in scenario.cluster.other_gpus)]
    return min(gpus, key=lambda gpu: math.inf if gpu.memory_size is None else gpu.memory_size)


def describe_parts(memory: Memory, smallest: float = 0.01) -> str:
    """The parts in words, largest first, without those below a share of `smallest`."""
    known = sorted(((part.nbytes or 0.0, part.name) for part in memory.parts), reverse=True)
    large = [(nbytes, name) for nbytes, name in known if nbytes >= smallest * memory.total]
    left = memory.total - math.fsum(nbytes for nbytes, _ in large)
    parts = [f"{PART_LABELS[name]} {show_memory(nbytes)}" for nbytes, name in large]
    parts += [f"all else {show_memory(left)}"] if left > 0 and len(large) < len(known) else []
    text = ", ".join(parts)
    return text if not memory.unknown else f"{text}; without {' and '.join(memory.unknown)}, which are not known"
