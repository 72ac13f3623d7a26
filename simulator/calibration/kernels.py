"""Calibration of a GPU's kernels: a curve for each, with what is known of its error."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.calibration.fits.accuracy import Drawn, Errors, described, relative
from simulator.calibration.fits.families import families, floors
from simulator.calibration.fits.selection import NEARLY, OUTER, Repeats, choose, fit_curve
from simulator.calibration.fits.surface import checkered, choose_surface, cross_validated
from simulator.calibration.timings import COUNTED, Timing, Timings
from simulator.errors import InputError, Problem
from simulator.models.curves import Affine, Floats, NLogN

TYPICAL = (2.0**14, 2.0**28)
"""Total elements over which errors are reported apart: sizes of layers and of whole models."""
_LEAST_ON_CUT = 5
_LEAST_BELOW = 10
_SAME = 1.5
_ALIKE = 0.1
AFFINE = ("elementwise",)
"""Kernels that others are priced from, by the floor and the slope of an affine curve."""


@dataclass(frozen=True, slots=True)
class KernelFit:
    """The curve of one kernel over its size, and its errors.

    With a second variable (`axis`: k, slices) the curve is the surface's cut at a typical value, of which `near` says
    whether a held-out timing lies beside it. `sizes` are the distinct ones of the curve, `held_sizes` the total
    elements of the held-out timings. `drawn` is what was measured and what was made of it.
    """

    kernel: str
    family: str
    predict: Callable[[Floats], Floats]
    curve: Affine | NLogN | None
    sizes: Floats
    count: int
    held_sizes: Floats
    held_errors: Floats
    near: np.ndarray
    extrapolation: Errors | None
    fitted: Errors | None
    repeat_spread: float | None
    spread: float
    drawn: tuple[Drawn, ...]
    axis: str = ""

    @property
    def held_out_mape(self) -> float | None:
        """Held-out error of the curve: on the cut where enough timings were held out there, else of all of them."""
        near = self.held_errors[self.near]
        errors = Errors.of(near if len(near) >= _LEAST_ON_CUT else self.held_errors)
        return errors.mape if errors else None

    def described(self) -> dict[str, Any]:
        """As it goes into the document."""
        typical = (self.held_sizes >= TYPICAL[0]) & (self.held_sizes <= TYPICAL[1])
        return {
            "kernel": self.kernel,
            "timings": self.count,
            "range": [float(self.sizes[0]), float(self.sizes[-1])],
            "family": self.family,
            "second_variable": self.axis,
            "interpolation": described(self.held_errors),
            "interpolation_typical": described(self.held_errors[typical]),
            "interpolation_on_cut": described(self.held_errors[self.near]),
            "size_extrapolation": self.extrapolation.described() if self.extrapolation else None,
            "fitted": self.fitted.described() if self.fitted else None,
            "repeat_spread": self.repeat_spread if self.repeat_spread is not None else self.spread or None,
            "held_out_mape": self.held_out_mape,
        }


def calibrate_kernels(timings: Timings, density: float = 0.001) -> Mapping[str, KernelFit]:
    """Fit every kernel. Where a second variable was varied, the curve is cut at one slice, or at k = `density` n.

    A kernel that was timed at one size only has no curve and is left out. Raises InputError where none is left.
    """
    timings.only()
    kernels = defaultdict[str, list[Timing]](list)
    for item in timings.samples:
        kernels[item.kernel].append(item)
    made = {}
    for kernel, samples in sorted(kernels.items()):
        if len({item.size for item in samples}) > 1:
            made[kernel] = _fit(samples, density)
        else:
            timings.alone[kernel] = len(samples)
    if not made:
        raise InputError(Problem("calibrate kernels", "two sizes or more of a kernel", f"one of {', '.join(kernels)}"))
    return made


def _fit(samples: list[Timing], density: float) -> KernelFit:
    kernel = samples[0].kernel
    spread = float(np.median([item.spread for item in samples]))
    axis = "" if kernel in AFFINE else _second(samples)
    surface = _surface(samples, axis, density, spread) if axis else None
    if surface is not None:
        return surface
    measured = Repeats.of([item.size for item in samples], [item.seconds for item in samples])
    fit = fit_curve(measured, floors if kernel in AFFINE else families)
    return KernelFit(
        kernel=kernel,
        family=fit.chosen.family,
        predict=fit.chosen.predict,
        curve=fit.chosen.curve,
        sizes=measured.sizes,
        count=len(samples),
        held_sizes=fit.held_sizes,
        held_errors=fit.held_errors,
        near=np.ones(len(fit.held_sizes), dtype=bool),
        extrapolation=fit.extrapolation,
        fitted=fit.fitted,
        repeat_spread=measured.spread,
        spread=spread,
        drawn=(Drawn(kernel, measured.sizes, measured.seconds, fit.chosen.predict(measured.sizes)),),
    )


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
        kernel=samples[0].kernel,
        family=whole.family,
        predict=lambda sizes: whole.predict(sizes, np.full(np.shape(sizes), cut)),
        curve=None,
        sizes=at,
        count=len(samples),
        held_sizes=(x * y if axis == "slices" else x)[odd],
        held_errors=relative(chosen.predict(x[odd], y[odd]), seconds[odd]),
        near=near[odd],
        extrapolation=_beyond(x, y, seconds),
        fitted=Errors.of(relative(whole.predict(x, y), seconds)),
        repeat_spread=float(np.median(repeats)) if repeats else None,
        spread=spread,
        drawn=_lines(samples[0].kernel, axis, (x, y, seconds), whole.predict(x, y)),
        axis=axis,
    )


def _beyond(x: Floats, y: Floats, seconds: Floats) -> Errors | None:
    """Errors in the upper quarter of the sizes (log axis) of a surface fitted and chosen below."""
    logs = np.log(x)
    upper = logs > logs.max() - OUTER * (logs.max() - logs.min())
    if (~upper).sum() < _LEAST_BELOW:
        return None
    below, _ = choose_surface(x[~upper], y[~upper], seconds[~upper])
    return Errors.of(relative(below.predict(x[upper], y[upper]), seconds[upper]))


def _lines(kernel: str, axis: str, data: tuple[Floats, Floats, Floats], fitted: Floats) -> tuple[Drawn, ...]:
    """A line over the size at up to five values of the second variable."""
    x, y, seconds = data
    values = np.unique(y)
    chosen = values[np.unique(np.linspace(0, len(values) - 1, 5).round().astype(int))]
    return tuple(
        Drawn(f"{kernel}, {axis} {value:.3g}", x[y == value], seconds[y == value], fitted[y == value])
        for value in chosen
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

    def predicted(held: npt.NDArray[np.bool_]) -> Floats:
        known = Repeats.of(x[~held], seconds[~held])
        return choose(known.sizes, known.seconds).predict(x[held])

    return cross_validated(x, y, seconds, predicted)
