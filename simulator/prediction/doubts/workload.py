"""Doubts about the model: compute time, shares of its layers, optimiser, and what is selected of its gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence

from simulator.engine.plan.plan import Plan
from simulator.engine.plan.work.exchanges import steps_of
from simulator.hardware.gpu import Gpu
from simulator.hardware.widths import SMALLER_PASSES, compute_width, measured_elsewhere, same_device
from simulator.models.exchange import AllGather, Compute, Messages, PushPull, Selection
from simulator.models.layers import Workload
from simulator.models.overlap import UNRECORDED, UNRECORDED_WIDTH
from simulator.models.widths import FORWARD_SHARE_WIDTH, TILT, mape_of_width, tilt_profile
from simulator.prediction.doubts.doubt import (
    LEVELS,
    Change,
    Doubt,
    Level,
    Measurement,
    Said,
    Sentence,
    say,
    seconds_at_ends,
)
from simulator.prediction.doubts.sentences import Reader
from simulator.prediction.simulated import Simulated
from simulator.records import replace
from simulator.scenario.changes import changed_workloads, scale_compute, with_value
from simulator.scenario.cluster import OtherGpus
from simulator.scenario.scenario import Scenario
from simulator.sparsifiers.dense import Dense
from simulator.units import join_words

MINUTES = 2.0
"""What `sparsim record layers` takes for one model."""
COMPUTE = "compute time"
_COMPUTE_TERMS = "forward", "backward"
_BITS = {"fp32": 32, "fp16": 16, "bf16": 16}
BEYOND_TRACE = "selections of more workers"
METHOD_TERMS = "selection", "communication_exposed", "combine"
"""Terms of the iteration that follow from what is selected."""
_MINUTES_OF_GRADIENTS = 30.0
"""What `sparsim record gradients` takes for some iterations of a model on some workers."""


def doubt_workload(made: Simulated) -> Iterator[Doubt]:
    """Doubts about compute time and layer profile of the model on the scenario's GPU; about what the scenario does not
    say of it. Of an ideal GPU nothing is assumed."""
    scenario, breakdown = made.scenario, made.figures.timed
    workload, exchanges = scenario.workload, scenario.cluster.workers > 1
    if scenario.cluster.gpu.ideal:
        return
    seconds = math.fsum([breakdown[name] for name in _COMPUTE_TERMS])
    yield from _doubts_of_model(scenario, seconds)
    density = made.plan.work.density["target"]
    stated = scenario.overlap_concentration is not None or scenario.overlap_mixture is not None
    if 0 < density < 1 and exchanges and not workload.gradients and not stated:
        yield _overlap(scenario, density)
    if scenario.parallelism.expert > 1 and scenario.parallelism.imbalance == 1:
        yield _imbalance(scenario)


def remark_on_workload(reader: Reader) -> Iterator[Sentence]:
    """That layer times are those of another precision or device; that embeddings are exchanged as dense tensors."""
    workload, gpu = reader.simulated.scenario.workload, reader.simulated.scenario.cluster.gpu
    made, asked = workload.measured_precision, workload.precision.gradients
    if made != asked:  # of more bits, times are too long; of fewer, too short
        yield Sentence(
            f"the layer times of {workload.name} are those of {made}, and its gradients are {asked}: the times are not "
            f"changed; give those of {asked}, and say `measured_precision: {asked}` in the workload",
            terms=_COMPUTE_TERMS,
            less=None if _BITS[made] >= _BITS[asked] else 0.0,
            more=None if _BITS[made] <= _BITS[asked] else 0.0,
            place=-1,
        )
    if measured_elsewhere(workload, gpu) and not reader.says_of(COMPUTE):
        yield _describe_device(workload, gpu, times=False)
    if names := _dense_embeddings(reader.simulated):
        scenario, plan = reader.simulated.scenario, reader.simulated.plan
        yield Sentence(
            f"the gradients of {join_words(names)} are exchanged as dense tensors, and their `rows` change nothing: "
            f"{_why_dense(scenario, plan)}",
            terms=METHOD_TERMS,
        )


def _dense_embeddings(made: Simulated) -> list[str]:
    """The embeddings with `rows` whose exchange is the same without them.

    A description of a model gives its embeddings rows without being asked: where they are to travel is then said by
    `indexed_slices` alone.
    """
    plan, scenario = made.plan, made.scenario
    embeddings = [layer.name for layer in scenario.workload.layers if layer.rows is not None]
    asked = scenario.workload.origin is None or getattr(scenario.sparsifier, "indexed_slices", False)
    if not (embeddings and asked) or scenario.cluster.workers == 1:
        return []
    sent = set[str]()
    for bucket, selection in zip(plan.work.buckets, plan.work.selections, strict=True):
        if plan.setup.workers > 1 and any(bucket.rows):
            method = plan.setup.sparsifier.at_density(bucket.density)
            whole = steps_of(plan.setup, method, replace(bucket, rows=()), selection)
            if steps_of(plan.setup, method, bucket, selection) != whole:
                sent.update(plan.setup.workload.layers[layer].name for layer in bucket.layers)
    return [name for name in embeddings if name not in sent]


def _why_dense(scenario: Scenario, plan: Plan) -> str:
    """Why an exchange has no use for rows."""
    method, scheduler = scenario.sparsifier, scenario.scheduler.kind
    if not isinstance(method, Dense):
        return f"{method.kind} takes whole tensors in this implementation"
    if plan.setup.sharding is not None:
        return f"{scheduler} shards whole tensors"
    if scenario.scheduler.period is not None:
        return "several local steps change many rows"
    if plan.setup.topology.style == "push_pull":
        return "servers sum whole tensors"
    if not method.indexed_slices:
        return "`sparsifier.indexed_slices: true` gathers them, as Horovod does for TensorFlow"
    return f"{scheduler} cuts them into slices"


def _doubts_of_model(scenario: Scenario, seconds: float) -> Iterator[Doubt]:
    """Doubts about a model on its GPU, on which it computes for so many seconds, and on the GPUs of other nodes."""
    workload, gpu = scenario.workload, scenario.cluster.gpu
    known = compute_width(workload, gpu, scenario.parallelism.context > 1)
    device = (Said(_describe_device(workload, gpu, times=known.level != "measured")),)
    width, level, source = known.width, LEVELS[known.level], known.source
    key, said = (COMPUTE, f"{workload.name} on {gpu.name}"), () if level == "measured" else device
    settle, mape = _layers("compute time"), mape_of_width(width)

    def change(changed: Scenario, end: float) -> Scenario:
        return scale_compute(changed, width**end)

    yield Doubt(*key, level, width, source, settle, said, change, held_out_mape=mape).over(seconds)
    yield from _smaller_passes(workload, seconds)
    yield from _other_gpus(workload, scenario.cluster.other_gpus)
    elsewhere = workload.device and gpu.device and not same_device(workload.device, gpu.device)
    if (elsewhere or workload.estimated is not None) and scenario.cluster.workers > 1:
        yield from _profile(workload, device)
    if len(workload.optimisers) > 1 and workload.update_time is None and workload.compute_time is None:
        yield _optimiser(workload)


def _describe_device(workload: Workload, gpu: Gpu, times: bool) -> Sentence:
    """That layer times, or their proportions, were measured on another device or other machines. `times`: whether the
    times themselves may be off, and not their proportions only."""
    record = "record the layers on this GPU (`sparsim record layers`)"
    give = "give the `compute_time` of one GPU in the workload"
    if workload.estimated is not None and times:
        text = f"the layer times of {workload.name} are estimates from its operators; {record}, or {give}"
    elif measured_elsewhere(workload, gpu):
        where = f"measured on {workload.device}, and this GPU is {gpu.device}"
        text = f"the layer times were {where}: the times are not changed; {give}"
    elif times:
        on = f"on another {workload.device}" if workload.device and gpu.device else "on a device that is not stated"
        text = f"the layer times were measured {on}; give the `compute_time` of one of these GPUs in the workload"
    elif not workload.has_times:
        share = "each takes a share of `compute_time` in proportion to its elements"
        text = f"the layers of {workload.name} have no times: {share}; {record}"
    else:
        here = f"are those of {workload.device}, and this GPU is {gpu.device}"
        if workload.estimated is not None:
            here = f"are estimates from the operators of {workload.name}"
        text = f"the proportions of the layer times {here}; {record}"
    return Sentence(text, terms=_COMPUTE_TERMS)


def _smaller_passes(workload: Workload, seconds: float) -> Iterator[Doubt]:
    """How much longer the passes over micro-batches take than the whole batch, whose measured times they share."""
    if workload.micro_batches == 1 or workload.estimated is not None:
        return
    width = workload.micro_batches**SMALLER_PASSES

    def change(changed: Scenario, end: float) -> Scenario:
        return scale_compute(changed, width**end) if end > 0 else changed

    passes, size, why = workload.micro_batches, workload.pass_size, "smaller passes use a GPU less well"
    shared = f"the {passes} passes over {size} samples share the times that were measured with {workload.batch_size}"
    doubt = Doubt(
        "efficiency of smaller passes",
        f"{passes} passes of {workload.name} over {size} samples each",
        "assumed",
        width,
        f"equal parts of the times of {workload.batch_size} samples; {why}",
        _layers("the layers at the size of a pass"),
        say(f"{shared}, but {why}; measure the layers at {size} samples", *_COMPUTE_TERMS),
        change,
        held_out_mape=mape_of_width(width),
    )
    yield doubt.with_seconds(0.0, seconds_at_ends(seconds, width)[1])


def _other_gpus(workload: Workload, others: Sequence[OtherGpus]) -> Iterator[Doubt]:
    """How many times as long the nodes with another GPU compute, where that was not measured."""
    for number, item in enumerate(others):
        if item.width is None or item.width == 1:
            continue

        def scale(changed: Scenario, end: float, number: int = number, width: float = item.width) -> Scenario:
            made = list(changed.cluster.other_gpus)
            made[number] = made[number].model_copy(update={"factor": made[number].factor * width**end})
            return with_value(changed, "cluster.other_gpus", tuple(made))

        key = "factor of other GPUs", f"{workload.name} on {item.gpu.name}"
        source = "as stated: `width` of cluster.other_gpus"
        settle, mape = _layers("compute time"), mape_of_width(item.width)
        yield Doubt(*key, "transferred", item.width, source, settle, (), scale, held_out_mape=mape)


def _profile(workload: Workload, said: tuple[Said, ...]) -> Iterator[Doubt]:
    """The proportions of a profile that was taken on another GPU: of the forward pass, and of the tensors."""
    estimated = workload.estimated is not None
    name = f"{workload.name}, {'estimated' if estimated else f'of {workload.device}'}"
    level, settle = LEVELS["estimated" if estimated else "transferred"], _layers("the layers of the model")
    source = "profiles of the same models on other GPUs"
    share = workload.forward_time / (workload.forward_time + workload.backward_time or 1.0)

    def shift(changed: Workload, end: float) -> Workload:
        """Forward a share of the compute that is wrong by its width; the whole stays as it is."""
        forward = min(0.9, share * FORWARD_SHARE_WIDTH**end)
        times = {"forward": forward / share, "backward": (1 - forward) / (1 - share)}
        layers = tuple(
            replace(layer, **{key: getattr(layer, key) * factor for key, factor in times.items()})
            for layer in changed.layers
        )
        return with_value(changed, "layers", layers)

    def tilt(changed: Workload, end: float) -> Workload:
        return tilt_profile(changed, end * TILT)

    tensors, forward_pass = "shares of the tensors", "share of the forward pass"
    changes = {tensors: (math.exp(TILT), _of_workload(tilt, tensors))}
    if 0 < share < 1:
        changes[forward_pass] = (FORWARD_SHARE_WIDTH, _of_workload(shift, forward_pass, share))
    for what, (width, change) in changes.items():
        yield Doubt(what, name, level, width, source, settle, said, change, held_out_mape=mape_of_width(width))


def _of_workload(change: Callable[[Workload, float], Workload], *what: Hashable) -> Change:
    """The change of a scenario's workload, remembered by what it is."""

    def changed(scenario: Scenario, end: float) -> Scenario:
        workload = scenario.workload
        made = changed_workloads.get((workload,), lambda: change(workload, end), *what, end)
        return with_value(scenario, "workload", made)

    return changed


