"""signSGD: one bit per element."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from simulator.models.exchange import Bucket, Compute, Selection
from simulator.models.gradients import Block, Values
from simulator.models.sampling import mean_of
from simulator.sparsifiers.base import per_call
from simulator.sparsifiers.compressor import SCALE_BYTES, Compressor, packed
from simulator.sparsifiers.implementation import Implementation, grace


class SignSGD(Compressor, kind="signsgd"):
    """signSGD: the sign of every element, one bit each, with majority vote or with error feedback.

    Plain (Bernstein et al., ICML 2018): signs by all-gather, (n-1) d/8 bytes, and each worker takes the majority. With
    servers, the servers vote: d/8 bytes are pushed and d/8 pulled. No magnitude travels, since the learning rate
    replaces it; `sent` holds mean |u| of the tensor, which has the smallest error. With `error_feedback` (EF-signSGD,
    Karimireddy et al., ICML 2019) this mean travels, too, 4 bytes per tensor, and servers return fp32. The sign of 0 is
    +. `bits` per sign: 1 (eight signs are packed into a byte), or 8 as GRACE (ICDCS 2021) sends them.
    """

    implementations: ClassVar[dict[str, Implementation]] = {"grace": grace(before=1, decode=3, after=5)}

    bits: Literal[1, 8] = 1

    def quantised(self, u: Values, block: Block) -> Values:
        """sign(u) mean |u|, tensor by tensor."""
        sent = np.empty_like(u)
        for unit, _ in block.units("layer"):
            values = u[:, unit]
            weight = block.weight_of(unit)
            for worker, row in enumerate(values):
                magnitude = np.abs(row)
                scale = np.float32(mean_of(magnitude, weight))
                sent[worker, unit] = np.where(row >= 0, scale, -scale)
        return sent

    def payload(self, pieces: tuple[int, ...]) -> tuple[float, ...]:
        """`bits` per element, packed over the bucket; with error feedback also a scale per tensor."""
        scales = float(SCALE_BYTES * len(pieces)) if self.error_feedback else 0.0
        return packed(sum(pieces), self.bits), scales

    def pulled(self, pieces: tuple[int, ...]) -> float:
        """The vote, `bits` per element; with error feedback the sum."""
        return super().pulled(pieces) if self.error_feedback else packed(sum(pieces), self.bits)

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Sign and packing (four calls per tensor; two without packing); with error feedback also mean |u| (two)."""
        units = tuple(float(n) for n in bucket.pieces)
        scale = [per_call("norm", units, 2)] if self.error_feedback else []
        return [*self.before(bucket), *scale, per_call("quantise", units, 4 if self.bits == 1 else 2)]
