"""Fits on which outliers have little influence.

Residuals are logarithms of predicted over measured, under the soft-L1 loss rho(z) = 2 (sqrt(1 + z) - 1) with
z = (r / s)^2, which is least squares for small residuals and counts outliers linearly (Charbonnier et al. 1994). The
scale s is 1.35 times the median absolute deviation that the first fit leaves, as a standard deviation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import least_squares
from scipy.sparse import csc_array, csr_array, eye_array
from scipy.sparse.linalg import splu

from simulator.models.curves import Floats

ROUNDS = 30
"""Rounds of reweighting, at most."""
_SMALLEST_SCALE = 1e-4
_WIDE = 40
_RIDGE = 1e-12


def robust_linear(design: Floats, target: Floats, ridge: Floats | None = None) -> Floats:
    """Coefficients of a linear model under the soft-L1 loss, by reweighted least squares.

    `ridge`: further rows of the design whose target is 0.
    """
    extra = np.zeros((1, design.shape[1])) if ridge is None or not len(ridge) else ridge
    solve = _dense_solver(design, extra) if design.shape[1] <= _WIDE else _sparse_solver(design, extra)
    weights, coefficients = np.ones(len(target)), np.zeros(design.shape[1])
    for _ in range(ROUNDS):
        found = solve(weights, weights * target)
        done = np.allclose(found, coefficients, rtol=0, atol=1e-5)
        coefficients = found
        if done:
            break
        residuals = design @ coefficients - target
        weights = (1 + (residuals / robust_scale(residuals)) ** 2) ** -0.5
    return coefficients


def _dense_solver(design: Floats, extra: Floats) -> Callable[[Floats, Floats], Floats]:
    """Solver of the normal equations for row weights and weighted targets."""
    gentle = extra.T @ extra + _RIDGE * np.eye(design.shape[1])
    return lambda weights, target: np.asarray(
        np.linalg.solve((design.T * weights) @ design + gentle, design.T @ target), dtype=float
    )


def _sparse_solver(design: Floats, extra: Floats) -> Callable[[Floats, Floats], Floats]:
    """Solver of the normal equations of sparse designs: many hat functions, each of which is above 0 in few rows."""
    rows, bends = csr_array(design), csr_array(extra)
    gentle = bends.T @ bends + _RIDGE * eye_array(design.shape[1])
    return lambda weights, target: np.asarray(
        splu(csc_array((rows.T * weights) @ rows + gentle)).solve(rows.T @ target), dtype=float
    )


def robust_scale(residuals: Floats) -> float:
    """1.35 standard deviations, by the median absolute residual."""
    return max(1.35 * 1.4826 * float(np.median(np.abs(residuals))), _SMALLEST_SCALE)


def robust_log_fit(residuals: Callable[[Floats], Floats], start: Floats) -> Floats:
    """Parameters that minimise log residuals under the soft-L1 loss, the scale taken from two fits before."""
    scale = 0.05
    for _ in range(2):
        start = least_squares(residuals, start, loss="soft_l1", f_scale=scale, x_scale="jac").x
        scale = robust_scale(residuals(start))
    found = least_squares(residuals, start, loss="soft_l1", f_scale=scale, x_scale="jac").x
    return np.asarray(found, dtype=float)