def _optimiser(workload: Workload) -> Doubt:
    """The optimiser, where the workload names none: what is assumed, and the cheapest and dearest that are in use."""
    least, most = workload.optimisers

    def change(changed: Scenario, end: float) -> Scenario:
        return with_value(changed, "workload.optimiser", most if end > 0 else least) if end else changed

    text = f"the workload does not state its optimiser, and {workload.optimiser.kind} is assumed; give `optimiser`"
    source = f"not stated: from {least.kind} to {most.kind}"
    return Doubt("optimiser", workload.name, "assumed", _SOME, source, None, say(text, "update"), change, stepwise=True)


def _overlap(scenario: Scenario, density: float) -> Doubt:
    """How far the workers select the same elements: as in small networks that were recorded, which differ."""
    usual = UNRECORDED.concentration(density)

    def change(changed: Scenario, end: float) -> Scenario:
        return with_value(changed, "overlap_concentration", usual * UNRECORDED_WIDTH**end) if end else changed

    text = (
        "how far workers select the same elements is taken from five small recorded networks; give a recorded trace, "
        "or `overlap_concentration`"
    )
    key = "overlap of selections", f"{scenario.sparsifier.kind} on {scenario.workload.name}"
    source, settle = "unions of five recorded networks, each left out of the fit", gradients_of("the model")
    return Doubt(*key, "transferred", UNRECORDED_WIDTH, source, settle, say(text, *METHOD_TERMS), change, absolute=True)


