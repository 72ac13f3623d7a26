"""The model as uncertain inputs: compute time, shares of its layers, optimiser, and how far selections overlap."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from simulator.engine.plan.plan import Plan
from simulator.engine.settling import Settled
from simulator.hardware.compute_widths import SMALLER_PASSES, compute_width, same_device
from simulator.hardware.gpu import Gpu
from simulator.models.layers import Workload
from simulator.models.overlap import UNKNOWN_OVERLAP
from simulator.models.profile_widths import FORWARD_SHARE_WIDTH, TILT, tilt_profile
from simulator.models.small_cache import ResultsOfObjects
from simulator.models.widths import mape_of_width
from simulator.prediction.uncertainty.inputs import LEVELS, Change, Measurement, UncertainInput, seconds_at_ends
from simulator.scenario.changes import changed_workloads, scale_compute, with_value
from simulator.scenario.cluster import OtherGpus
from simulator.scenario.scenario import Scenario

MINUTES = 2.0
"""What `sparsim record layers` takes for one model."""
COMPUTE, OPTIMISER, OVERLAP, REPLAY = "compute time", "optimiser", "overlap of selections", "mean of the replay"
PASSES = "efficiency of smaller passes"
PROFILE = "shares of the tensors", "share of the forward pass"
"""What the inputs of the model are called, apart from its own error."""
_OF_COMPUTE = COMPUTE, PASSES
"""Those that the seconds of forward and backward are proportional to."""
_GRADIENTS = 30.0
"""What `sparsim record gradients` takes for some iterations of a model on some workers."""


def workload_inputs(scenario: Scenario, plan: Plan, breakdown: Mapping[str, float]) -> Iterator[UncertainInput]:
    """Compute time and layer profile of the model on the scenario's GPU; what the scenario does not say of it."""
    workload, gpu, others = scenario.workload, scenario.cluster.gpu, scenario.cluster.other_gpus
    if gpu.ideal:
        return
    exchanges = scenario.cluster.workers > 1
    seconds = math.fsum(breakdown[name] for name in ("forward", "backward"))
    parts = (workload, gpu, others)
    for item in _of_model.get(parts, lambda: tuple(_inputs_of_model(workload, gpu, others, exchanges)), exchanges):
        if item.what in _OF_COMPUTE:
            less, more = seconds_at_ends(seconds, item.width)
            yield item.with_seconds(less if item.what != PASSES else 0.0, more)
        else:
            yield item
    if plan.work.density["target"] < 1 and _is_overlap_unknown(scenario):
        yield _overlap(scenario)


_of_model: ResultsOfObjects[tuple[UncertainInput, ...]] = ResultsOfObjects(64)


def _inputs_of_model(
    workload: Workload, gpu: Gpu, others: Sequence[OtherGpus], exchanges: bool
) -> Iterator[UncertainInput]:
    """What is uncertain of a model on a GPU, and on the GPUs of other nodes, where gradients are exchanged and where
    not. Of those that compute time is proportional to, the seconds follow."""
    yield _compute(workload, gpu)
    yield from _smaller_passes(workload)
    yield from _other_gpus(workload, others)
    elsewhere = workload.device and gpu.device and not same_device(workload.device, gpu.device)
    if (elsewhere or workload.estimated is not None) and exchanges:
        yield from _profile(workload)
    if len(workload.optimisers) > 1 and workload.update_time is None and workload.compute_time is None:
        yield _optimiser(workload)


def _compute(workload: Workload, gpu: Gpu) -> UncertainInput:
    known = compute_width(workload, gpu)
    width = known.width
    return UncertainInput(
        COMPUTE,
        f"{workload.name} on {gpu.name}",
        LEVELS[known.level],
        width,
        known.level == "measured",
        change=lambda changed, end: scale_compute(changed, width**end),
        source=known.source,
        measurement=_layers("compute time"),
        held_out_mape=mape_of_width(width),
    )


def _smaller_passes(workload: Workload) -> Iterator[UncertainInput]:
    """How much longer the passes over micro-batches take than the whole batch, whose measured times they share."""
    if workload.micro_batches == 1 or workload.estimated is not None:
        return
    width = workload.micro_batches**SMALLER_PASSES

    def change(changed: Scenario, end: float) -> Scenario:
        return scale_compute(changed, width**end) if end > 0 else changed

    yield UncertainInput(
        PASSES,
        f"{workload.micro_batches} passes of {workload.name} over {workload.pass_size} samples each",
        "assumed",
        width,
        False,
        change=change,
        source=f"equal parts of the times of {workload.batch_size} samples; smaller passes use a GPU less well",
        measurement=_layers("the layers at the size of a pass"),
        held_out_mape=mape_of_width(width),
    )


