"""What a sample of coordinates resolves: the smallest density, and the number of pieces of the vector."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints

WORST = 0.6
"""Relative standard error of a worker's count in one iteration, down to the smallest density that is resolved.

Means over iterations and unions of workers are far sharper: on whole gradients of a transformer of 1.1 M parameters,
layer-wise Top-k at 0.001 had an error of 0.45 by this measure on a sample of 2,215 coordinates, and its aggregated
density, as a mean over 24 iterations of 16 workers, was 5 % above that of all coordinates.
"""
_PER_DECADE = 20


def smallest_density(size: Floats, weight: Floats, units: Sequence[tuple[slice, int]]) -> float:
    """The density from which on a worker's count has a relative standard error of at most `WORST`, to two digits.

    0 where every coordinate is one element, and 1 where no density is resolved; at least one element of every unit.
    `size` and `weight` (m,): the magnitude of each coordinate and the elements that it stands for; `units`: the
    coordinates and elements from each of which the largest are selected. The variance of a count is that of independent
    draws, the sum of w (w - 1) over what is selected (Horvitz and Thompson 1952).
    """
    if not np.any(weight != 1.0):
        return 0.0
    sorted_units = [(weight[unit][np.argsort(-size[unit], kind="stable")], numel) for unit, numel in units]
    smallest = 1.0
    for step in range(1, 12 * _PER_DECADE):
        density = 10.0 ** (-step / _PER_DECADE)
        if _relative_error(sorted_units, density) > WORST:
            break
        smallest = density
    one_each = len(units) / sum(numel for _, numel in units)
    return float(f"{max(smallest, one_each):.2g}")


def _relative_error(sorted_units: Sequence[tuple[Floats, int]], density: float) -> float:
    """Standard error of the count where the first coordinates of every unit are selected, over the count."""
    variance = 0.0
    for stands, numel in sorted_units:
        before = np.cumsum(stands) - stands
        taken = np.clip((max(1.0, density * numel) - before) / stands, 0.0, 1.0)
        variance += float((taken * stands * (stands - 1.0)).sum())
    return math.sqrt(variance) / sum(max(1.0, density * numel) for _, numel in sorted_units)


def most_pieces(coordinate: Ints, numel: int) -> int:
    """The largest power of two of equal pieces of `numel` elements that all hold a coordinate; all, of all."""
    if len(coordinate) == numel:
        return numel
    pieces = 1
    while 2 * pieces <= numel and len(np.unique(coordinate * (2 * pieces) // numel)) == 2 * pieces:
        pieces *= 2
    return pieces
