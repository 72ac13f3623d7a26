"""Least squares for few parameters, with the same result on every processor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simulator.models.curves import Floats
from simulator.models.linear_algebra import multiply, solve_symmetric, weigh

_STEP = 6e-6
"""Relative step of central differences: the cube root of the rounding of a float."""
_ROUNDS = 200
_LEAST_DAMPING, _MOST_DAMPING = 1e-9, 1e9
_TINY = 1e-300


def least_squares(
    residuals: Callable[[Floats], Floats],
    start: Floats,
    bounds: tuple[Floats | float, Floats | float] = (-np.inf, np.inf),
    *,
    soft: float = np.inf,
    step: float = _STEP,
    tolerance: float = 1e-10,
) -> tuple[Floats, float]:
    """Parameters (n,) within `bounds` with the least sum of squared residuals (m,), and that sum.

    By the method of Levenberg and Marquardt, which damps the steps of Gauss and Newton by the diagonal of their matrix
    until the sum falls. Slopes are central differences over a share `step` of a parameter; of 1 where that is more,
    unless the bounds keep the parameter above 0. `soft`: the size s from which residuals count linearly, by the soft-L1
    loss 2 s^2 (sqrt(1 + (r / s)^2) - 1). The search ends where a step changes the sum, or each parameter, by a share
    `tolerance` at most.
    """
    low, high = (np.broadcast_to(np.asarray(bound, dtype=float), np.shape(start)) for bound in bounds)
    x = np.clip(np.asarray(start, dtype=float), low, high)
    here, damping = residuals(x), 1e-3
    least = _cost(here, soft)
    for _ in range(_ROUNDS):
        slopes = _slopes(residuals, x, low, high, step)
        weights = (1 + np.square(here / soft)) ** -0.5
        downhill = -np.array([weigh(weights * here, column) for column in slopes.T])
        square = multiply(slopes.T, weights[:, None] * slopes)
        free = np.flatnonzero(~((x <= low) & (downhill < 0) | (x >= high) & (downhill > 0)) & (np.diag(square) > _TINY))
        if not len(free):
            break
        while True:
            tried = x.copy()
            damped = square[np.ix_(free, free)] + damping * np.diag(np.diag(square)[free])
            tried[free] += solve_symmetric(damped, downhill[free])
            tried = np.clip(tried, low, high)
            there = residuals(tried)
            cost = _cost(there, soft)
            if cost < least or damping > _MOST_DAMPING:
                break
            damping *= 8
        if not cost < least:
            break
        done = least - cost <= tolerance * least or bool(
            (np.abs(tried - x) <= tolerance * np.maximum(np.abs(x), tolerance)).all()
        )
        x, here, least, damping = tried, there, cost, max(damping / 8, _LEAST_DAMPING)
        if done:
            break
    return x, least


def _cost(residuals: Floats, soft: float) -> float:
    """The sum of squares, or of the soft-L1 loss, which is the same for residuals far below `soft`."""
    squares = np.square(residuals)
    return float(np.sum(squares if np.isinf(soft) else 2 * squares / (1 + np.sqrt(1 + squares / soft**2))))


def _slopes(residuals: Callable[[Floats], Floats], x: Floats, low: Floats, high: Floats, step: float) -> Floats:
    """Slopes of the residuals (m, n) at x (n,), between points within the bounds."""
    columns = []
    for place, value in enumerate(x.tolist()):
        ends, size = [], abs(value) if low[place] > 0 else max(1.0, abs(value))
        for sign in (-1.0, 1.0):
            other = x.copy()
            other[place] = min(max(value + sign * step * size, low[place]), high[place])
            ends.append((other[place], residuals(other)))
        (before, first), (after, second) = ends
        columns.append((second - first) / (after - before))
    return np.array(columns).T
