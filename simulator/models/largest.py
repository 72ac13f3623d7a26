"""Which elements are the largest. Ties have a rule: of equal elements the first ones, on every processor."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
_SPARE_BITS = 32
"""What a magnitude leaves of 64 bits."""
_MANY = 2**11
"""Entries of all rows from which on it pays to leave alone those that cannot be taken."""
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


def largest_elements(
    values: Values, weight: Floats, k: float | Sequence[float], draw: Draw, ends: Sequence[int] | None = None
) -> list[Ints]:
    """Indices, increasing, of the largest magnitudes of each row of (n, m) that stand for k elements; zeros never.

    Entry j stands for `weight[j]` elements (m,). The entry with which k is exceeded stands for more elements than are
    still wanted; it is taken where its draw, uniform in [0, 1), is below the wanted share of them, so that the
    expected number of elements is k. If all weights are 1, these are the k largest entries. `draw(rows, entries)` gives
    the draws (r,) of some entries. `ends`: of several units in a row, where each ends; `k` is then that of each.

    >>> one, half = np.ones(4), lambda rows, entries: np.full(len(rows), 0.5)
    >>> values = np.array([[-3.0, 0.0, 1.0, 2.0]], dtype=np.float32)
    >>> largest_elements(values, one, 2.0, half)[0].tolist()
    [0, 3]
    >>> largest_elements(values, one, [1.0, 1.0], half, [2, 4])[0].tolist()
    [0, 3]
    >>> largest_elements(values, 10 * one, 14.0, half)[0].tolist()
    [0]
    """
    bounds = np.array([0, *([values.shape[1]] if ends is None else ends)])
    starts, sizes = bounds[:-1], bounds[1:] - bounds[:-1]
    unit, limits = np.repeat(np.arange(len(sizes)), sizes), np.zeros(len(sizes)) + k
    order, place = order_of_units(values, unit), np.arange(len(unit)) - starts[unit]
    if values.size > _MANY:  # most entries come after all that can be taken of their unit
        most = np.zeros(len(sizes))
        most[sizes > 0] = limits[sizes > 0] / np.minimum.reduceat(weight, starts[sizes > 0])
        head = np.flatnonzero(place <= most[unit] + 1)
        order, unit, place = order[:, head], unit[head], place[head]
    stands = weight[order]
    before = np.zeros((len(order), len(unit) + 1))
    np.cumsum(stands, axis=1, out=before[:, 1:])
    wanted = limits[unit] - before[:, :-1] + before[:, np.arange(len(unit)) - place]
    # All entries that k has room for, and the next one where its draw is low enough.
    taken = wanted >= stands
    last = np.nonzero((wanted > 0) & ~taken)
    taken[last] = draw(last[0], order[last]) * stands[last] < wanted[last]
    found = np.zeros(values.shape, dtype=bool)
    found[np.arange(len(order))[:, None], order] = taken
    found &= values != 0
    return [np.flatnonzero(row) for row in found]


def order_of_units(values: Values, unit: Ints) -> Ints:
    """The order (n, m) of each row by unit (m,), then falling magnitude, of equal ones the first.

    One whole number holds all three, which numpy sorts five times as fast as it finds an order; where 64 bits are too
    few, it finds the order.
    """
    n, m = values.shape
    magnitudes, bits = np.abs(values, dtype=np.float32), m.bit_length()
    if bits + int(unit[-1:].sum()).bit_length() > _SPARE_BITS:
        return np.lexsort((-magnitudes, np.broadcast_to(unit, (n, m))), axis=1)
    keys = (~magnitudes.view(np.uint32)).astype(np.uint64) << np.uint64(bits)  # the bits of positive floats rise
    keys |= (unit.astype(np.uint64) << np.uint64(32 + bits)) | np.arange(m, dtype=np.uint64)
    keys.sort(axis=1)
    keys &= np.uint64((1 << bits) - 1)
    return keys.view(np.int64)


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
