"""Kernels of the GPU as uncertain inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from simulator.engine.plan.plan import Plan
from simulator.engine.plan.work.kernels import KernelUse
from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import HOST_KERNELS, KERNELS
from simulator.hardware.precision import widths_of
from simulator.models.curve_widths import curve_width
from simulator.models.curves import Curve
from simulator.models.widths import mape_of_width
from simulator.prediction.uncertainty.inputs import LEVELS, Change, Measurement, UncertainInput, seconds_at_ends
from simulator.scenario.changes import scale_curve, with_value
from simulator.scenario.scenario import Scenario

MINUTES = 1.0
"""What `sparsim record kernels` takes for one kernel, at most."""


def kernel_inputs(scenario: Scenario, plan: Plan) -> Iterator[UncertainInput]:
    """Every kernel that the iteration uses on its GPU.

    Kernels that nobody timed on the GPU may all be wrong the same way: what they are estimated from is the same.
    """
    gpu = scenario.cluster.gpu
    if gpu.ideal:
        return
    widths = widths_of(scenario.workload.precision, scenario.sparsifier.has_residual)
    for kernel, use in sorted(plan.work.kernels.items()):
        if kernel in HOST_KERNELS:
            continue
        what = f"kernel {kernel}" + ("" if widths.share(kernel) == 1 else ", scaled from fp32")
        if gpu.level(kernel) == "measured":
            yield _timed(gpu, kernel, what, use)
        else:
            yield _not_timed(gpu, kernel, what, use)


def _timed(gpu: Gpu, kernel: str, what: str, use: KernelUse) -> UncertainInput:
    curve = gpu.curve(kernel)
    width = _width_of_use(curve, use) if curve else 1.0
    return UncertainInput(
        what,
        f"{gpu.name}/{kernel}",
        "measured",
        width,
        curve is not None and curve.in_range((use.smallest, use.largest)),
        *seconds_at_ends(use.seconds, width),
        _scaled(kernel, width),
        # A kernel that does the same as another has its curve, and its error.
        shared=f"{gpu.name}/{kernel if kernel in gpu.kernels else KERNELS[kernel].same_as}",
        source="held-out error of the curve, and more beyond the sizes that were measured",
        measurement=Measurement(kernel, "sparsim record kernels --kernels", MINUTES, kernel),
        held_out_mape=curve.held_out_mape if curve else None,
    )


def _width_of_use(curve: Curve, use: KernelUse) -> float:
    """The width of all calls together: of the largest, which take the time, and of the share of those that are smaller
    than what was measured, each of which takes no longer than the smallest that was."""
    width = curve_width(curve, use.largest)
    if curve.range is None or use.smallest >= curve.range[0] or not use.seconds:
        return width
    share = min(1.0, use.extrapolated * float(curve.time(curve.range[0])) / use.seconds)
    return math.exp(math.hypot(math.log(width), share * math.log(curve_width(curve, use.smallest))))


def _not_timed(gpu: Gpu, kernel: str, what: str, use: KernelUse) -> UncertainInput:
    width, level = gpu.width(kernel), gpu.level(kernel)
    return UncertainInput(
        f"{what}, {level}",
        f"{gpu.name}/{kernel}",
        LEVELS[level],
        width,
        False,
        *seconds_at_ends(use.on_gpu, width),
        _scaled(kernel, width),
        shared=f"kernels that were not timed on {gpu.name}",
        source=f"error of estimates for GPUs that were left out (`sparsim kernels {gpu.device or gpu.name}`)",
        measurement=Measurement(kernel, "sparsim record kernels --kernels", MINUTES, kernel),
        held_out_mape=mape_of_width(width),
    )


def _scaled(kernel: str, width: float) -> Change:
    """The kernel's curve, or its estimate, times the width to the power of the end."""

    def change(scenario: Scenario, end: float) -> Scenario:
        gpu = scenario.cluster.gpu
        curve = gpu.curve(kernel) or gpu.estimate(kernel).curve.model_copy(update={"derived": True})
        kernels = {**gpu.kernels, kernel: scale_curve(curve, width**end)}
        return with_value(scenario, "cluster.gpu.kernels", kernels)

    return change
