"""Kernels of the GPU as uncertain inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from simulator.engine.plan.plan import Plan
from simulator.engine.plan.work.kernels import KernelUse
from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import HOST_KERNELS, KERNELS
from simulator.hardware.precision import ValueWidths, widths_of
from simulator.models.curve_widths import curve_width
from simulator.models.curves import Curve
from simulator.models.small_cache import ResultsOfObjects
from simulator.models.widths import mape_of_width
from simulator.prediction.uncertainty.inputs import LEVELS, Change, Measurement, UncertainInput, seconds_at_ends
from simulator.scenario.changes import scale_curve, with_value
from simulator.scenario.scenario import Scenario

MINUTES = 1.0
"""What `sparsim record kernels` takes for one kernel, at most."""
SMALL_CALLS = ", calls smaller than measured"
"""End of the name of an input for the small calls of a kernel."""


def kernel_inputs(scenario: Scenario, plan: Plan) -> tuple[UncertainInput, ...]:
    """Every kernel that the iteration uses on its GPU.

    Kernels that nobody timed on the GPU may all be wrong the same way: what they are estimated from is the same.
    """
    gpu, used, precision = scenario.cluster.gpu, plan.work.kernels, scenario.workload.precision
    residual, parts = scenario.sparsifier.has_residual, (gpu, used, precision)
    return _made.get(parts, lambda: tuple(_inputs(gpu, used, widths_of(precision, residual))), residual)


_made: ResultsOfObjects[tuple[UncertainInput, ...]] = ResultsOfObjects(64)


def _inputs(gpu: Gpu, used: Mapping[str, KernelUse], widths: ValueWidths) -> Iterator[UncertainInput]:
    """The inputs of a GPU's kernels with values of these widths. An ideal GPU's take no time."""
    if gpu.ideal:
        return
    for kernel, use in sorted(used.items()):
        if kernel in HOST_KERNELS:
            continue
        what = f"kernel {kernel}" + ("" if widths.share(kernel) == 1 else ", scaled from fp32")
        curve = gpu.curve(kernel)
        if gpu.level(kernel) == "measured" and curve is not None:
            yield _timed(gpu, curve, kernel, what, use)
            if use.small_seconds > 0:
                yield _small_calls(gpu, curve, kernel, what, use)
        else:
            yield _not_timed(gpu, kernel, what, use)


def _timed(gpu: Gpu, curve: Curve, kernel: str, what: str, use: KernelUse) -> UncertainInput:
    """The whole curve, which may be as wrong as at the largest size that it is used at."""
    width = curve_width(curve, max(use.largest, curve.range[0] if curve.range else 0.0))
    return UncertainInput(
        what,
        f"{gpu.name}/{kernel}",
        "measured",
        width,
        curve.in_range((use.smallest, use.largest)),
        *seconds_at_ends(use.seconds, width),
        _scaled(kernel, width),
        # A kernel that does the same as another has its curve, and its error.
        shared=f"{gpu.name}/{kernel if kernel in gpu.kernels else KERNELS[kernel].same_as}",
        source="held-out error of the curve, and more beyond the sizes that were measured",
        measurement=_measurement(kernel),
        held_out_mape=curve.held_out_mape,
    )


def _small_calls(gpu: Gpu, curve: Curve, kernel: str, what: str, use: KernelUse) -> UncertainInput:
    """The calls that are smaller than what was measured, each of which takes no longer than the smallest that was.

    Their error is that of a start-up: the rate at large sizes, from which other kernels are estimated, stays.
    """
    low = curve.range[0] if curve.range else 0.0
    most = max(1.0, use.small * float(curve.time(low)) / use.small_seconds)
    beyond, inside = curve_width(curve, use.smallest), curve_width(curve, low)
    width = min(beyond, math.exp(math.hypot(math.log(inside), math.log(most))))
    return UncertainInput(
        f"{what}{SMALL_CALLS}",
        f"{gpu.name}/{kernel}",
        "measured",
        width,
        False,
        *seconds_at_ends(use.small_seconds, width),
        source="doublings below the sizes that were measured, and at most the time of the smallest of these",
        measurement=_measurement(kernel),
    )


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
        measurement=_measurement(kernel),
        held_out_mape=mape_of_width(width),
    )


def _measurement(kernel: str) -> Measurement:
    return Measurement(kernel, "sparsim record kernels --kernels", MINUTES, kernel)


def _scaled(kernel: str, width: float) -> Change:
    """The kernel's curve, or its estimate, times the width to the power of the end."""

    def change(scenario: Scenario, end: float) -> Scenario:
        gpu = scenario.cluster.gpu
        made = _changed.get((gpu,), lambda: _with_scaled(gpu, kernel, width**end), kernel, width**end)
        return with_value(scenario, "cluster.gpu", made)

    return change


_changed: ResultsOfObjects[Gpu] = ResultsOfObjects(64)


def _with_scaled(gpu: Gpu, kernel: str, factor: float) -> Gpu:
    curve = gpu.curve(kernel) or gpu.estimate(kernel).curve.model_copy(update={"derived": True})
    return with_value(gpu, "kernels", {**gpu.kernels, kernel: scale_curve(curve, factor)})
