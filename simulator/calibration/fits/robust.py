"""Fits on which outliers have little influence.

Residuals are logarithms of predicted over measured, under the soft-L1 loss rho(z) = 2 (sqrt(1 + z) - 1) with
z = (r / s)^2, which is least squares for small residuals and counts outliers linearly (Charbonnier et al. 1994). The
scale s is 1.35 times the median absolute deviation that the first fit leaves, as a standard deviation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array, eye_array

from simulator.models.curves import Floats
from simulator.models.linear_algebra import least_squares, solve_symmetric

ROUNDS = 30
"""Rounds of reweighting, at most."""
_SMALLEST_SCALE = 1e-4
_RIDGE = 1e-12


def robust_linear(design: Floats, target: Floats, ridge: Floats | None = None) -> Floats:
    """Coefficients of a linear model under the soft-L1 loss, by reweighted least squares.

    `ridge`: further rows of the design whose target is 0.
    """
    extra = np.zeros((1, design.shape[1])) if ridge is None or not len(ridge) else ridge
    solve = _normal_equations(design, extra)
    weights, coefficients = np.ones(len(target)), np.zeros(design.shape[1])
    for _ in range(ROUNDS):
        found = solve(weights, weights * target)
        done = np.allclose(found, coefficients, rtol=0, atol=1e-5)
        coefficients = found
        if done:
            break
        residuals = (design * coefficients).sum(axis=1) - target
        weights = (1 + (residuals / robust_scale(residuals)) ** 2) ** -0.5
    return coefficients


def _normal_equations(design: Floats, extra: Floats) -> Callable[[Floats, Floats], Floats]:
    """Solver of the normal equations for row weights and weighted targets.

    Products are those of sparse matrices: of many hat functions, few are above 0 in a row, and no sum is left to BLAS.
    """
    rows, bends = csr_array(design), csr_array(extra)
    gentle = bends.T @ bends + _RIDGE * eye_array(design.shape[1])

    def solve(weights: Floats, target: Floats) -> Floats:
        return solve_symmetric(((rows.T * weights) @ rows + gentle).toarray(), rows.T @ target)

    return solve


def robust_scale(residuals: Floats) -> float:
    """1.35 standard deviations, by the median absolute residual."""
    return max(1.35 * 1.4826 * float(np.median(np.abs(residuals))), _SMALLEST_SCALE)


def robust_log_fit(residuals: Callable[[Floats], Floats], start: Floats) -> Floats:
    """Parameters that minimise log residuals under the soft-L1 loss, the scale taken from two fits before."""
    scale = 0.05
    for _ in range(2):
        start, _ = least_squares(residuals, start, soft=scale)
        scale = robust_scale(residuals(start))
    return least_squares(residuals, start, soft=scale)[0]
