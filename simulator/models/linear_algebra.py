"""Linear algebra with one order of summation, and so the same last digit on every processor.

`@`, `numpy.dot`, `numpy.linalg` and most solvers of SciPy leave products to the BLAS library, which sums in an order of
its own for each kind of processor.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from simulator.models.curves import Floats

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
