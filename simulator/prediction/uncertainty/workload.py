"""The model as uncertain inputs: compute time, shares of its layers, optimiser, and how far selections overlap."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from simulator.engine.plan.plan import Plan
from simulator.engine.settling import Settled
from simulator.hardware.compute_widths import SMALLER_PASSES, compute_width, same_device
from simulator.models.overlap import UNKNOWN_OVERLAP
from simulator.models.profile_widths import FORWARD_SHARE_WIDTH, TILT, tilt_profile
from simulator.models.widths import mape_of_width
from simulator.prediction.uncertainty.inputs import LEVELS, Change, Measurement, UncertainInput, seconds_at_ends
from simulator.scenario.changes import scale_compute, with_value
from simulator.scenario.scenario import Scenario

MINUTES = 2.0
"""What `sparsim record layers` takes for one model."""
OPTIMISER, OVERLAP, REPLAY = "optimiser", "overlap of selections", "mean of the replay"
PASSES = "efficiency of smaller passes"
PROFILE = "shares of the tensors", "share of the forward pass"
"""What the inputs are called that are neither compute time nor the model's own error."""
_GRADIENTS = 30.0
"""What `sparsim record gradients` takes for some iterations of a model on some workers."""


def workload_inputs(scenario: Scenario, plan: Plan, breakdown: Mapping[str, float]) -> Iterator[UncertainInput]:
    """Compute time and layer profile of the model on the scenario's GPU; what the scenario does not say of it."""
    workload, gpu = scenario.workload, scenario.cluster.gpu
    if gpu.ideal:
        return
    yield _compute(scenario, breakdown)
    yield from _smaller_passes(scenario, breakdown)
    yield from _other_gpus(scenario)
    elsewhere = workload.device and gpu.device and not same_device(workload.device, gpu.device)
    if (elsewhere or workload.estimated is not None) and scenario.cluster.workers > 1:
        yield from _profile(scenario, breakdown)
    if len(workload.optimisers) > 1 and workload.update_time is None and workload.compute_time is None:
        yield _optimiser(scenario)
    if plan.work.density["target"] < 1 and _is_overlap_unknown(scenario):
        yield _overlap(scenario)


def _compute(scenario: Scenario, breakdown: Mapping[str, float]) -> UncertainInput:
    known = compute_width(scenario.workload, scenario.cluster.gpu)
    width, seconds = known.width, math.fsum(breakdown[name] for name in ("forward", "backward"))
    return UncertainInput(
        "compute time",
        f"{scenario.workload.name} on {scenario.cluster.gpu.name}",
        LEVELS[known.level],
        width,
        known.level == "measured",
        *seconds_at_ends(seconds, width),
        lambda changed, end: scale_compute(changed, width**end),
        source=known.source,
        measurement=_layers("compute time"),
        held_out_mape=mape_of_width(width),
    )


def _smaller_passes(scenario: Scenario, breakdown: Mapping[str, float]) -> Iterator[UncertainInput]:
    """How much longer the passes over micro-batches take than the whole batch, whose measured times they share."""
    workload = scenario.workload
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
        0.0,
        math.fsum(breakdown[name] for name in ("forward", "backward")) * (width - 1),
        change=change,
        source=f"equal parts of the times of {workload.batch_size} samples; smaller passes use a GPU less well",
        measurement=_layers("the layers at the size of a pass"),
        held_out_mape=mape_of_width(width),
    )


def _other_gpus(scenario: Scenario) -> Iterator[UncertainInput]:
    """How many times as long the nodes with another GPU compute, where that was not measured."""
    for number, item in enumerate(scenario.cluster.other_gpus):
        if item.width is None or item.width == 1:
            continue

        def scale(changed: Scenario, end: float, number: int = number, width: float = item.width) -> Scenario:
            others = list(changed.cluster.other_gpus)
            others[number] = others[number].model_copy(update={"factor": others[number].factor * width**end})
            return with_value(changed, "cluster.other_gpus", tuple(others))

        yield UncertainInput(
            "factor of other GPUs",
            f"{scenario.workload.name} on {item.gpu.name}",
            "transferred",
            item.width,
            False,
            change=scale,
            source="as stated: `width` of cluster.other_gpus",
            measurement=_layers("compute time"),
            held_out_mape=mape_of_width(item.width),
        )


def _profile(scenario: Scenario, breakdown: Mapping[str, float]) -> Iterator[UncertainInput]:
    """The proportions of a profile that was taken on another GPU: of the forward pass, and of the tensors."""
    workload = scenario.workload
    estimated = workload.estimated is not None
    name = f"{workload.name}, {'estimated' if estimated else f'of {workload.device}'}"
    share = workload.forward_time / (workload.forward_time + workload.backward_time or 1.0)

    def shift(changed: Scenario, end: float) -> Scenario:
        """Forward a share of the compute that is wrong by its width; the whole stays as it is."""
        forward = min(0.9, share * FORWARD_SHARE_WIDTH**end)
        times = {"forward": forward / share, "backward": (1 - forward) / (1 - share)}
        layers = tuple(
            layer.model_copy(update={key: getattr(layer, key) * factor for key, factor in times.items()})
            for layer in changed.workload.layers
        )
        return with_value(changed, "workload.layers", layers)

    def tilt(changed: Scenario, end: float) -> Scenario:
        return with_value(changed, "workload", tilt_profile(changed.workload, end * TILT))

    source = "profiles of the same models on other GPUs"
    tensors, forward_pass = PROFILE
    changes: dict[str, tuple[float, Change]] = {tensors: (math.exp(TILT), tilt)}
    if 0 < share < 1:
        changes[forward_pass] = (FORWARD_SHARE_WIDTH, shift)
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


def _optimiser(scenario: Scenario) -> UncertainInput:
    """The optimiser, where the workload names none: what is assumed, and the cheapest and dearest that are in use."""
    least, most = scenario.workload.optimisers

    def change(changed: Scenario, end: float) -> Scenario:
        return with_value(changed, "workload.optimiser", most if end > 0 else least) if end else changed

    return UncertainInput(
        OPTIMISER,
        scenario.workload.name,
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
