"""Curves over two variables: elements, and the number of slices or of selected elements."""

from __future__ import annotations

from functools import partial

import numpy as np

from simulator.calibration.fits.families import Fitted, Repeats, bend_penalty, hat_functions
from simulator.calibration.fits.robust import robust_linear
from simulator.calibration.fits.selection import FOLDS, NEARLY, cross_validation_error
from simulator.models.curves import Floats
from simulator.models.exchange import Ints

GRIDS = ((3, 2), (6, 4), (10, 8), (14, 12))
_STIFFNESS = 0.05


def fit_surface(measured: Repeats, grid: tuple[int, int]) -> Fitted:
    """log t bilinear in (log x, log y) between knots and linear beyond them; nearly flat where nothing was measured.

    Fitted by the soft-L1 loss on relative error, with up to `grid` knots along the axes, at quantiles of the sizes.
    Second differences between neighbouring knots are pulled to 0 with a weight of 0.05, where a measurement has 1, so
    that knots without measurements follow their neighbours (penalised splines of degree one, Eilers and Marx 1996).
    """
    u, v, target = np.log(measured.sizes), np.log(_second(measured)), np.log(measured.seconds)
    across, along = (_place_knots(axis, most) for axis, most in zip((u, v), grid, strict=True))
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
    distinct = [len(np.unique(values)) for values in (measured.sizes, _second(measured))]
    most = 2 * len(measured.sizes)
    grids = [g for g in GRIDS if min(g[0], distinct[0]) * min(g[1], distinct[1]) <= most] or [GRIDS[0]]
    fold = checkerboard(measured, FOLDS)
    scores = [cross_validation_error(measured, fold, partial(fit_surface, grid=grid)) for grid in grids]
    best = next(place for place, score in enumerate(scores) if score <= NEARLY * min(scores))
    return fit_surface(measured, grids[best]), scores[best]


def checkerboard(measured: Repeats, ways: int) -> Ints:
    """A fold below `ways` for each point, in turn along both variables, so that every row and column has all folds."""
    ranks = [np.unique(values, return_inverse=True)[1] for values in (measured.sizes, _second(measured))]
    made: Ints = (ranks[0] + (1 if ways == 2 else 2) * ranks[1]) % ways
    return made


def _second(measured: Repeats) -> Floats:
    if measured.second is None:
        raise ValueError("a surface is one over two variables")
    return measured.second


def _place_knots(values: Floats, most: int) -> Floats:
    """Knots at quantiles of the distinct values."""
    distinct = np.unique(values)
    return np.unique(np.quantile(distinct, np.linspace(0, 1, min(most, len(distinct)))))


def _design_matrix(u: Floats, v: Floats, across: Floats, along: Floats) -> Floats:
    made: Floats = (hat_functions(u, across)[:, :, None] * hat_functions(v, along)[:, None, :]).reshape(len(u), -1)
    return made
