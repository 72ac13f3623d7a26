"""Whether a training fits into the memory of its GPUs: the parts of one worker, their sum, and the smallest GPU."""

from __future__ import annotations

import math

from simulator.engine.plan.plan import Plan
from simulator.models.small_cache import ResultsOfObjects
from simulator.prediction.memory.exchange_buffers import buffer_parts, sharded_parts
from simulator.prediction.memory.parts import (
    FRAMEWORK,
    PART_LABELS,
    activation_part,
    method_parts,
    model_parts,
    outer_parts,
    update_parts,
)
from simulator.prediction.result_parts import MemoryUse
from simulator.scenario.scenario import Scenario
from simulator.schedulers.local_steps import LocalSteps
from simulator.sparsifiers.dense import Dense
from simulator.units import show_memory


def memory_of(scenario: Scenario, plan: Plan) -> MemoryUse:
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


_known: ResultsOfObjects[MemoryUse] = ResultsOfObjects(64)


def _memory_of(scenario: Scenario, plan: Plan) -> MemoryUse:
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
    parts = sorted(made, key=lambda part: order[part.name])
    known: dict[str, float | None] = {name: 0.0 for name in PART_LABELS}
    for part in parts:  # of local steps between sites, exchanges of both kinds have buffers
        known[part.name] = None if part.nbytes is None else (known[part.name] or 0.0) + part.nbytes
    # A single backward pass frees activations while it makes gradients (`zero_grad(set_to_none=True)` of PyTorch).
    shared = min(known["gradients"] or 0.0, known["activations"] or 0.0) if workload.micro_batches == 1 else 0.0
    gpus = [scenario.cluster.gpu, *(item.gpu for item in scenario.cluster.other_gpus)]
    smallest = min(gpus, key=lambda gpu: math.inf if gpu.memory_size is None else gpu.memory_size)
    total, least = math.fsum(part.nbytes or 0.0 for part in parts), math.fsum(part.least for part in parts) - shared
    unknown, capacity = [PART_LABELS[part.name] for part in parts if part.nbytes is None], smallest.memory_size
    fits = None
    if capacity is not None:  # not known where the sum may be too much, or is not whole
        fits = False if least > capacity else True if total <= capacity and not unknown else None
    return MemoryUse(
        parts=known,
        total=total,
        least=least,
        most=math.fsum(part.most for part in parts),
        capacity=capacity,
        gpu=smallest.name,
        fits=fits,
        not_known=unknown,
        details=parts,
    )


def describe_parts(memory: MemoryUse) -> str:
    """The parts in words, largest first, without those below 1 %."""
    known = sorted(((part.nbytes or 0.0, part.name) for part in memory.details or ()), reverse=True)
    large = [(nbytes, name) for nbytes, name in known if nbytes >= 0.01 * memory.total]
    left = memory.total - math.fsum(nbytes for nbytes, _ in large)
    parts = [f"{PART_LABELS[name]} {show_memory(nbytes)}" for nbytes, name in large]
    parts += [f"all else {show_memory(left)}"] if left > 0 and len(large) < len(known) else []
    text = ", ".join(parts)
    return text if not memory.not_known else f"{text}; without {' and '.join(memory.not_known)}, which are not known"