def _other_gpus(workload: Workload, others: Sequence[OtherGpus]) -> Iterator[UncertainInput]:
    """How many times as long the nodes with another GPU compute, where that was not measured."""
    for number, item in enumerate(others):
        if item.width is None or item.width == 1:
            continue

        def scale(changed: Scenario, end: float, number: int = number, width: float = item.width) -> Scenario:
            made = list(changed.cluster.other_gpus)
            made[number] = made[number].model_copy(update={"factor": made[number].factor * width**end})
            return with_value(changed, "cluster.other_gpus", tuple(made))

        yield UncertainInput(
            "factor of other GPUs",
            f"{workload.name} on {item.gpu.name}",
            "transferred",
            item.width,
            False,
            change=scale,
            source="as stated: `width` of cluster.other_gpus",
            measurement=_layers("compute time"),
            held_out_mape=mape_of_width(item.width),
        )


def _profile(workload: Workload) -> Iterator[UncertainInput]:
    """The proportions of a profile that was taken on another GPU: of the forward pass, and of the tensors."""
    estimated = workload.estimated is not None
    name = f"{workload.name}, {'estimated' if estimated else f'of {workload.device}'}"
    share = workload.forward_time / (workload.forward_time + workload.backward_time or 1.0)

    def shift(changed: Workload, end: float) -> Workload:
        """Forward a share of the compute that is wrong by its width; the whole stays as it is."""
        forward = min(0.9, share * FORWARD_SHARE_WIDTH**end)
        times = {"forward": forward / share, "backward": (1 - forward) / (1 - share)}
        layers = tuple(
            layer.model_copy(update={key: getattr(layer, key) * factor for key, factor in times.items()})
            for layer in changed.layers
        )
        return with_value(changed, "layers", layers)

    def tilt(changed: Workload, end: float) -> Workload:
        return tilt_profile(changed, end * TILT)

    source = "profiles of the same models on other GPUs"
    tensors, forward_pass = PROFILE
    changes = {tensors: (math.exp(TILT), _of_workload(tilt, tensors))}
    if 0 < share < 1:
        changes[forward_pass] = (FORWARD_SHARE_WIDTH, _of_workload(shift, forward_pass, share))
    for what, (width, change) in changes.items():
        yield UncertainInput(
            what,
            name,
            LEVELS["estimated"] if estimated else "transferred",
            width,
            False,
            change=change,
            source=source,
            measurement=_layers("the layers of the model"),
            held_out_mape=mape_of_width(width),
        )


def _of_workload(change: Callable[[Workload, float], Workload], *what: Hashable) -> Change:
    """The change of a scenario's workload, remembered by what it is."""

    def changed(scenario: Scenario, end: float) -> Scenario:
        workload = scenario.workload
        made = changed_workloads.get((workload,), lambda: change(workload, end), *what, end)
        return with_value(scenario, "workload", made)

    return changed


def _optimiser(workload: Workload) -> UncertainInput:
    """The optimiser, where the workload names none: what is assumed, and the cheapest and dearest that are in use."""
    least, most = workload.optimisers

    def change(changed: Scenario, end: float) -> Scenario:
        return with_value(changed, "workload.optimiser", most if end > 0 else least) if end else changed

    return UncertainInput(
        OPTIMISER,
        workload.name,
        "assumed",
        _SOME,
        False,
        change=change,
        source=f"not stated: from {least.kind} to {most.kind}",
    )


def _is_overlap_unknown(scenario: Scenario) -> bool:
    stated = scenario.overlap_concentration is not None or scenario.overlap_mixture is not None
    return scenario.cluster.workers > 1 and not scenario.workload.gradients and not stated


def _overlap(scenario: Scenario) -> UncertainInput:
    """How far the workers select the same elements: independence is assumed, and recorded gradients overlap more."""
    most, least = UNKNOWN_OVERLAP

    def change(changed: Scenario, end: float) -> Scenario:
        return with_value(changed, "overlap_concentration", most if end < 0 else least) if end else changed

    return UncertainInput(
        OVERLAP,
        f"{scenario.sparsifier.kind} on {scenario.workload.name}",
        "assumed",
        _SOME,
        False,
        change=change,
        source="independent selections, and those of two recorded models",
        measurement=Measurement("gradients of the model", "sparsim record gradients", _GRADIENTS),
    )


def replay_inputs(
    scenario: Scenario, breakdown: Mapping[str, float], settled: Settled | None
) -> Iterator[UncertainInput]:
    """The mean of a replay over the priced iterations, to which exchanges and their combining are proportional."""
    if settled is None or settled.width == 1.0:
        return
    width = settled.width
    seconds = math.fsum(breakdown[name] for name in ("communication_exposed", "combine"))
    yield UncertainInput(
        REPLAY,
        f"{scenario.sparsifier.kind} on {scenario.workload.name}",
        "assumed" if settled.reason else "measured",
        width,
        not settled.reason,
        seconds * (1 - 1 / width),
        seconds * (width - 1),
        source=settled.reason or "standard error of the mean over the settled iterations",
        measurement=Measurement("gradients of more iterations", "sparsim record gradients", _GRADIENTS),
        held_out_mape=mape_of_width(width),
    )


_SOME = 2.0
"""Width of what is one of several possibilities, for which there is no factor."""


def _layers(what: str) -> Measurement:
    return Measurement(what, "sparsim record layers", MINUTES)
