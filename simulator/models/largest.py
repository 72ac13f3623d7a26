"""Which elements are the largest. Ties have a rule: of equal elements the first ones, on every processor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.models.curves import Floats
from simulator.models.exchange import Ints

Values = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
Draw = Callable[[Ints, Ints], Floats]
"""The draws from [0, 1) of some rows (r,) and entries (r,)."""
_SAMPLE, _STRIDE, _SHORT = 10_000, 16, 8192
_SMALLEST, _LARGEST = 1.5e-45, 3e38
"""The range of float32: a smaller threshold would be 0, and select zeros."""
_CHUNK = 2**15
"""Elements that are compared at once, few enough for the processor's cache."""


def largest(values: Floats | Values, k: int) -> Ints:
    """Indices, increasing, of the k largest magnitudes of (m,), of equal ones the first; zeros are never selected.

    A partition alone would take one or another of equal magnitudes, depending on the processor.

    >>> largest(np.array([-3.0, 0.0, 2.0, -2.0]), 2)
    array([0, 2])
    """
    if k < 1:
        return np.zeros(0, dtype=np.int64)
    if k >= len(values):
        return np.flatnonzero(values)
    places = _candidates(values, k) if len(values) >= _SHORT else None
    if places is None:
        return _largest_of_short(values, k)
    return np.asarray(places[_largest_of_short(values[places], k)])


def find_above(values: Floats | Values, threshold: float) -> Ints:
    """Indices, increasing, of magnitudes in (m,) at or above a threshold above 0; chunk by chunk, to save memory.

    >>> find_above(np.array([-3.0, 0.0, 2.0], dtype=np.float32), 2.0).tolist()
    [0, 2]
    """
    found, threshold = [], min(max(threshold, _SMALLEST), _LARGEST)
    for start in range(0, len(values), _CHUNK):
        part = values[start : start + _CHUNK]
        found.append(start + np.flatnonzero((part >= threshold) | (part <= -threshold)))
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def _largest_of_short(values: Floats | Values, k: int) -> Ints:
    """Indices of the k largest magnitudes, for 0 < k <= m, by one partition of all."""
    magnitudes = np.abs(values)
    smallest: Any = np.partition(magnitudes, len(magnitudes) - k)[len(magnitudes) - k]
    found = np.flatnonzero(magnitudes >= smallest if smallest else magnitudes)
    surplus = len(found) - k
    if surplus > 0:
        equal = np.flatnonzero(magnitudes[found] == smallest)
        found = np.delete(found, equal[len(equal) - surplus :])
    return found


def largest_elements(values: Floats | Values, weight: Floats, k: float, draw: Draw) -> list[Ints]:
    """Indices, increasing, of the largest magnitudes of each row of (n, m) that stand for k elements; zeros never.

    Entry j stands for `weight[j]` elements (m,). The entry with which k is exceeded stands for more elements than are
    still wanted; it is taken where its draw, uniform in [0, 1), is below the wanted share of them, so that the
    expected number of elements is k. If all weights are 1, these are the k largest entries. `draw(rows, entries)` gives
    the draws (r,) of some entries.

    >>> one, half = np.ones(4), lambda rows, entries: np.full(len(rows), 0.5)
    >>> largest_elements(np.array([[-3.0, 0.0, 1.0, 2.0]]), one, 2.0, half)[0].tolist()
    [0, 3]
    >>> largest_elements(np.array([[-3.0, 0.0, 1.0, 2.0]]), 10 * one, 14.0, half)[0].tolist()
    [0]
    """
    order = np.argsort(-np.abs(values), axis=1, kind="stable")
    stands = weight[order]
    ends = np.cumsum(stands, axis=1)
    wanted = k - (ends - stands)
    # All entries that k has room for, and one more in the rows in which its draw is low enough.
    counts = np.count_nonzero(wanted >= stands, axis=1)
    rows = np.flatnonzero(counts < values.shape[1])
    place = rows, counts[rows]
    counts[rows] += draw(rows, order[place]) * stands[place] < wanted[place]
    found = (own[:count] for own, count in zip(order, counts.tolist(), strict=True))
    return [np.sort(own[row[own] != 0]) for own, row in zip(found, values, strict=True)]


def _candidates(values: Floats | Values, k: int) -> Ints | None:
    """Indices that include the k largest magnitudes: those above a bound from a sample; None where it gives no bound.

    A partition of a few per cent of a long row is ten times faster than a partition of the row.
    """
    sample = np.abs(values[:: max(_STRIDE, len(values) // _SAMPLE)])
    for margin in (4.0, 40.0):
        above = k * len(sample) / len(values)
        wanted = len(sample) - int(1.25 * above + margin * math.sqrt(above) + margin)
        bound = float(np.partition(sample, wanted)[wanted]) if wanted > 0 else 0.0
        found = find_above(values, bound) if bound else None
        if found is None or len(found) >= k:
            return found
    return None
