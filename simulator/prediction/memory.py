"""Whether a training fits into the memory of its GPUs: all parts of one worker, their sum, and what would help."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from simulator.architectures.describing import describe_again, recompute_fully
from simulator.engine.plan.plan import Plan
from simulator.errors import InputError, Problem
from simulator.models.exchange import AllGather, Communication, PushPull, bytes_of_step
from simulator.models.layers import MAX_MICRO_BATCHES, Workload
from simulator.models.optimisers import Optimiser
from simulator.models.precision import Precision
from simulator.models.sharding import HALVES, wire_bytes
from simulator.models.small_cache import ResultsOfObjects
from simulator.prediction.job_setup import plan_sizes
from simulator.prediction.memory_parts import (
    FRAMEWORK,
    PART_LABELS,
    MemoryPart,
    activation_part,
    cast_parts,
    exact,
    method_parts,
    model_parts,
    outer_parts,
    update_parts,
    working_parts,
)
from simulator.prediction.result_parts import MemoryUse
from simulator.records import replace
from simulator.scenario.changes import with_value
from simulator.scenario.named_parts import shipped_gpus
from simulator.scenario.scenario import Scenario
from simulator.schedulers.local_steps import LocalSteps
from simulator.schedulers.sharded import Sharded
from simulator.sparsifiers.base import Sparsifier
from simulator.sparsifiers.dense import Dense
from simulator.units import show_memory


def buffer_parts(workload: Workload, method: Sparsifier, plan: Plan) -> Iterator[MemoryPart]:
    """What an exchange needs beside gradients and residuals; nothing with one worker."""
    if plan.wiring.layout.workers > 1:
        if plan.setup.sharding is None:
            yield from _buckets(workload, method, plan)
        if isinstance(method, Dense):
            yield from _dense_payloads(workload, method, plan)
        else:  # at most those of all buckets, at least the largest
            sizes = _by_bucket(plan, Communication)
            how = "what a worker sends and what it gets from all others, kept until it is combined"
            yield MemoryPart("exchange", math.fsum(sizes), max(sizes), math.fsum(sizes), how)


def _buckets(workload: Workload, method: Sparsifier, plan: Plan) -> Iterator[MemoryPart]:
    """The buffers that tensors are copied to: in PyTorch DDP of all gradients, elsewhere of the largest bucket."""
    if plan.setup.runtime.fills_buckets or (plan.setup.runtime.framework == "pytorch-ddp" and plan.inside is None):
        nbytes = float(workload.precision.gradient_bytes * workload.numel)
        how = "PyTorch DDP keeps a copy of all gradients; none with `gradient_as_bucket_view`"
        yield MemoryPart("buckets", nbytes, 0.0, nbytes, how)
        return
    packed = [float(item.value_bytes * item.numel) for item in plan.work.buckets if len(item.pieces) > 1]
    if packed and isinstance(method, Dense):
        how = "the largest buffer that several tensors are copied to; at most those of all buckets"
        yield MemoryPart("buckets", max(packed), 0.0, math.fsum(packed), how)


def _dense_payloads(workload: Workload, method: Dense, plan: Plan) -> Iterator[MemoryPart]:
    """Dense gradients are summed where they lie; what is cast to travel, or gathered as rows, is not."""
    precision, held = workload.precision, 0.0
    if precision.sent_as != precision.gradients:
        held += max(float(item.value_bytes * item.numel) for item in plan.work.buckets)
    if method.indexed_slices:
        held += math.fsum(_by_bucket(plan, AllGather))
    if held:
        yield exact("exchange", held, "what is cast or gathered in order to travel")


def _by_bucket(plan: Plan, kinds: Any) -> list[float]:
    """Bytes of the payloads of these kinds, bucket by bucket."""
    work, workers = plan.work, plan.wiring.layout.workers
    sizes = [payload_bytes(step, workers) if isinstance(step, kinds) else 0.0 for step in work.steps]
    return [math.fsum(sizes[item] for item in chain if isinstance(item, int)) for chain in work.whole_chains]


def payload_bytes(step: Communication, workers: int) -> float:
    """Bytes of the result of a step on a worker: of a gather the payloads of all, with servers what goes and comes."""
    sent, received = bytes_of_step(step, workers)
    return float(sent + received if isinstance(step, PushPull) else received)


def sharded_parts(plan: Plan) -> Iterator[MemoryPart]:
    """Whole parameters that are there at a time, and whole gradients; none of a model that no GPUs share."""
    scheduler, sharding = plan.setup.scheduler, plan.setup.sharding
    if not isinstance(scheduler, Sharded) or sharding is None or sharding.size == 1:
        return
    gathers, wire, layout = scheduler.gather_wire, scheduler.reduce_wire, sharding.network.wiring.layout
    gathered, units = (
        [sum(numels[layer] for layer in bucket.layers) for bucket in plan.work.buckets]
        for numels in (sharding.gathered, sharding.numels)
    )
    owned = math.fsum(numel / size for numel, size in zip(sharding.numels, sharding.sizes, strict=True))
    kept = 0.0
    if scheduler.in_place and sharding.computed == sharding.reduced:
        kept = owned
    copies = scheduler.copies
    held, waiting = scheduler.gathered_at_once(gathered), scheduler.reduced_at_once(units, plan.work.passes.count)
    width, sent = sharding.computed, sharding.reduced
    how = f"{width} B for each of {held:,.0f} parameters that are gathered at a time"
    buffer = width * copies.out if gathers is None else wire_bytes(gathers)
    second = sum(gathered) / layout.gpus_per_node if copies.in_nodes and layout.nodes > 1 else 0.0
    how += f", and for each of {second:,.0f} of a second copy" if second else ""
    yield _with_buffer("gathered", width * (held - kept + second), buffer * max(gathered), how)
    kept = kept if waiting == held else 0.0
    if not copies.into:  # they are made in the buffer of their reduction, which holds the GPU's part, too
        kept, width = owned, sent
    if copies.out and scheduler.additions == "whole" and plan.work.passes.count > 1:
        width = sent  # FSDP 2 adds them up in the format of reductions (`to_accumulated_grad_if_needed`)
    how = f"{width} B for each of {waiting:,.0f} gradients before they are reduced"
    buffer, errors = float(sent * copies.into), 0.0
    if wire is not None:  # what is sent and what arrives
        buffer = buffer * (wire.format not in HALVES) + 2 * wire_bytes(wire.format, wire.group)
        errors = wire.error_bytes(layout)
        how += f", {errors:g} B of errors for each parameter" if errors else ""
    yield _with_buffer("reduced", width * (waiting - kept) + errors * sum(units), buffer * max(units), how)


def _with_buffer(name: str, nbytes: float, buffer: float, how: str) -> MemoryPart:
    """A part with the buffer of a collective, of which there may be none or two."""
    how += ", and a buffer of the collective" if buffer else ""
    return MemoryPart(name, nbytes + buffer, nbytes, nbytes + 2 * buffer, how)


def memory_of(scenario: Scenario, plan: Plan) -> MemoryUse:
    """The memory of one worker of a scenario, whose buckets and payloads are those of `plan`; in a pipeline that of the
    stage that needs most.

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
    also = cluster.workers, scenario.parallelism.fingerprint
    return _remembered.get(parts, lambda: _most_memory(scenario, plan), *also)


