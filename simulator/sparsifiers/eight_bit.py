"""8-bit approximation: codes whose steps grow with the magnitude, relative to the largest."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Bucket, Compute, Selection
from simulator.models.gradients import Block, Values
from simulator.sparsifiers.base import per_call
from simulator.sparsifiers.compressor import SCALE_BYTES, Compressor
from simulator.sparsifiers.implementation import Implementation, grace

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

    implementations: ClassVar[dict[str, Implementation]] = {
        "grace": grace(before=23, decode=8, own=1, arrays=2, host=1, host_decode=2)
    }

    decode_calls: ClassVar[int] = 9

    def quantised(self, u: Values, block: Block) -> Values:
        """Worker by worker and tensor by tensor."""
        codes = magnitudes()
        middles = (codes[1:] + codes[:-1]) / 2
        sent = np.empty_like(u)
        for unit, _ in block.units("layer"):
            for worker, row in enumerate(u[:, unit]):
                largest = float(np.abs(row).max())
                relative = np.abs(row, dtype=np.float64) / (largest or 1.0)
                decoded = codes[np.searchsorted(middles, relative)] * largest
                np.copysign(decoded.astype(np.float32), row, out=sent[worker, unit])
        return sent

    def payload(self, pieces: tuple[int, ...]) -> tuple[float, ...]:
        """A byte per element; the largest magnitude of each tensor."""
        return float(sum(pieces)), float(SCALE_BYTES * len(pieces))

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """The largest magnitude (two calls per tensor), the search for the codes (17)."""
        units = tuple(float(n) for n in bucket.pieces)
        return [*self.before(bucket), per_call("norm", units, 2), per_call("quantise", units, 17)]


@cache
def magnitudes() -> Floats:
    """0 and the 126 magnitudes relative to the largest, increasing, (127,)."""
    made = [0.0]
    for decade in reversed(range(DECADES)):
        cells, scale = 2 ** (DECADES - 1 - decade), 1 / 10**decade
        for low, high in ((0.1, 0.45), (0.45, 1.0)):
            made += [scale * (low + (high - low) * (i + 0.5) / cells) for i in range(cells)]
    return np.array(made)