def _imbalance(scenario: Scenario) -> Doubt:
    """How unevenly a router sends tokens to the GPUs that have the experts, where that is not stated."""
    most = min(UNEVEN, float(scenario.parallelism.expert))

    def change(changed: Scenario, end: float) -> Scenario:
        return with_value(changed, "parallelism.imbalance", most) if end > 0 else changed

    text = "GPUs are assumed to be sent the same number of tokens; give the `imbalance` of `parallelism`"
    source = f"not stated: from equal parts to {most:g} times the mean on one GPU, a prior"
    said = say(text, *_COMPUTE_TERMS, "communication_exposed")
    return Doubt(
        "imbalance of experts", scenario.workload.name, "assumed", most, source, None, said, change, stepwise=True
    )


UNEVEN = 1.5
"""Tokens that the busiest of the GPUs with experts may have over the mean; a prior."""
_SOME = 2.0
"""Width of what is one of several possibilities, for which there is no factor."""


def _layers(what: str) -> Measurement:
    return Measurement(what, "sparsim record layers", MINUTES)


def doubt_recorded(made: Simulated) -> Iterator[Doubt]:
    """Doubts about the mean of a replay over the priced iterations, to which exchanges and their combining are
    proportional, and about selections that were extrapolated."""
    scenario, breakdown, settled = made.scenario, made.figures.timed, made.recorded.settled
    about = f"{scenario.sparsifier.kind} on {scenario.workload.name}"
    seconds = math.fsum([breakdown[name] for name in METHOD_TERMS[1:]])
    if settled is not None and settled.width != 1.0:
        text = f"{scenario.sparsifier.kind} has not settled in the recorded iterations: {settled.reason}"
        level: Level = "assumed" if settled.reason else "measured"
        why = settled.reason or "standard error of the mean over the settled iterations"
        said = say(f"{text}; record more iterations", *METHOD_TERMS) if settled.reason else ()
        key, settle, width = ("mean of the replay", about), gradients_of("more iterations"), settled.width
        yield Doubt(*key, level, width, why, settle, said, held_out_mape=mape_of_width(width)).over(seconds)
    if made.recorded.ends:
        yield from _extrapolated(made, about, seconds)


