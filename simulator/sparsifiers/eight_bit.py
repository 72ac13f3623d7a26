"""8-bit approximation: codes whose steps grow with the magnitude, relative to the largest."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

import numpy as np

from simulator.models.curves import Floats
from simulator.models.gradients import Values
from simulator.sparsifiers.compressor import SCALE_BYTES, Compressor

DECADES = 6


class EightBit(Compressor, kind="eight_bit"):
    """8-bit approximation: sign, power of ten and fraction in a byte, relative to the largest of the tensor.

    |u| / max |u| is rounded to the nearest of 126 magnitudes or 0 (dynamic tree codes of Dettmers, ICLR 2016: the more
    zeros lead a code, the smaller the power of ten, and the fewer bits are left for the fraction). Of the decade from
    10^-(e+1) to 10^-e, e = 0 to 5, 2^(5-e) equal cells lie below 0.45 10^-e and as many above, and the magnitude is the
    middle of its cell; these are the values of GRACE (ICDCS 2021). GRACE takes the magnitude below instead of the
    nearest one. d + 4 L bytes travel by all-gather, with L tensors. Times are those of fused kernels, with as many
    calls as GRACE's TensorFlow code.
    """

    decode_calls: ClassVar[int] = 9

    def decoded(self, values: Values, weight: Floats | None) -> Values:
        """The nearest code, times the largest magnitude."""
        codes = magnitudes()
        middles = (codes[1:] + codes[:-1]) / 2
        largest = float(np.abs(values).max())
        relative = np.abs(values, dtype=np.float64) / (largest or 1.0)
        nearest = codes[np.searchsorted(middles, relative)] * largest
        signed: Values = np.copysign(nearest.astype(np.float32), values)
        return signed

    def payload(self, pieces: tuple[int, ...]) -> tuple[float, ...]:
        """A byte per element; the largest magnitude of each tensor."""
        return float(sum(pieces)), float(SCALE_BYTES * len(pieces))

    def encoding(self) -> list[tuple[str, int]]:
        """The largest magnitude (two calls per tensor), the search for the codes (17)."""
        return [("norm", 2), ("quantise", 17)]


@cache
def magnitudes() -> Floats:
    """0 and the 126 magnitudes relative to the largest, increasing, (127,)."""
    made = [0.0]
    for decade in reversed(range(DECADES)):
        cells, scale = 2 ** (DECADES - 1 - decade), 1 / 10**decade
        for low, high in ((0.1, 0.45), (0.45, 1.0)):
            made += [scale * (low + (high - low) * (i + 0.5) / cells) for i in range(cells)]
    return np.array(made)
