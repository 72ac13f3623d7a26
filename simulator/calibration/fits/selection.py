"""Choice of a curve or surface by cross-validation, and its error on what was held out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.calibration.fits.accuracy import FittedLine, errors_as_dict
from simulator.calibration.fits.families import (
    Fitted,
    Fitter,
    Repeats,
    bend_penalty,
    families,
    hat_functions,
    robust_linear,
)
from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.records import Record

FOLDS = 5
NEARLY = 1.05
"""The simplest family is chosen whose cross-validated error is at most this factor above the lowest."""
ERROR_CAP = 0.5
_ROUNDING = 1e-4
OUTER = 0.25


class CurveFit(Record):
    """The chosen curve of a series, fitted to all of it, and its signed relative errors.

    `held_errors`: at every second size (`held_sizes`), of a curve chosen and fitted on the others. `beyond`: in the
    upper quarter of the range (on a log axis), of a curve chosen and fitted on the rest. `fitted`: on the timings that
    the curve was fitted to.
    """

    measured: Repeats
    chosen: Fitted
    held_sizes: Floats
    held_errors: Floats
    beyond: Floats
    fitted: Floats

    def line(self, label: str) -> FittedLine:
        """The curve and what was measured, for a figure."""
        sizes = self.measured.sizes
        return FittedLine(label, sizes, self.measured.seconds, self.chosen.predict(sizes))

    def as_dict(self) -> dict[str, Any]:
        """The part of a result document that states it."""
        return {
            "range": self.measured.sizes[[0, -1]].tolist(),
            "family": self.chosen.family,
            "interpolation": errors_as_dict(self.held_errors),
            "size_extrapolation": errors_as_dict(self.beyond),
            "fitted": errors_as_dict(self.fitted),
            "repeat_spread": self.measured.spread,
        }


def fit_curve(measured: Repeats, allowed: Callable[[str], bool] = lambda name: True) -> CurveFit:
    """Choose a family by cross-validation, fit it, and find its error on held-out sizes."""
    odd = np.arange(len(measured.sizes)) % 2 == 1
    return judge(measured, partial(choose_curve, allowed=allowed), odd)


def judge(measured: Repeats, choose: Fitter, odd: npt.NDArray[np.bool_], least_below: int = 3) -> CurveFit:
    """What `choose` makes of all timings, and its errors on those left out: `odd` ones, and the largest sizes.

    The latter where at least `least_below` smaller ones are left.
    """
    logs = np.log(measured.sizes)
    upper = logs > logs.max() - OUTER * (logs.max() - logs.min())
    held_errors = _left_out(measured, choose, odd, 3)
    chosen = choose(measured)
    return CurveFit(
        measured,
        chosen,
        measured.sizes[odd] if len(held_errors) else np.zeros(0),
        held_errors,
        _left_out(measured, choose, upper, least_below),
        chosen.at(measured) / measured.seconds - 1,
    )


def _left_out(measured: Repeats, choose: Fitter, held: npt.NDArray[np.bool_], least: int) -> Floats:
    """Signed errors at the held timings of what is chosen on the others; none where too few are left."""
    if not held.any() or (~held).sum() < least:
        return np.zeros(0)
    left_out = measured.at(held)
    return choose(measured.at(~held)).at(left_out) / left_out.seconds - 1


def choose_curve(measured: Repeats, allowed: Callable[[str], bool] = lambda name: True) -> Fitted:
    """The simplest family whose cross-validated error is close to the lowest, fitted to all sizes.

    Folds take turns along the sizes. The two ends are never held out, because the others say nothing about them.
    """
    count = len(measured.sizes)
    known = families(count, allowed)
    if not known:
        return Fitted("constant", lambda at: np.full(np.shape(at), float(measured.seconds.mean())))
    fold = np.arange(count) % max(1, min(FOLDS, count - 2))
    fold[[0, -1]] = -1
    return _choose(measured, fold, list(known.values()), _ROUNDING)[0]


def _choose(measured: Repeats, fold: Ints, fits: Sequence[Fitter], slack: float = 0.0) -> tuple[Fitted, float]:
    """The first fit whose cross-validated error is close to the lowest, to all timings, and that error."""
    scores = [cross_validation_error(measured, fold, fit) for fit in fits]
    best = next(place for place, score in enumerate(scores) if score <= NEARLY * min(scores) + slack)
    return fits[best](measured), scores[best]


def cross_validation_error(measured: Repeats, fold: Ints, fit: Fitter) -> float:
    """Mean absolute log error over folds (m,), each predicted by a fit to the others; the largest where there is one.

    Timings of a fold below 0 are never held out, and count with the error of a fit to all. No error counts for more
    than 0.5, so that one outlier does not decide between families.
    """
    numbers = np.unique(fold)
    if len(numbers) == 1 and numbers[0] >= 0:
        return ERROR_CAP
    errors = []
    for number in numbers:
        held = fold == number
        made, left_out = fit(measured if number < 0 else measured.at(~held)), measured.at(held)
        off = np.log(np.maximum(made.at(left_out), 1e-300) / left_out.seconds)
        errors.append(np.minimum(np.abs(off), ERROR_CAP))
    return float(np.concatenate(errors).mean())


GRIDS = ((3, 2), (6, 4), (10, 8), (14, 12))
_STIFFNESS = 0.05


def fit_surface(measured: Repeats, grid: tuple[int, int]) -> Fitted:
    """log t bilinear in (log x, log y) between knots and linear beyond them; nearly flat where nothing was measured.

    Fitted by the soft-L1 loss on relative error, with up to `grid` knots along the axes, at quantiles of the sizes.
    Second differences between neighbouring knots are pulled to 0 with a weight of 0.05, where a measurement has 1, so
    that knots without measurements follow their neighbours (penalised splines of degree one, Eilers and Marx 1996).
    """
    u, v, target = np.log(measured.sizes), np.log(measured.second), np.log(measured.seconds)
    across, along = (
        np.unique(np.quantile(distinct, np.linspace(0, 1, min(most, len(distinct)))))
        for distinct, most in zip((np.unique(u), np.unique(v)), grid, strict=True)
    )
    bends = np.vstack(
        [np.kron(bend_penalty(across), np.eye(len(along))), np.kron(np.eye(len(across)), bend_penalty(along))]
    )
    heights = robust_linear(_design_matrix(u, v, across, along), target, _STIFFNESS * bends)

    def predict(at: Floats, other: Floats) -> Floats:
        made: Floats = np.exp((_design_matrix(np.log(at), np.log(other), across, along) * heights).sum(axis=1))
        return made

    return Fitted(f"surface {len(across)} x {len(along)}", predict)


def choose_surface(measured: Repeats) -> tuple[Fitted, float]:
    """The coarsest grid whose cross-validated error is close to the lowest, and that error."""
    distinct = [len(np.unique(values)) for values in (measured.sizes, measured.second)]
    most = 2 * len(measured.sizes)
    grids = [g for g in GRIDS if min(g[0], distinct[0]) * min(g[1], distinct[1]) <= most] or [GRIDS[0]]
    return _choose(measured, checkerboard(measured, FOLDS), [partial(fit_surface, grid=grid) for grid in grids])


def checkerboard(measured: Repeats, ways: int) -> Ints:
    """A fold below `ways` for each point, in turn along both variables, so that every row and column has all folds."""
    ranks = [np.unique(values, return_inverse=True)[1] for values in (measured.sizes, measured.second)]
    made: Ints = (ranks[0] + (1 if ways == 2 else 2) * ranks[1]) % ways
    return made


def _design_matrix(u: Floats, v: Floats, across: Floats, along: Floats) -> Floats:
    made: Floats = (hat_functions(u, across)[:, :, None] * hat_functions(v, along)[:, None, :]).reshape(len(u), -1)
    return made
