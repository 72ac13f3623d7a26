"""What a sample of coordinates resolves: the smallest density, and the number of pieces of the vector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints

WORST = 0.25
"""Relative standard error of a worker's count at the smallest density that counts as resolved."""


def count_error(weight: Floats, share: float) -> float:
    """Variance of the count of the elements that the lightest coordinates stand for, a share of all.

    A sample that follows the size of the gradients holds the largest elements with the smallest weights, and an even
    sample has one weight for all. The variance is that of independent draws, the sum of w (w - 1) (Horvitz and Thompson
    1952), with the last coordinate counted in part.
    """
    stands = np.sort(weight)
    ends = np.cumsum(stands)
    taken = np.clip((share * ends[-1] - (ends - stands)) / stands, 0.0, 1.0)
    return float((taken * stands * (stands - 1.0)).sum())


def relative_error(weight: Floats, units: Sequence[tuple[slice, int]], density: float) -> float:
    """Standard error of the count of a worker that selects this share of every unit, over the count."""
    variance = sum(count_error(weight[unit], density) for unit, _ in units)
    wanted = density * sum(numel for _, numel in units)
    return float(np.sqrt(variance)) / wanted


def smallest_density(weight: Floats, units: Sequence[tuple[slice, int]]) -> float:
    """The smallest density whose count has a relative standard error of at most `WORST`, to two digits; 0 if any."""
    if not np.any(weight != 1.0):
        return 0.0
    low, high = -12.0, 0.0
    if relative_error(weight, units, 1.0) > WORST:
        return 1.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if relative_error(weight, units, 10**middle) <= WORST else (middle, high)
    return float(f"{10**high:.2g}")


def most_pieces(coordinate: Ints, numel: int) -> int:
    """The largest power of two of equal pieces of `numel` elements that all hold a coordinate."""
    pieces = 1
    while 2 * pieces <= numel and len(np.unique(coordinate * (2 * pieces) // numel)) == 2 * pieces:
        pieces *= 2
    return pieces