_remembered: ResultsOfObjects[MemoryUse] = ResultsOfObjects(64)


def _most_memory(scenario: Scenario, plan: Plan) -> MemoryUse:
    """The memory of the stage that needs most."""
    divided = plan.of_step.setup.divided
    if divided is None or divided.unlike == (divided.stage,):
        return _memory_of(scenario, plan)
    plans = ((stage, plan if stage == divided.stage else plan_sizes(scenario, stage)) for stage in divided.unlike)
    made = [replace(_memory_of(scenario, each), stage=stage + 1 if stage else None) for stage, each in plans]
    return max(made, key=lambda memory: (memory.fits is False, memory.total))


def _memory_of(scenario: Scenario, plan: Plan) -> MemoryUse:
    inner, scheduler = plan.of_step, plan.setup.scheduler
    workload, method, workers = inner.setup.workload, scenario.sparsifier, plan.wiring.layout.workers
    buckets = [bucket.pieces for bucket in plan.work.buckets]
    of_passes = [activation_part(workload), *working_parts(scenario.workload, inner.setup.divided)]
    freed = math.fsum(part.nbytes or 0.0 for part in of_passes)
    made = [*of_passes, FRAMEWORK, *model_parts(workload), *update_parts(workload, freed)]
    made += [*sharded_parts(inner)] or cast_parts(workload)
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
    known = dict[str, float | None]()
    for part in parts:  # of local steps between sites, exchanges of both kinds have buffers
        known[part.name] = None if part.nbytes is None else (known.get(part.name) or 0) + part.nbytes
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
        parts={name: known.get(name, 0.0) for name in PART_LABELS},
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


