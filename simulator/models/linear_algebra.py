"""Linear algebra, least squares and orders with the same last digit on every processor.

`@`, `numpy.linalg` and most solvers of SciPy leave products to BLAS, which sums in an order of its own on each kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints

_CELLS = 2**17
"""Products that are held at a time: they stay in the cache."""
_SWEEPS = 60
_SQUARE = 1e-15
"""Cosine of the angle of columns that count as square to each other."""


def weigh(weights: Floats, values: Floats) -> float:
    """The sum of values (m,), each times its weight."""
    return float(np.add.reduce(weights * values))


def weigh_rows(weights: Floats, rows: Floats) -> Floats:
    """The sum of rows (b, m), each times its weight (b,): (m,)."""
    made = np.zeros(rows.shape[1])
    for part in _parts(*rows.shape):
        made += np.add.reduce(weights[part, None] * rows[part], axis=0)
    return made


def multiply(left: Floats, right: Floats) -> Floats:
    """The product (m, n) of two matrices, (m, k) and (k, n); quick where one of m, k and n is small."""
    rows, inner, columns = len(left), *right.shape
    if rows <= min(inner, columns):
        return np.array([weigh_rows(row, right) for row in left]).reshape(rows, columns)
    made = np.zeros((rows, columns))
    for part in _parts(rows, max(inner, columns)):
        if inner <= columns:
            for column, row in zip(left[part].T, right, strict=True):
                made[part] += column[:, None] * row
        else:
            for place, column in enumerate(right.T):
                made[part, place] = np.add.reduce(left[part] * column, axis=1)
    return made


class SparseRows:
    """A matrix (m, n) of whose rows most values are 0, as many hat functions have; sums go from row to row."""

    def __init__(self, matrix: Floats) -> None:
        self._size = matrix.shape[1]
        self._row, self._column = matrix.nonzero()
        self._value = matrix[self._row, self._column]
        counts = np.bincount(self._row, minlength=len(matrix))
        # Each value, with each of the values of its row.
        self._one = np.repeat(np.arange(len(self._row)), counts[self._row])
        ends = np.cumsum(counts[self._row])
        self._other = np.arange(len(self._one)) - np.repeat(ends - np.cumsum(counts)[self._row], counts[self._row])
        self._place = self._column[self._one] * self._size + self._column[self._other]

    def square(self, weights: Floats) -> Floats:
        """The sum (n, n) over rows of the product of each with itself, times its weight (m,)."""
        products = (self._value * weights[self._row])[self._one] * self._value[self._other]
        made: Floats = np.bincount(self._place, products, self._size**2).astype(float)
        return made.reshape(self._size, self._size)

    def along(self, weights: Floats) -> Floats:
        """The sum (n,) of rows, each times its weight (m,)."""
        made: Floats = np.bincount(self._column, self._value * weights[self._row], self._size).astype(float)
        return made


def solve_symmetric(matrix: Floats, target: Floats) -> Floats:
    """The solution (n,) of a positive definite system, (n, n) and (n,), by Gaussian elimination."""
    rest, solution = matrix.astype(float), target.astype(float)
    for place in range(len(rest)):
        below = rest[place + 1 :, place] / rest[place, place]
        rest[place + 1 :, place:] -= below[:, None] * rest[place, place:]
        solution[place + 1 :] -= below * solution[place]
    for place in reversed(range(len(rest))):
        solution[place] = (solution[place] - weigh(rest[place, place + 1 :], solution[place + 1 :])) / rest[
            place, place
        ]
    return solution


def singular_values(matrix: Floats) -> tuple[Floats, Floats]:
    """Singular values (n,) of a matrix (m, n), in no order, and a row (n, n) of each: its direction.

    By Hestenes' rotations of two columns until all are at right angles; for few columns.
    """
    columns, directions = matrix.T.astype(float), np.eye(matrix.shape[1])
    for _ in range(_SWEEPS):
        turned = False
        for one, two in combinations(range(len(columns)), 2):
            first, second = weigh(columns[one], columns[one]), weigh(columns[two], columns[two])
            product = weigh(columns[one], columns[two])
            if abs(product) <= _SQUARE * math.sqrt(first * second):
                continue
            turned, share = True, (second - first) / (2 * product)
            tangent = math.copysign(1.0, share) / (abs(share) + math.hypot(1.0, share))
            cosine = 1 / math.hypot(1.0, tangent)
            for rows in (columns, directions):
                a, b = rows[one].copy(), rows[two].copy()
                rows[one], rows[two] = cosine * (a - tangent * b), cosine * (b + tangent * a)
        if not turned:
            break
    return np.sqrt([weigh(column, column) for column in columns]), directions


def orthonormal_columns(matrix: Floats) -> Floats:
    """Orthonormal columns (m, n) that span those of a matrix (m, n), n <= m, by Householder's reflections.

    Columns that depend on the ones before are replaced by others.
    """
    rest, mirrors = matrix.astype(float), []
    for place in range(matrix.shape[1]):
        mirror = rest[place:, place].copy()
        norm = math.sqrt(float(np.add.reduce(mirror * mirror)))
        mirror[0] += math.copysign(norm, mirror[0])
        size = float(np.add.reduce(mirror * mirror))
        mirrors.append(mirror * math.sqrt(2 / size) if size else mirror)
        _reflect(rest[place:, place:], mirrors[-1])
    made = np.eye(*matrix.shape)
    for place in reversed(range(matrix.shape[1])):
        _reflect(made[place:, place:], mirrors[place])
    return made


def _reflect(columns: Floats, mirror: Floats) -> None:
    columns -= mirror[:, None] * weigh_rows(mirror, columns)


def _parts(count: int, width: int) -> list[slice]:
    """Slices of `count` rows with at most `_CELLS` values each."""
    step = max(1, _CELLS // max(1, width))
    return [slice(first, first + step) for first in range(0, count, step)]


SAME = 1e-9
"""Share by which values differ that are not equal: rounding is far below it."""


def largest_first(values: Floats) -> Ints:
    """The places of values (n,), none below 0, from the largest to the smallest; equal ones in the order of places."""
    order = np.argsort(-values, kind="stable")
    falling = values[order]
    group = np.cumsum(np.concatenate([[False], falling[1:] < falling[:-1] * (1 - SAME)])) if len(order) else order
    return order[np.lexsort((order, group))]


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
