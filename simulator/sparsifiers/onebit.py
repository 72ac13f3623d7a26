"""1-bit SGD: the mean of what is negative, and the mean of the rest."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from simulator.models.exchange import Bucket, Compute, Selection
from simulator.models.gradients import Block, Values
from simulator.models.sampling import mean_of
from simulator.sparsifiers.base import per_call
from simulator.sparsifiers.compressor import SCALE_BYTES, Compressor, packed
from simulator.sparsifiers.implementation import Implementation, grace


class OneBit(Compressor, kind="onebit"):
    """1-bit SGD: a bit per element says which of two means replaces it; error feedback.

    Elements below 0 become the mean of all that are below 0, the others the mean of the others, which has the smallest
    squared error for this threshold (Seide et al., Interspeech 2014). The paper takes both means of each column of a
    matrix; here they are taken of each tensor, as in GRACE (ICDCS 2021), so that 8 bytes per tensor travel with the
    codes. `bits` per code: 1 packed as in the paper, or 8 as in GRACE. Times are those of fused kernels, with as many
    calls and reads of the host as GRACE's PyTorch code: it compresses both parts by a mask, and asks for both counts.
    """

    implementations: ClassVar[dict[str, Implementation]] = {
        "grace": grace(before=24, decode=6, own=1, arrays=2, reads=2)
    }

    bits: Literal[1, 8] = 1
    error_feedback: bool = True

    decode_calls: ClassVar[int] = 5

    def quantised(self, u: Values, block: Block) -> Values:
        """Worker by worker and tensor by tensor; the mean of no element is 0."""
        sent = np.empty_like(u)
        for unit, _ in block.units("layer"):
            weight = block.weight_of(unit)
            for worker, row in enumerate(u[:, unit]):
                below = row < 0
                means = [mean_of(row[part], None if weight is None else weight[part]) for part in (below, ~below)]
                sent[worker, unit] = np.where(below, *map(np.float32, means))
        return sent

    def payload(self, pieces: tuple[int, ...]) -> tuple[float, ...]:
        """The codes, packed over the bucket; two means per tensor."""
        return packed(sum(pieces), self.bits), float(2 * SCALE_BYTES * len(pieces))

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Both means (14 calls and 4 reads per tensor), the codes (two calls, four with packing)."""
        units = tuple(float(n) for n in bucket.pieces)
        return [
            *self.before(bucket),
            per_call("statistics", units, 14, reads=4),
            per_call("quantise", units, 4 if self.bits == 1 else 2),
        ]