def remark_on_recorded(reader: Reader) -> Iterator[Sentence]:
    """What the trace of the workload could not give, where no doubt says so."""
    if reader.simulated.recorded.warning and not reader.says_of(BEYOND_TRACE):
        yield Sentence(reader.simulated.recorded.warning, terms=METHOD_TERMS, place=1)


def _extrapolated(made: Simulated, about: str, seconds: float) -> Iterator[Doubt]:
    """What the iteration changes where more, or fewer, elements are sent than was extrapolated.

    To first order: exposed communication and the kernels after it are in proportion to the bytes that are handed over.
    """
    scenario, plan, recorded = made.scenario, made.plan, made.recorded
    sent, low, high = (_payload(scenario, plan, each) for each in (plan.work.selections, *recorded.ends))
    if not sent:
        return
    width = max(1.0, sent / low if low else high / sent, high / sent)
    changes = None if width > 1 else 0.0  # nothing that is extrapolated is sent
    sentence = Sentence(recorded.warning, terms=METHOD_TERMS, less=changes, more=changes, place=1)
    source, settle = "what a quarter of the recorded workers says of all of them", gradients_of("more workers")
    said = (Said(sentence),) if recorded.warning else ()
    doubt = Doubt(BEYOND_TRACE, about, "transferred", width, source, settle, said)
    yield doubt.with_seconds(seconds * (1 - low / sent), seconds * (high / sent - 1))


def gradients_of(what: str) -> Measurement:
    """The measurement of a model's gradients, of some iterations on some workers."""
    return Measurement(f"gradients of {what}", "sparsim record gradients", _MINUTES_OF_GRADIENTS)


def _payload(scenario: Scenario, plan: Plan, selections: Sequence[Selection]) -> float:
    """Bytes that are handed over for all buckets, of all steps of their exchanges."""
    workers, style = scenario.cluster.workers, scenario.topology.style
    sizes: list[float] = []
    for bucket, selection in zip(plan.work.buckets, selections, strict=True):
        method = scenario.sparsifier.at_density(bucket.density)
        for step in method.carry_out(selection, bucket, workers, style)[1]:
            if isinstance(step, PushPull):
                sizes += [step.push_nbytes, step.pull_nbytes]
            elif isinstance(step, Messages):
                sizes += step.nbytes
            elif isinstance(step, AllGather):
                sizes += step.sizes(workers).tolist()
            elif not isinstance(step, Compute):
                sizes.append(step.nbytes)
    return math.fsum(sizes)
