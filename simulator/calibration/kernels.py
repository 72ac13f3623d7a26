"""Calibration of a GPU's kernels: a curve for each, with what is known of its error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.calibration.accuracy import Errors, relative
from simulator.calibration.families import Fitted, fit_affine
from simulator.calibration.selection import ERROR_CAP, FOLDS, NEARLY, CurveFit, Repeats, choose, fit_curve
from simulator.calibration.surface import checkered, choose_surface
from simulator.calibration.timings import COUNTED, Timing, Timings
from simulator.models.curves import Floats

TYPICAL = (2.0**14, 2.0**28)
"""Total elements over which errors are reported apart: sizes of layers and of whole models."""
_LEAST_ON_CUT = 5
_SAME = 1.5
_ALIKE = 0.1
AFFINE = ("elementwise",)
"""Kernels that others are priced from, by the floor and the slope of an affine curve."""


@dataclass(frozen=True, slots=True)
class KernelFit:
    """The curve of one kernel over its size, and its errors.

    With a second variable (k, slices, elements of the tensor) the curve is the surface's cut at a typical value.
    `held_sizes` are total elements of the held-out timings, `on_cut` whether each one lies near the cut.
    """

    kernel: str
    family: str
    predict: Callable[[Floats], Floats]
    fitted_curve: Fitted | None
    measured: Repeats
    count: int
    held_sizes: Floats
    held_errors: Floats
    on_cut: np.ndarray
    extrapolation: Errors | None
    fitted: Errors | None
    spread: float
    axis: str

    @property
    def held_out_mape(self) -> float | None:
        """Held-out error of the curve: on the cut where enough timings were held out there, else of all of them."""
        near = self.held_errors[self.on_cut]
        errors = Errors.of(near if len(near) >= _LEAST_ON_CUT else self.held_errors)
        return errors.mape if errors else None

    def described(self) -> dict[str, Any]:
        """As it goes into the document."""
        typical = (self.held_sizes >= TYPICAL[0]) & (self.held_sizes <= TYPICAL[1])
        return {
            "kernel": self.kernel,
            "timings": self.count,
            "range": [float(self.measured.sizes[0]), float(self.measured.sizes[-1])],
            "family": self.family,
            "second_variable": self.axis,
            "interpolation": _errors(self.held_errors),
            "interpolation_typical": _errors(self.held_errors[typical]),
            "interpolation_on_cut": _errors(self.held_errors[self.on_cut]),
            "size_extrapolation": self.extrapolation.described() if self.extrapolation else None,
            "fitted": self.fitted.described() if self.fitted else None,
            "repeat_spread": self.measured.spread if self.measured.spread is not None else self.spread or None,
            "held_out_mape": self.held_out_mape,
        }


def calibrate_kernels(timings: Timings, density: float = 0.001) -> Mapping[str, KernelFit]:
    """Fit every kernel. Where a second variable was varied, the curve is cut at one slice, or at k = `density` n."""
    timings.only()
    kernels = sorted({item.kernel for item in timings.samples})
    return {kernel: _fit([s for s in timings.samples if s.kernel == kernel], density) for kernel in kernels}


def _fit(samples: list[Timing], density: float) -> KernelFit:
    kernel = samples[0].kernel
    spread = float(np.median([item.spread for item in samples]))
    measured = Repeats.of([item.size for item in samples], [item.seconds for item in samples])
    if kernel in AFFINE:
        return _affine(kernel, measured, len(samples), spread)
    axis = _second(samples)
    surface = _surface(samples, axis, density, spread) if axis else None
    if surface is not None:
        return surface
    return _along(kernel, fit_curve(measured), len(samples), spread)


_SECOND: dict[str, Callable[[Timing], float]] = {
    "slices": lambda item: item.slices,
    "k / elements": lambda item: item.k / item.elements,
    "indices / elements": lambda item: item.size / item.elements,
}
"""What a surface has as its second variable, by name; 0 where a row does not say."""


def _second(samples: list[Timing]) -> str:
    """What was varied besides the size; empty for nothing."""
    names = ("slices", "indices / elements" if samples[0].kernel in COUNTED else "k / elements")
    sizes = {item.size for item in samples}
    for name in names:
        values = {_SECOND[name](item) for item in samples}
        pairs = {(_SECOND[name](item), item.size) for item in samples}
        if len(values) > 1 and 0.0 not in values and len(pairs) > len(sizes):
            return name
    return ""


def _along(kernel: str, fit: CurveFit, count: int, spread: float) -> KernelFit:
    return KernelFit(
        kernel,
        fit.chosen.family,
        fit.chosen.predict,
        fit.chosen,
        fit.measured,
        count,
        fit.held_sizes,
        fit.held_errors,
        np.ones(len(fit.held_sizes), dtype=bool),
        fit.extrapolation,
        fit.fitted,
        spread,
        "",
    )


def _affine(kernel: str, measured: Repeats, count: int, spread: float) -> KernelFit:
    sizes, seconds = measured.sizes, measured.seconds
    odd = np.arange(len(sizes)) % 2 == 1
    whole = fit_affine(sizes, seconds)
    held = np.zeros(0)
    if (~odd).sum() >= 2 and odd.any():
        held = relative(fit_affine(sizes[~odd], seconds[~odd]).predict(sizes[odd]), seconds[odd])
    fitted = Errors.of(relative(whole.predict(sizes), seconds))
    at = sizes[odd] if len(held) else np.zeros(0)
    near = np.ones(len(held), dtype=bool)
    return KernelFit(
        kernel, whole.family, whole.predict, whole, measured, count, at, held, near, None, fitted, spread, ""
    )


def _surface(samples: list[Timing], axis: str, density: float, spread: float) -> KernelFit | None:
    """Both variables, with every second timing held out like the black squares of a board.

    None where cross-validation finds the second variable no better than a curve over the size alone.
    """
    found: dict[tuple[float, float], list[float]] = {}
    for item in samples:
        found.setdefault((_SECOND[axis](item), item.size), []).append(item.seconds)
    y, x = (np.array(column) for column in zip(*sorted(found), strict=True))
    y = _together(y)
    seconds = np.array([sorted(times)[(len(times) - 1) // 2] for _, times in sorted(found.items())])
    odd = checkered(x, y, 2) == 1
    chosen, score = choose_surface(x[~odd], y[~odd], seconds[~odd])
    if _curve_score(x[~odd], y[~odd], seconds[~odd]) <= NEARLY * score:
        return None
    whole, _ = choose_surface(x, y, seconds)
    cut = float(y.min() if axis == "slices" else np.clip(density, y.min(), y.max()))
    near = np.abs(np.log(y / cut)) <= np.log(_SAME)
    at = np.unique(x[near] if near.any() else x)
    repeats = [(max(times) - min(times)) / float(np.median(times)) for times in found.values() if len(times) > 1]
    return KernelFit(
        samples[0].kernel,
        whole.family,
        lambda sizes: whole.predict(sizes, np.full(np.shape(sizes), cut)),
        None,
        Repeats(at, whole.predict(at, np.full(len(at), cut)), float(np.median(repeats)) if repeats else None),
        len(samples),
        (x * y if axis == "slices" else x)[odd],
        relative(chosen.predict(x[odd], y[odd]), seconds[odd]),
        near[odd],
        None,
        Errors.of(relative(whole.predict(x, y), seconds)),
        spread,
        axis,
    )


def _together(values: Floats) -> Floats:
    """Values that follow one another by less than 10 % as one, their median: 16 of 16,384 is one in a thousand."""
    order = np.argsort(values, kind="stable")
    groups = np.concatenate([[0], np.cumsum(np.diff(np.log(values[order])) > _ALIKE)])
    made = np.empty_like(values)
    for group in range(groups[-1] + 1):
        made[order[groups == group]] = np.median(values[order[groups == group]])
    return made


def _curve_score(x: Floats, y: Floats, seconds: Floats) -> float:
    """Cross-validated error of a curve over the size alone, over the folds that surfaces are chosen by."""
    fold, errors = checkered(x, y, FOLDS), []
    for number in range(FOLDS):
        held = fold == number
        if held.any() and not held.all():
            known = Repeats.of(x[~held], seconds[~held])
            predicted = choose(known.sizes, known.seconds).predict(x[held])
            errors.append(np.minimum(np.abs(np.log(predicted / seconds[held])), ERROR_CAP))
    return float(np.concatenate(errors).mean())


def _errors(signed: Floats) -> dict[str, float | int] | None:
    errors = Errors.of(signed)
    return errors.described() if errors else None
