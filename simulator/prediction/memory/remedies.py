"""Refusal of a training that does not fit: what it needs, and each remedy with the memory that it leaves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from pydantic_core import PydanticCustomError

from simulator.architectures.describing import describe_again, recompute_fully
from simulator.errors import InputError, Problem
from simulator.models.layers import MAX_MICRO_BATCHES
from simulator.models.optimisers import Optimiser
from simulator.models.precision import Precision
from simulator.prediction.job_setup import plan_scenario
from simulator.prediction.memory.memory import describe_parts, memory_of
from simulator.prediction.result_parts import MemoryUse
from simulator.scenario.changes import with_value
from simulator.scenario.named_parts import shipped_gpus
from simulator.scenario.scenario import Scenario
from simulator.schedulers.sharded import Sharded
from simulator.sparsifiers.dense import Dense
from simulator.units import show_memory

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
            Problem(where, what, f"{show_memory(memory.total)}: {describe_parts(memory)}"),
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
        return memory_of(scenario, plan_scenario(scenario)[0]).total
    except PydanticCustomError:
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
    enough = [(gpu.memory_size, name) for name, gpu in shipped_gpus().items() if (gpu.memory_size or 0) >= memory.total]
    if not enough:
        return ""
    size, name = min(enough)
    return f"a GPU with more memory, such as `gpus/{name}` ({show_memory(size or 0.0)})"
