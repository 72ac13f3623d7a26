"""Which elements are the largest. Ties have a rule: of equal elements the first ones, on every processor."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.models.curves import Floats
from simulator.models.exchange import Ints

Values = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
_SAMPLE, _STRIDE, _SHORT = 10_000, 16, 8192


def largest_indices(magnitudes: Floats | Values, k: int) -> Ints:
    """Indices, increasing, of the k largest entries of (m,), 0 < k <= m; of equal entries the first ones.

    A partition alone would take one or another of equal entries, depending on the processor.

    >>> largest_indices(np.array([1.0, 3.0, 2.0, 2.0]), 2)
    array([1, 2])
    """
    smallest = np.partition(magnitudes, len(magnitudes) - k)[len(magnitudes) - k]
    above = np.flatnonzero(magnitudes > smallest)
    equal = np.flatnonzero(magnitudes == smallest)
    return np.sort(np.concatenate([above, equal[: k - len(above)]]))


def largest(magnitudes: Floats | Values, k: int) -> Mask:
    """Mask of the k largest entries of each row of (n, m), of equal ones the first; zeros are never selected.

    >>> largest(np.array([[3.0, 0.0, 1.0, 2.0]]), 2)
    array([[ True, False, False,  True]])
    """
    if k < 1:
        return np.zeros(magnitudes.shape, dtype=bool)
    if k >= magnitudes.shape[1]:
        return np.asarray(magnitudes > 0)
    if magnitudes.shape[1] < _SHORT:
        return _largest_of_short(magnitudes, k)
    mask = np.zeros(magnitudes.shape, dtype=bool)
    for row, out in zip(magnitudes, mask, strict=True):
        candidates = _candidates(row, k)
        out[candidates] = _largest_of_short(row[None, candidates], k)[0]
    return mask


def _largest_of_short(magnitudes: Floats | Values, k: int) -> Mask:
    """As `largest`, for 0 < k <= m: all rows in one partition, which is fastest for rows of some thousand entries."""
    place = magnitudes.shape[1] - k
    smallest: Any = np.partition(magnitudes, place, axis=1)[:, place, None]
    mask: Mask = magnitudes >= smallest
    surplus = np.count_nonzero(mask, axis=1) - k
    for row in np.flatnonzero(surplus).tolist():
        equal = np.flatnonzero(magnitudes[row] == smallest[row])
        mask[row, equal[len(equal) - surplus[row] :]] = False
    return mask if smallest.all() else mask & (magnitudes > 0)


def largest_elements(magnitudes: Floats | Values, weight: Floats, k: float, draws: Floats) -> Mask:
    """Mask of the largest entries of each row of (n, m) that stand for k elements; zeros are never selected.

    Entry j stands for `weight[j]` elements (m,). The entry with which k is exceeded stands for more elements than are
    still wanted; it is taken where its draw (n, m), uniform in [0, 1), is below the wanted share of them, so that the
    expected number of elements is k. If all weights are 1, these are the k largest entries.

    >>> one = np.ones(4)
    >>> largest_elements(np.array([[3.0, 0.0, 1.0, 2.0]]), one, 2.0, 0.5 * one[None])
    array([[ True, False, False,  True]])
    >>> largest_elements(np.array([[3.0, 0.0, 1.0, 2.0]]), 10 * one, 14.0, 0.5 * one[None])
    array([[ True, False, False, False]])
    """
    order = np.argsort(-magnitudes, axis=1, kind="stable")
    stands = weight[order]
    wanted = k - (np.cumsum(stands, axis=1) - stands)
    taken = np.take_along_axis(np.broadcast_to(draws, order.shape), order, axis=1) * stands < wanted
    mask = np.zeros(magnitudes.shape, dtype=bool)
    np.put_along_axis(mask, order, taken, axis=1)
    return np.asarray(mask & (magnitudes > 0))


def _candidates(row: Floats | Values, k: int) -> Ints:
    """Indices that include the k largest entries of a row: those above a bound from a sample, or all of them.

    A partition of a few per cent of a long row is ten times faster than a partition of the row.
    """
    sample = np.sort(row[:: max(_STRIDE, len(row) // _SAMPLE)])
    wanted = int(len(sample) * (1.0 - 1.5 * k / len(row))) - 3 * int(np.sqrt(len(sample)))
    found = np.flatnonzero(row >= sample[max(0, wanted)])
    return found if len(found) >= k else np.arange(len(row))