ALL_THE_SAME = "`--ignore-memory`, or `ignore_memory: true` in the scenario, predicts it all the same"
"""The last sentence of every refusal for want of memory."""
SMALL = 0.02
"""A remedy that saves less than this share of the sum is not named."""


def refuse_what_does_not_fit(scenario: Scenario, memory: MemoryUse, *, remedies: bool = True) -> None:
    """Raise InputError where a worker needs more memory than its GPU has, unless the scenario ignores it.

    The error names the parts, largest first, and what would help; without `remedies` it says how to learn that.
    """
    if memory.fits is not False or scenario.ignore_memory or memory.capacity is None:
        return
    where = f"scenario '{scenario.name}'"
    what = f"at most {show_memory(memory.capacity)} of memory on each {memory.gpu}"
    texts = ["`sparsim run` of this scenario by itself says what would help"]
    if remedies:
        texts = [*describe_remedies(scenario, memory)]
    raise InputError(
        [
            Problem(where, what, f"{show_memory(memory.total)}{memory.where}: {describe_parts(memory)}"),
            *(Problem("memory", "", text) for text in texts),
        ]
    )


def describe_remedies(scenario: Scenario, memory: MemoryUse) -> list[str]:
    """What would help, in sentences: changes with what is then needed, and what else people do."""
    capacity = memory.capacity or 0.0
    texts, together, joined, needed, enough = list[str](), scenario, 0, memory.total, False
    for text, change in _changes(scenario, memory):
        alone = _total(change(scenario))
        if alone is None or alone > (1 - SMALL) * memory.total:
            continue
        if needed > capacity:
            both = _total(change(together)) or math.inf
            if both >= needed:
                continue  # what was named before does all that this would do
            together, joined, needed = change(together), joined + 1, both
        texts.append(f"{text}: {_describe_need(alone, capacity)}")
        enough = enough or alone <= capacity
    if joined > 1 and not enough:
        of = "all of these" if joined == len(texts) else f"the first {joined} of these"
        texts.append(f"{of} together: {_describe_need(needed, capacity)}")
    stated = recompute_fully(scenario.workload) is scenario.workload
    others = [text for text in (_recomputation(memory) if stated else "", _larger_gpu(memory)) if text]
    sentences = (("what would help", texts), ("what else would", others))
    return [*(f"{start}: {'; '.join(named)}" for start, named in sentences if named), ALL_THE_SAME]


def _total(scenario: Scenario) -> float | None:
    """Bytes that a worker of a changed scenario needs; None where it is no possible training."""
    try:
        return memory_of(scenario, plan_sizes(scenario)).total
    except InputError:
        return None


