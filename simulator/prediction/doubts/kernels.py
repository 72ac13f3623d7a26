"""Doubts about the kernels of a GPU: those that nobody timed on it, or at these sizes, or in this precision."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from simulator.engine.plan.work.kernels import KernelUse
from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import HOST_KERNELS, KERNELS, widths_of
from simulator.models.curves import Curve
from simulator.models.precision import Precision
from simulator.models.small_cache import ResultsOfObjects
from simulator.models.widths import curve_width, mape_of_width
from simulator.prediction.doubts.doubt import FACTORS, LEVELS, Change, Doubt, Measurement, Said, Sentence
from simulator.prediction.doubts.sentences import Reader
from simulator.prediction.simulated import Simulated
from simulator.scenario.changes import scale_curve, with_value
from simulator.scenario.scenario import Scenario
from simulator.units import count_of

MINUTES = 1.0
"""What `sparsim record kernels` takes for one kernel, at most."""
SMALL_CALLS = ", calls smaller than measured"
"""End of the name of a doubt about the small calls of a kernel."""
_SCALED = ", scaled from fp32"
_PLACE = -2
"""Of what is said of kernels, among sentences of one size."""
_ESTIMATES = {
    "transferred": "transferred from other GPUs or whole iterations: ",
    "estimated": "estimated from kernels like them: ",
}


def doubt_kernels(made: Simulated) -> tuple[Doubt, ...]:
    """Doubts about every kernel that the iteration uses on its GPU. Those of an ideal GPU take no time.

    Kernels that nobody timed on the GPU may all be wrong the same way: what they are estimated from is the same.
    """
    scenario, used = made.scenario, made.plan.work.kernels
    gpu, precision, residual = scenario.cluster.gpu, scenario.workload.precision, scenario.sparsifier.has_residual
    if gpu.ideal:
        return ()
    parts = (gpu, used, precision)
    return _made.get(parts, lambda: tuple(_doubts(gpu, used, precision, residual)), residual)


_made: ResultsOfObjects[tuple[Doubt, ...]] = ResultsOfObjects(64)


def remark_on_kernels(reader: Reader) -> Iterator[Sentence]:
    """Which kernels nothing is known of."""
    gpu = reader.simulated.scenario.cluster.gpu
    if not gpu.ideal and (
        unknown := [name for name in sorted(reader.simulated.plan.work.kernels) if _is_unknown(gpu, name)]
    ):
        text = f"nothing is known of {', '.join(unknown)} on {gpu.name}, so that they take no time"
        yield Sentence(f"{text}; give its memory_bandwidth", terms=None, less=0.0, unbounded=True, place=_PLACE)


def _is_unknown(gpu: Gpu, kernel: str) -> bool:
    described = gpu.hardware.bandwidth is not None or gpu.hardware.reached is not None
    return not described and kernel not in HOST_KERNELS and gpu.curve(kernel) is None


def _doubts(gpu: Gpu, used: Mapping[str, KernelUse], precision: Precision, residual: bool) -> Iterator[Doubt]:
    """The doubts about a GPU's kernels in a precision, with a residual or without."""
    widths, how = widths_of(precision, residual), f"scaled by the bytes that they move in {precision.described()}"
    scaled = Sentence(before=f"measured in fp32 on {gpu.name}, and {how}: ", place=_PLACE)
    for kernel, use in sorted(used.items()):
        if kernel in HOST_KERNELS:
            continue
        as_measured, curve = widths.share(kernel) == 1, gpu.curve(kernel)
        what = f"kernel {kernel}" + ("" if as_measured else _SCALED)
        if gpu.level(kernel) != "measured" or curve is None:
            yield _not_timed(gpu, kernel, what, use)
            continue
        said = () if as_measured else (Said(scaled, kernel, weight=use.seconds, seconds=use.seconds),)
        yield from _timed(gpu, curve, kernel, use, said)


