"""Curves over two variables: elements, and the number of slices or of selected elements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from simulator.calibration.fits.families import hat_functions
from simulator.calibration.fits.robust import robust_linear
from simulator.calibration.fits.selection import ERROR_CAP, FOLDS, NEARLY
from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.records import Record

GRIDS = ((3, 2), (6, 4), (10, 8), (14, 12))
_STIFFNESS = 0.05


class Surface(Record):
    """log t bilinear in (log x, log y) between knots and linear beyond them; nearly flat where nothing was measured."""

    family: str
    predict: Callable[[Floats, Floats], Floats]


def fit_surface(x: Floats, y: Floats, seconds: Floats, grid: tuple[int, int]) -> Surface:
    """Fit by the soft-L1 loss on relative error, with up to `grid` knots along the axes, at quantiles of the sizes.

    Second differences between neighbouring knots are pulled to 0 with a weight of 0.05, where a measurement has 1, so
    that knots without measurements follow their neighbours (penalised splines of degree one, Eilers and Marx 1996).
    """
    u, v, target = np.log(x), np.log(y), np.log(seconds)
    across, along = (_place_knots(axis, most) for axis, most in zip((u, v), grid, strict=True))
    heights = robust_linear(_design_matrix(u, v, across, along), target, _stiffness_penalty(across, along))

    def predict(at: Floats, other: Floats) -> Floats:
        made: Floats = np.exp((_design_matrix(np.log(at), np.log(other), across, along) * heights).sum(axis=1))
        return made

    return Surface(f"surface {len(across)} x {len(along)}", predict)


def choose_surface(x: Floats, y: Floats, seconds: Floats) -> tuple[Surface, float]:
    """The coarsest grid whose cross-validated error is close to the lowest, and that error."""
    distinct = [len(np.unique(values)) for values in (x, y)]
    grids = [g for g in GRIDS if min(g[0], distinct[0]) * min(g[1], distinct[1]) <= 2 * len(x)] or [GRIDS[0]]
    scores = [_validation_score(x, y, seconds, grid) for grid in grids]
    best = next(place for place, score in enumerate(scores) if score <= NEARLY * min(scores))
    return fit_surface(x, y, seconds, grids[best]), scores[best]


def checkerboard(x: Floats, y: Floats, ways: int) -> Ints:
    """A fold below `ways` for each point, in turn along both variables, so that every row and column has all folds."""
    ranks = [np.unique(values, return_inverse=True)[1] for values in (x, y)]
    made: Ints = (ranks[0] + (1 if ways == 2 else 2) * ranks[1]) % ways
    return made


def cross_validation_error(
    x: Floats, y: Floats, seconds: Floats, predicted: Callable[[npt.NDArray[np.bool_]], Floats]
) -> float:
    """Mean absolute log error over folds of `predicted`, which takes a mask of the points that are held out.

    Where there are too few points for two folds: the largest value that an error can count.
    """
    fold = checkerboard(x, y, FOLDS)
    numbers = np.unique(fold)
    errors = [np.full(1, ERROR_CAP)]
    if len(numbers) > 1:
        masks = [fold == number for number in numbers]
        errors = [np.minimum(np.abs(np.log(predicted(held) / seconds[held])), ERROR_CAP) for held in masks]
    return float(np.concatenate(errors).mean())


def _validation_score(x: Floats, y: Floats, seconds: Floats, grid: tuple[int, int]) -> float:
    def predicted(held: npt.NDArray[np.bool_]) -> Floats:
        return fit_surface(x[~held], y[~held], seconds[~held], grid).predict(x[held], y[held])

    return cross_validation_error(x, y, seconds, predicted)


def _place_knots(values: Floats, most: int) -> Floats:
    """Knots at quantiles of the distinct values."""
    distinct = np.unique(values)
    return np.unique(np.quantile(distinct, np.linspace(0, 1, min(most, len(distinct)))))


def _design_matrix(u: Floats, v: Floats, across: Floats, along: Floats) -> Floats:
    made: Floats = (hat_functions(u, across)[:, :, None] * hat_functions(v, along)[:, None, :]).reshape(len(u), -1)
    return made


def _stiffness_penalty(across: Floats, along: Floats) -> Floats:
    """Rows whose product with the heights is the distance of each knot from the line through its neighbours."""
    rows = []
    numbers = np.arange(len(across) * len(along)).reshape(len(across), len(along))
    for knots, lines in ((across, numbers.T), (along, numbers)):
        for place in range(1, len(knots) - 1):
            share = (knots[place] - knots[place - 1]) / (knots[place + 1] - knots[place - 1])
            for line in lines:
                row = np.zeros(numbers.size)
                row[line[place - 1 : place + 2]] = 1 - share, -1, share
                rows.append(_STIFFNESS * row)
    return np.array(rows).reshape(-1, numbers.size)
