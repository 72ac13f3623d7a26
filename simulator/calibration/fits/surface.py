"""Curves over two variables: elements, and how many slices there are or how many elements are wanted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.calibration.fits.families import hats
from simulator.calibration.fits.robust import robust_linear
from simulator.calibration.fits.selection import ERROR_CAP, FOLDS, NEARLY
from simulator.models.curves import Floats
from simulator.models.exchange import Ints

GRIDS = ((3, 2), (6, 4), (10, 8), (14, 12))
_STIFFNESS = 0.05


@dataclass(frozen=True, slots=True)
class Surface:
    """log t bilinear in (log x, log y) between knots; straight beyond them, and stiff where nothing was measured."""

    family: str
    predict: Callable[[Floats, Floats], Floats]


def fit_surface(x: Floats, y: Floats, seconds: Floats, grid: tuple[int, int]) -> Surface:
    """Fit by the soft-L1 loss on relative error, with `grid` knots along either axis, at quantiles of what there is.

    Second differences between neighbouring knots are pulled to 0 with weight 0.05 against one measurement, so that
    knots without any follow their neighbours (penalised splines of degree one, Eilers and Marx 1996).
    """
    u, v, target = np.log(x), np.log(y), np.log(seconds)
    across, along = (_knots(axis, most) for axis, most in zip((u, v), grid, strict=True))
    heights = robust_linear(_design(u, v, across, along), target, _stiff(across, along))

    def predict(at: Floats, other: Floats) -> Floats:
        made: Floats = np.exp(_design(np.log(at), np.log(other), across, along) @ heights)
        return made

    return Surface(f"surface {len(across)} x {len(along)}", predict)


def choose_surface(x: Floats, y: Floats, seconds: Floats) -> tuple[Surface, float]:
    """The coarsest grid whose cross-validated error is close to the best one's, and that error."""
    distinct = [len(np.unique(values)) for values in (x, y)]
    grids = [g for g in GRIDS if min(g[0], distinct[0]) * min(g[1], distinct[1]) <= 2 * len(x)] or [GRIDS[0]]
    scores = [_score(x, y, seconds, grid) for grid in grids]
    best = next(place for place, score in enumerate(scores) if score <= NEARLY * min(scores))
    return fit_surface(x, y, seconds, grids[best]), scores[best]


def checkered(x: Floats, y: Floats, ways: int) -> Ints:
    """A number below `ways` for each point, in turn along both variables, so that no row or column is left out."""
    ranks = [np.unique(values, return_inverse=True)[1] for values in (x, y)]
    made: Ints = (ranks[0] + (1 if ways == 2 else 2) * ranks[1]) % ways
    return made


def cross_validated(
    x: Floats, y: Floats, seconds: Floats, predicted: Callable[[npt.NDArray[np.bool_]], Floats]
) -> float:
    """Mean absolute log error of `predicted`, which takes a mask of the points held out, over folds of all points.

    The most that an error counts where there are too few points for two folds.
    """
    fold = checkered(x, y, FOLDS)
    numbers = np.unique(fold)
    errors = [np.full(1, ERROR_CAP)]
    if len(numbers) > 1:
        masks = [fold == number for number in numbers]
        errors = [np.minimum(np.abs(np.log(predicted(held) / seconds[held])), ERROR_CAP) for held in masks]
    return float(np.concatenate(errors).mean())


def _score(x: Floats, y: Floats, seconds: Floats, grid: tuple[int, int]) -> float:
    def predicted(held: npt.NDArray[np.bool_]) -> Floats:
        return fit_surface(x[~held], y[~held], seconds[~held], grid).predict(x[held], y[held])

    return cross_validated(x, y, seconds, predicted)


def _knots(values: Floats, most: int) -> Floats:
    """Knots at quantiles of the distinct values."""
    distinct = np.unique(values)
    return np.unique(np.quantile(distinct, np.linspace(0, 1, min(most, len(distinct)))))


def _design(u: Floats, v: Floats, across: Floats, along: Floats) -> Floats:
    made: Floats = (hats(u, across)[:, :, None] * hats(v, along)[:, None, :]).reshape(len(u), -1)
    return made


def _stiff(across: Floats, along: Floats) -> Floats:
    """Rows whose product with the heights is how far each knot is off the line through its neighbours."""
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
