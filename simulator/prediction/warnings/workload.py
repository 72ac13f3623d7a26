"""Warnings about the model: layer times of another GPU or precision, an optimiser that nobody stated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import get_args

from simulator.hardware.gpu import Gpu
from simulator.models.optimisers import Kind, Optimiser
from simulator.prediction.warnings.sizes import Sizes
from simulator.prediction.warnings.warning import SizedWarning

_BITS = {"fp32": 32, "fp16": 16, "bf16": 16}
_MAKERS = frozenset({"nvidia", "tesla", "geforce", "quadro"})
_FORMS = re.compile(r"sxm\d*|pcie|nvl|hbm\d*e?")
_MEMORY = re.compile(r"\d+gb|\d+(?= gb\b)|gb")


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
    if workload.compute_time is not None or not is_other_device(workload.device, gpu):
        return
    text = (
        f"the layer times were measured on {workload.device}, and this GPU is "
        f"{gpu.device or gpu.name}: the times are not changed; give the `compute_time` of one GPU in the workload"
    )
    # As long as the time counts as measured here, its width says nothing of the other device.
    about = [item for item in sizes.inputs("compute time") if item.level != "measured"]
    yield sizes.warning(text, about, sizes.seconds_of("forward", "backward"))


def is_other_device(device: str, gpu: Gpu) -> bool:
    """Whether a device that is named so is another one than this GPU; not if either has no name.

    The names of makers and of memory sizes do not matter, and the form (SXM, PCIe) only where both state one.

    >>> card = Gpu(name="V100", device="Tesla V100-SXM2")
    >>> is_other_device("Tesla V100", card), is_other_device("NVIDIA A100", card)
    (False, True)
    """
    (model, form), (other, others_form) = (_model_and_form(name) for name in (device, gpu.device or gpu.name))
    if not model or not other:
        return False
    return model != other or bool(form and others_form and form != others_form)


def _model_and_form(name: str) -> tuple[frozenset[str], frozenset[str]]:
    """Words of a device's name without those of its maker and its memory: of its model, and of its form."""
    text = re.sub(r"[^a-z0-9]+", " ", name.partition(",")[0].lower())
    words = frozenset(_MEMORY.sub("", text).split()) - _MAKERS
    forms = frozenset(word for word in words if _FORMS.fullmatch(word))
    return words - forms, frozenset(word.rstrip("0123456789e") for word in forms)


def _assumed_optimiser(sizes: Sizes) -> Iterator[SizedWarning]:
    """That the workload does not say how its weights are updated; others move more or fewer bytes per element.

    A measured iteration of one GPU contains the update, so that its time does not change.
    """
    workload, update = sizes.scenario.workload, sizes.seconds_of("update")
    if "optimiser" in workload.model_fields_set or workload.update_time is not None:
        return
    known, free = workload.optimiser, workload.compute_time is None
    own = known.bytes_per_element()
    kinds = [Optimiser(kind=kind, implementation=known.implementation) for kind in get_args(Kind)]
    shares = [item.bytes_per_element() / own for item in kinds]
    less, more = (update * (1 - min(shares)), update * (max(shares) - 1)) if free else (0.0, 0.0)
    text = f"the workload does not state its optimiser, and {known.kind} is assumed; give `optimiser`"
    yield SizedWarning(text, sizes.spread.time, update if free else 0.0, less, more)
