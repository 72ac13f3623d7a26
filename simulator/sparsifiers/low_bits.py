"""Number formats of 1 to 8 bits: what is left of values that are rounded to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from simulator.models.curves import Floats
from simulator.sparsifiers.compressor import SCALE_BYTES

FormatName = Literal["uint8", "int8", "int4", "fp8", "e3m0", "sign"]
_CODES = 256


class LowBits(NamedTuple):
    """A format: bits of a value, bytes that go with each row of values, and what rows (r, n) of fp64 are decoded as."""

    bits: int
    header: int
    decoded: Callable[[Floats], Floats]

    def rounded(self, values: Floats, row: int) -> Floats:
        """Values (n,) after decoding, in rows of `row` elements, of which the last may be shorter."""
        whole = len(values) // row * row
        parts = [part for part in (values[:whole].reshape(-1, row), values[None, whole:]) if part.size]
        return np.concatenate([values[:0], *(self.decoded(part).ravel() for part in parts)])


def _means(rows: Floats) -> Floats:
    """The mean of each of 256 steps of 6 deviations from 0 / 256 (Prime's uniform 8-bit codes, after hivemind)."""
    count, n = rows.shape
    deviation = np.sqrt(np.square(rows).sum(axis=1, keepdims=True) / max(1, n - 1))
    step = np.where(deviation > 0, 6 * deviation / _CODES, 1.0)
    code = np.clip(np.rint(rows / step) + _CODES // 2, 0, _CODES - 1).astype(np.int64)
    place = (code + _CODES * np.arange(count)[:, None]).ravel()
    sums = np.bincount(place, weights=rows.ravel(), minlength=_CODES * count)
    means = sums / np.maximum(np.bincount(place, minlength=_CODES * count), 1)
    made: Floats = means[place].reshape(rows.shape)
    return made


def _steps(most: int, rows: Floats) -> Floats:
    """The nearest of equal steps, of which the largest magnitude is `most`."""
    step = _largest(rows) / most
    made: Floats = np.rint(rows / step) * step
    return made


def _floats(fraction: int, lowest: int, top: float, rows: Floats) -> Floats:
    """The nearest floating-point number: `fraction` bits, exponents from `lowest` on, the largest is `top`."""
    scale = _largest(rows) / top
    _, exponent = np.frexp(rows / scale)
    step = np.ldexp(scale, np.maximum(exponent - 1, lowest) - fraction)
    made: Floats = np.rint(rows / step) * step
    return made


def _signs(rows: Floats) -> Floats:
    """The sign, of 0 as of a positive number, times the root of the mean square."""
    made: Floats = np.where(rows >= 0, 1.0, -1.0) * np.sqrt(np.square(rows).mean(axis=1, keepdims=True))
    return made


def _largest(rows: Floats) -> Floats:
    """The largest magnitude of each row, (r, 1); 1 where all are 0."""
    largest: Floats = np.abs(rows).max(axis=1, keepdims=True)
    return np.where(largest > 0, largest, 1.0)


FORMATS: Mapping[FormatName, LowBits] = {
    "uint8": LowBits(8, SCALE_BYTES * _CODES, _means),
    "int8": LowBits(8, SCALE_BYTES, partial(_steps, 127)),
    "int4": LowBits(4, SCALE_BYTES, partial(_steps, 7)),
    "fp8": LowBits(8, SCALE_BYTES, partial(_floats, 3, -6, 448.0)),
    "e3m0": LowBits(4, SCALE_BYTES, partial(_floats, 0, 0, 64.0)),
    "sign": LowBits(1, SCALE_BYTES, _signs),
}
"""fp8 is E4M3, whose largest number is 448. E3M0 has a sign, seven powers of two, and 0."""