def _timed(gpu: Gpu, curve: Curve, kernel: str, use: KernelUse, scaled: tuple[Said, ...]) -> Iterator[Doubt]:
    """The whole curve, which may be as wrong as at the largest size that it is used at; and the calls that are smaller
    than what was measured, each of which takes no longer than the smallest that was.

    The error of small calls is that of a start-up: the rate at large sizes, from which other kernels are estimated,
    stays.
    """
    what, said = f"kernel {kernel}" + (_SCALED if scaled else ""), scaled
    low, measured = curve.range[0] if curve.range else 0.0, curve.range or (use.smallest, use.largest)
    width = curve_width(curve, max(use.largest, low))
    if use.extrapolated:
        asked, known = (f"{least:,.0f} to {most:,.0f}" for least, most in ((use.smallest, use.largest), measured))
        calls = f"{use.extrapolated} of {count_of(use.calls, 'call')}"
        name = f"{kernel} time extrapolated for {calls} ({asked} elements; measured from {known})"
        share = use.outside / (use.seconds or 1.0)
        said = (Said(_at_other_sizes(gpu.name), name, weight=use.seconds, seconds=use.outside, share=share), *scaled)
    yield Doubt(
        what,
        f"{gpu.name}/{kernel}",
        "measured",
        width,
        "held-out error of the curve, and more beyond the sizes that were measured",
        _measurement(kernel),
        said,
        _scaled(kernel, width),
        # A kernel that does the same as another has its curve, and its error.
        shared=f"{gpu.name}/{kernel if kernel in gpu.kernels else KERNELS[kernel].same_as}",
        held_out_mape=curve.held_out_mape,
        inside=curve.in_range((use.smallest, use.largest)),
    ).over(use.seconds)
    if use.small_seconds > 0:
        most = max(1.0, use.small * float(curve.time(low)) / use.small_seconds)
        if curve.smallest_call is not None:
            most = min(most, 1 + use.small * max(0.0, curve.smallest_call - float(curve.time(0.0))) / use.small_seconds)
        inside = math.exp(math.hypot(math.log(curve_width(curve, low)), math.log(most)))
        small = min(curve_width(curve, use.smallest), inside)
        source = "doublings below the sizes that were measured, and at most the time of the smallest of these"
        said = (Said(_at_other_sizes(gpu.name), seconds=0.0),) if use.extrapolated else ()
        key, settle = (f"{what}{SMALL_CALLS}", f"{gpu.name}/{kernel}"), _measurement(kernel)
        yield Doubt(*key, "measured", small, source, settle, said, inside=False).over(use.small_seconds)


def _not_timed(gpu: Gpu, kernel: str, what: str, use: KernelUse) -> Doubt:
    """The estimate of a kernel's time from other kernels or GPUs."""
    width, level = gpu.width(kernel), gpu.level(kernel)
    name, group = f"{kernel} ({width:.2g})", list(_ESTIMATES).index(level)
    groups = tuple((words, "") for words in _ESTIMATES.values())
    sentence = Sentence(before=f"not timed on {gpu.name}, ", after=f" ({FACTORS})", groups=groups, place=_PLACE)
    said = Said(sentence, name, group, weight=use.seconds, seconds=use.seconds)
    return Doubt(
        f"{what}, {level}",
        f"{gpu.name}/{kernel}",
        LEVELS[level],
        width,
        f"error of estimates for GPUs that were left out (`sparsim list kernels {gpu.device or gpu.name}`)",
        _measurement(kernel),
        () if _is_unknown(gpu, kernel) else (said,),
        _scaled(kernel, width),
        shared=f"kernels that were not timed on {gpu.name}",
        held_out_mape=mape_of_width(width),
    ).over(use.on_gpu)


def _at_other_sizes(gpu: str) -> Sentence:
    return Sentence(before=f"timed on {gpu} at other sizes: ", between="; ", place=_PLACE)


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
