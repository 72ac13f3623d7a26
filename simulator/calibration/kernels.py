"""Calibration of the kernels of a GPU: a curve for each, with its errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from simulator.calibration.fits.accuracy import FittedLine, errors_as_dict, mean_error, misses, refuse_useless
from simulator.calibration.fits.families import Fitted, Repeats
from simulator.calibration.fits.selection import (
    FOLDS,
    NEARLY,
    CurveFit,
    checkerboard,
    choose_curve,
    choose_surface,
    cross_validation_error,
    fit_curve,
    judge,
)
from simulator.calibration.timings import Timing, Timings
from simulator.calibration.yaml_text import quantity_text
from simulator.errors import InputError, Problem
from simulator.hardware.kernels import INDEX_SIZED, KERNEL_TRAFFIC, KERNELS
from simulator.hardware.widths import same_device
from simulator.models.curves import Floats
from simulator.models.groups import group_by
from simulator.progress import Watch
from simulator.records import Record, replace
from simulator.scenario.named_parts import shipped_gpus
from simulator.units import show_time

TYPICAL = (2.0**14, 2.0**28)
"""Range of total elements, from layers to whole models, for which errors are also reported separately."""
_LEAST_ON_CUT = 5
_LEAST_BELOW = 10
_SAME = 1.5
_ALIKE = 0.1
AFFINE = ("elementwise",)
"""Kernels whose affine curve (floor and slope) gives the time of kernels that were not measured."""


class KernelFit(Record):
    """The curve of one kernel over its size, and its errors.

    With a second variable (`axis`: k, slices) the curve is the cut of a surface at a typical value; `on_cut` are the
    errors of held-out timings close to it. The sizes measured are the distinct sizes of the curve, `held_sizes` of the
    fit the total elements of the held-out timings. `count`: timings; `spread`: of one run. `lines` hold measured and
    fitted times for a figure.
    """

    kernel: str
    fit: CurveFit
    count: int
    on_cut: Floats
    spread: float
    lines: tuple[FittedLine, ...]
    axis: str = ""

    @property
    def held_out_mape(self) -> float | None:
        """Held-out error of the curve: near the cut where enough timings were held out there, otherwise of all."""
        return mean_error(self.on_cut if len(self.on_cut) >= _LEAST_ON_CUT else self.fit.held_errors)

    def as_dict(self) -> Mapping[str, Any]:
        """The part of the result document that states it."""
        fit, spread = self.fit, self.fit.measured.spread
        typical = (fit.held_sizes >= TYPICAL[0]) & (fit.held_sizes <= TYPICAL[1])
        return {
            "kernel": self.kernel,
            "timings": self.count,
            "second_variable": self.axis,
            **fit.as_dict(),
            "interpolation_typical": errors_as_dict(fit.held_errors[typical]),
            "interpolation_on_cut": errors_as_dict(self.on_cut),
            "repeat_spread": spread if spread is not None else self.spread or None,
            "held_out_mape": self.held_out_mape,
        }


def calibrate_kernels(timings: Timings, density: float = 0.001, watch: Watch | None = None) -> Mapping[str, KernelFit]:
    """Fit every kernel. Where a second variable was varied, the curve is the cut at one slice, or at k = `density` n.

    A kernel that was timed at one size only gets no curve. An interruption (Ctrl-C) leaves out the kernels that `watch`
    has not seen done, once there is one. Raises InputError where no kernel gets a curve.
    """
    watch = watch or Watch()
    kernels = group_by(timings.samples, lambda item: item.kernel)
    made: dict[str, KernelFit] = {}
    watch.expect(len(kernels))
    with watch.part("the fits of the kernels"):
        for kernel, samples in sorted(kernels.items()):
            if len({item.size for item in samples}) > 1:
                made[kernel] = _fit(samples, density)
            else:
                timings.notes.append(f"{len(samples)} timings of {kernel} are left out: it has one size only")
            watch.step()
    if watch.interrupted and not made:
        raise KeyboardInterrupt
    if not made:
        raise InputError(Problem(_COMMAND, "two sizes or more of a kernel", f"one of {', '.join(kernels)}"))
    return made


def refuse_impossible(fits: Mapping[str, KernelFit], device: str, bandwidth: float | None) -> list[str]:
    """Warnings of kernels whose curve is poor, or that stream faster than the memory of their GPU: of `bandwidth` bytes
    per second, otherwise as the package knows the device, otherwise as any GPU.

    Raises InputError with every kernel whose curve says nothing of its timings, or whose times cannot be.
    """
    gpus = [gpu for gpu in shipped_gpus().values() if gpu.memory_bandwidth]
    same = [gpu for gpu in gpus if device and gpu.device and same_device(device, gpu.device)]
    rates = [bandwidth] if bandwidth else [gpu.memory_bandwidth or 0.0 for gpu in same or gpus]
    problems, warnings = list[Problem](), list[str]()
    for kernel, fit in fits.items():
        error = fit.held_out_mape or 0.0
        problems += refuse_useless(_COMMAND, f"a curve of {kernel} that describes timings left out", error, _CHECK)
        warnings += misses(f"the curve of {kernel} misses timings left out", error, f"it is a guess; {_CHECK}")
        if KERNELS[kernel].kind == "streaming" and not KERNELS[kernel].parts and not fit.axis:
            wrong, warning = _compare_streaming(fit, min(rates), max(rates))
            problems += wrong
            warnings += warning
    if problems:
        raise InputError(problems)
    return warnings


def _compare_streaming(fit: KernelFit, least: float, most: float) -> tuple[list[Problem], list[str]]:
    """What is impossible, and what is odd, of a kernel's largest call on memory of between `least` and `most` bytes per
    second."""
    size, seconds = float(fit.fit.measured.sizes[-1]), float(fit.fit.chosen.at(fit.fit.measured)[-1])
    nbytes, launches = KERNEL_TRAFFIC[fit.kernel] * size, KERNELS[fit.kernel].launches
    got, memory = (quantity_text(rate, "B/s") for rate in (nbytes / seconds, most))
    fast, large = nbytes / seconds / most, nbytes > _CACHED
    if fast > (_IMPOSSIBLE if large else _UNHEARD_OF):
        return [Problem(_COMMAND, f"{fit.kernel} no faster than memory, {memory}", got, _CHECK)], []
    if fast > _FASTER and large:
        return [], [f"{fit.kernel} moves {got}, more than memory, {memory}: {_CHECK}"]
    slow = _SLOW * (nbytes / least + launches * _LAUNCH)
    if seconds > slow:
        return [Problem(_COMMAND, f"at most {show_time(slow)} for {size:.6g} elements", show_time(seconds), _CHECK)], []
    return [], []


_COMMAND = "calibrate kernels"
_CHECK = "check the unit of the times, and that elements are counted, not bytes"
_FASTER, _IMPOSSIBLE, _UNHEARD_OF = 1.1, 2.0, 100.0
"""Times the bandwidth of memory: data sheets are exact to a tenth; what is twice as fast was not streamed; no cache, in
which small tensors stay, is a hundred times as fast."""
_CACHED = 2.0**28
"""Bytes that stay in the cache of no GPU."""
_SLOW, _LAUNCH = 300, 1e-5
"""Streaming does not take so many times as long as the bytes and launches of some 10 us: a unit is wrong."""


def _fit(samples: list[Timing], density: float) -> KernelFit:
    kernel = samples[0].kernel
    spread = float(np.median([item.spread for item in samples]))
    axis, second = ("", []) if kernel in AFFINE else _second_variable(samples)
    surface = _fit_cut_of_surface(samples, axis, second, density, spread) if axis else None
    if surface is not None:
        return surface
    measured = Repeats.of([item.size for item in samples], [item.seconds for item in samples])
    fit = fit_curve(measured, lambda name: name == "affine" or kernel not in AFFINE)
    return KernelFit(kernel, fit, len(samples), fit.held_errors, spread, (fit.line(kernel),))


def _second_variable(samples: list[Timing]) -> tuple[str, list[float]]:
    """The variable that was varied besides the size, with its values; an empty name where there is none."""
    share = "indices / elements" if samples[0].kernel in INDEX_SIZED else "k / elements"
    sizes = [item.size for item in samples]
    for name, values in (("slices", [item.slices for item in samples]), (share, [item.share for item in samples])):
        known = set(values)
        if len(known) > 1 and 0.0 not in known and len(set(zip(values, sizes, strict=True))) > len(set(sizes)):
            return name, values
    return "", []


def _fit_cut_of_surface(
    samples: list[Timing], axis: str, second: list[float], density: float, spread: float
) -> KernelFit | None:
    """A fit over both variables, with every second timing held out, in the pattern of a chessboard.

    None where, by cross-validation, a curve over the size alone is as good.
    """
    found = Repeats.of([item.size for item in samples], [item.seconds for item in samples], second)
    x, y = found.sizes, _merge_close_values(found.second)
    found = replace(found, second=y)
    odd = checkerboard(found, 2) == 1
    rest = found.at(~odd)
    bare = replace(rest, second=np.zeros(0))
    alone = cross_validation_error(
        bare, checkerboard(rest, FOLDS), lambda item: choose_curve(Repeats.of(item.sizes, item.seconds))
    )
    if alone <= NEARLY * choose_surface(rest)[1]:
        return None
    fit = judge(found, lambda item: choose_surface(item)[0], odd, _LEAST_BELOW)
    cut = float(y.min() if axis == "slices" else np.clip(density, y.min(), y.max()))
    near = np.abs(np.log(y / cut)) <= np.log(_SAME)
    at = np.unique(x[near] if near.any() else x)
    whole = fit.chosen
    on_cut = Fitted(whole.family, lambda sizes: whole.predict(sizes, np.full(np.shape(sizes), cut)))
    held_sizes = (x * y if axis == "slices" else x)[odd]
    lines = _fitted_lines(samples[0].kernel, axis, found, whole.at(found))
    fit = replace(fit, measured=Repeats(at, on_cut.predict(at), found.spread), chosen=on_cut, held_sizes=held_sizes)
    return KernelFit(samples[0].kernel, fit, len(samples), fit.held_errors[near[odd]], spread, lines, axis)


def _fitted_lines(kernel: str, axis: str, measured: Repeats, fitted: Floats) -> tuple[FittedLine, ...]:
    """A line over the size at up to five values of the second variable."""
    values = np.unique(measured.second)
    return tuple(
        FittedLine(f"{kernel}, {axis} {value:.3g}", measured.sizes[own], measured.seconds[own], fitted[own])
        for value in values[np.unique(np.linspace(0, len(values) - 1, 5).round().astype(int))]
        for own in [measured.second == value]
    )


def _merge_close_values(values: Floats) -> Floats:
    """The values, with those less than 10 % apart replaced by their median: 16 of 16,384 counts as 0.001."""
    order = np.argsort(values, kind="stable")
    groups = np.concatenate([[0], np.cumsum(np.diff(np.log(values[order])) > _ALIKE)])
    made = np.empty_like(values)
    for group in range(groups[-1] + 1):
        made[order[groups == group]] = np.median(values[order[groups == group]])
    return made
