"""Warnings about the model: layer times of another GPU or precision, an optimiser that nobody stated."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.hardware.compute_widths import measured_elsewhere
from simulator.prediction.warnings.sizes import Sizes
from simulator.prediction.warnings.warning import SizedWarning

_BITS = {"fp32": 32, "fp16": 16, "bf16": 16}


def warn_of_workload(sizes: Sizes) -> Iterator[SizedWarning]:
    """What is not known of the model's times on this GPU. Nothing is assumed of an ideal one."""
    yield from _other_precision(sizes)
    if not sizes.scenario.cluster.gpu.ideal:
        yield from _other_device(sizes)
        yield from _assumed_optimiser(sizes)


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
    """That layer times were measured on another device, and nothing says what they are on this one."""
    workload, gpu = sizes.scenario.workload, sizes.scenario.cluster.gpu
    if not measured_elsewhere(workload, gpu):
        return
    text = (
        f"the layer times were measured on {workload.device}, and this GPU is "
        f"{gpu.device}: the times are not changed; give the `compute_time` of one GPU in the workload"
    )
    # As long as the time counts as measured here, its width says nothing of the other device.
    about = [item for item in sizes.inputs("compute time") if item.level != "measured"]
    yield sizes.warning(text, about, sizes.seconds_of("forward", "backward"))


def _assumed_optimiser(sizes: Sizes) -> Iterator[SizedWarning]:
    """That the workload does not say how its weights are updated; others move more or fewer bytes per element.

    The cheapest and the dearest that it may be are `Workload.optimisers`. A measured iteration of one GPU contains the
    update, so that its time does not change.
    """
    workload, update = sizes.scenario.workload, sizes.seconds_of("update")
    if len(workload.optimisers) == 1 or workload.update_time is not None:
        return
    known, free = workload.optimiser, workload.compute_time is None
    own = known.bytes_per_element()
    shares = [item.bytes_per_element() / own for item in workload.optimisers]
    less, more = (update * (1 - min(shares)), update * (max(shares) - 1)) if free else (0.0, 0.0)
    text = f"the workload does not state its optimiser, and {known.kind} is assumed; give `optimiser`"
    yield SizedWarning(text, sizes.spread.time, update if free else 0.0, less, more)