def _recomputation(memory: MemoryUse) -> str:
    """What recomputing the activations saves and costs; empty where they are few.

    It takes one more forward pass, where forward and backward are worth three (Chen et al. 2016, 1604.06174).
    """
    activations = math.fsum(part.nbytes or 0.0 for part in memory.details or () if part.name == "activations")
    if activations <= SMALL * memory.total:
        return ""
    return (
        f"recomputing the activations instead of keeping them, which saves most of {show_memory(activations)} and "
        "takes about a third more compute (state the smaller `activation_bytes` and the longer times)"
    )


def _describe_need(nbytes: float, capacity: float) -> str:
    return f"{show_memory(nbytes)}{', which fits' if nbytes <= capacity else ''}"


def _changes(scenario: Scenario, memory: MemoryUse) -> Iterator[tuple[str, Callable[[Scenario], Scenario]]]:
    """Changes that may need less, in words and as functions of a scenario; those that cost least first."""
    workload = scenario.workload
    passes = _fewest_passes(scenario, memory)
    if passes is not None:
        yield f"`workload.micro_batches: {passes}`", lambda made: with_value(made, "workload.micro_batches", passes)
    if recompute_fully(workload) is not workload:
        yield "`workload.recompute: full`", lambda made: with_value(made, "workload", recompute_fully(made.workload))
    if scenario.cluster.workers > 1 and not isinstance(scenario.sparsifier, Dense):
        yield "a method without residual (`sparsifier: dense`)", lambda made: with_value(made, "sparsifier", Dense())
    scheduler = scenario.scheduler
    if scenario.cluster.workers > 1 and scheduler.period is None and not isinstance(scheduler, Sharded):
        dense = isinstance(scenario.sparsifier, Dense)
        keys = "`scheduler: fsdp`" if dense else "`scheduler: fsdp`, `sparsifier: dense`"
        yield f"a part of parameters and states on every GPU ({keys})", _in_shards
    if workload.precision.gradients == "fp32" or workload.precision.has_master_weights:
        yield "weights and states in bf16, without fp32 copies", _in_bf16
    if workload.optimiser.states:
        least = Optimiser(kind="sgd", implementation="fused")
        yield "an optimiser without states (`sgd`)", lambda made: with_value(made, "workload.optimiser", least)


def _in_shards(scenario: Scenario) -> Scenario:
    """The scenario under FSDP, with the dense exchange: a method without `shard` is refused there."""
    from simulator.schedulers.fsdp import Fsdp  # only a refusal needs it

    return with_value(with_value(scenario, "sparsifier", Dense()), "scheduler", Fsdp())


def _in_bf16(scenario: Scenario) -> Scenario:
    """The scenario with all values in bf16; the activations of a described model follow its precision."""
    workload, short = scenario.workload, Precision(gradients="bf16", residuals="bf16", master_weights=False)
    if workload.origin is None:
        return with_value(scenario, "workload.precision", short)
    return with_value(scenario, "workload", describe_again(workload, {"precision": short}))


def _fewest_passes(scenario: Scenario, memory: MemoryUse) -> int | None:
    """The fewest micro-batches that fit, or as many as there are samples where these do not fit either."""
    workload = scenario.workload
    if not workload.activation_bytes or workload.pass_size == 1:
        return None
    most = min(workload.batch_size, MAX_MICRO_BATCHES)
    possible = [m for m in range(workload.micro_batches + 1, most + 1) if workload.batch_size % m == 0]
    for count in possible:
        needed = _total(with_value(scenario, "workload.micro_batches", count))
        if needed is not None and needed <= (memory.capacity or 0.0):
            return count
    return possible[-1] if possible else None


def _larger_gpu(memory: MemoryUse) -> str:
    """The shipped GPU with the least memory that is enough; empty where none is."""
    sizes = ((gpu.memory_size or 0.0, name) for name, gpu in shipped_gpus().items())
    size, name = min((each for each in sizes if each[0] >= memory.total), default=(0.0, ""))
    return f"a GPU with more memory, such as `gpus/{name}` ({show_memory(size)})" if name else ""
