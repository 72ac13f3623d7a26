"""Warnings about the model: layer times of another device or precision, and what the scenario does not say of it."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.hardware.compute_widths import measured_elsewhere
from simulator.prediction.uncertainty.recorded import BEYOND_TRACE
from simulator.prediction.uncertainty.workload import COMPUTE, OPTIMISER, OVERLAP, PASSES, PROFILE, REPLAY
from simulator.prediction.warnings.sizes import Sizes
from simulator.prediction.warnings.warning import SizedWarning

_BITS = {"fp32": 32, "fp16": 16, "bf16": 16}
_METHOD = ("selection", "communication_exposed", "combine")


def warn_of_workload(sizes: Sizes) -> Iterator[SizedWarning]:
    """What is not known of the model. Of an ideal GPU nothing is assumed, so that it has no such inputs."""
    yield from _other_precision(sizes)
    yield from _other_device(sizes)
    if unknown := sizes.inputs(PASSES):
        workload = sizes.scenario.workload
        text = (
            f"the {workload.micro_batches} passes over {workload.pass_size} samples share the times that were measured "
            f"with {workload.batch_size}, but smaller passes use a GPU less well; measure the layers at "
            f"{workload.pass_size} samples"
        )
        yield sizes.warning(text, unknown, sizes.seconds_of("forward", "backward"))
    kind = sizes.scenario.workload.optimiser.kind
    if unknown := sizes.inputs(OPTIMISER):
        text = f"the workload does not state its optimiser, and {kind} is assumed; give `optimiser`"
        yield sizes.warning(text, unknown, sizes.seconds_of("update"))
    if unknown := sizes.inputs(OVERLAP):
        text = "workers are assumed to select independently; give a recorded trace, or `overlap_concentration`"
        yield sizes.warning(text, unknown, sizes.seconds_of(*_METHOD))
    for item in sizes.inputs(REPLAY):
        if not item.in_range:
            text = f"{sizes.scenario.sparsifier.kind} has not settled in the recorded iterations: {item.source}"
            yield sizes.warning(f"{text}; record more iterations", [item], sizes.seconds_of(*_METHOD))


def warn_of_trace(sizes: Sizes, text: str) -> Iterator[SizedWarning]:
    """What the trace of the workload could not give: selections of so many workers."""
    if text:
        touched, unknown = sizes.seconds_of(*_METHOD), sizes.inputs(BEYOND_TRACE)
        if unknown and all(item.width == 1 for item in unknown):  # nothing that is extrapolated is sent
            yield SizedWarning(text, sizes.spread.time, touched, 0.0, 0.0)
        else:
            yield sizes.warning(text, unknown, touched)


def _other_precision(sizes: Sizes) -> Iterator[SizedWarning]:
    """That layer times are those of another precision: of more bits, they are too long; of fewer, too short."""
    workload = sizes.scenario.workload
    made, asked = workload.measured_precision, workload.precision.gradients
    if made == asked:
        return
    text = (
        f"the layer times of {workload.name} are those of {made}, and its gradients are {asked}: the times are not "
        f"changed; give those of {asked}, and say `measured_precision: {asked}` in the workload"
    )
    less = None if _BITS[made] >= _BITS[asked] else 0.0
    more = None if _BITS[made] <= _BITS[asked] else 0.0
    yield SizedWarning(text, sizes.spread.time, sizes.seconds_of("forward", "backward"), less, more)


def _other_device(sizes: Sizes) -> Iterator[SizedWarning]:
    """That layer times, or their proportions, were measured on another device or other machines."""
    workload, gpu = sizes.scenario.workload, sizes.scenario.cluster.gpu
    times = [item for item in sizes.inputs(COMPUTE) if item.level != "measured"]
    profile = [item for kind in PROFILE for item in sizes.inputs(kind)]
    if workload.estimated is not None and times:
        text = (
            f"the layer times of {workload.name} are estimates from its operators; record the layers on this GPU "
            "(`sparsim record layers`), or give the `compute_time` of one GPU in the workload"
        )
    elif measured_elsewhere(workload, gpu):
        text = (
            f"the layer times were measured on {workload.device}, and this GPU is {gpu.device}: the times are not "
            "changed; give the `compute_time` of one GPU in the workload"
        )
    elif times:
        on = f"on another {workload.device}" if workload.device and gpu.device else "on a device that is not stated"
        text = f"the layer times were measured {on}; give the `compute_time` of one of these GPUs in the workload"
    elif profile and not workload.has_times:
        text = (
            f"the layers of {workload.name} have no times: each takes a share of `compute_time` in proportion to its "
            "elements; record the layers on this GPU (`sparsim record layers`)"
        )
    elif profile:
        text = (
            f"the proportions of the layer times are those of {workload.device}, and this GPU is {gpu.device}; record "
            "the layers on this GPU (`sparsim record layers`)"
        )
    else:
        return
    yield sizes.warning(text, [*times, *profile], sizes.seconds_of("forward", "backward"))
