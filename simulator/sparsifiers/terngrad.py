"""TernGrad: every element becomes -1, 0 or 1 times a scale per tensor."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from simulator.bounds import Deviations, Seed
from simulator.models.gradients import Block, Values
from simulator.models.sampling import moments_of
from simulator.sparsifiers.compressor import SCALE_BYTES, Compressor, packed


class TernGrad(Compressor, kind="terngrad"):
    """TernGrad: every element becomes -s, 0 or s at random; only the clipping has a bias.

    Per tensor: clip to `clip` standard deviations, s = largest magnitude left, and sign(u) s with chance |u| / s,
    otherwise 0 (Wen et al., NeurIPS 2017; each worker has its own s as in GRACE, ICDCS 2021). A tensor of equal values,
    or of one element, has no deviation and is clipped to 0, as in the public code; `clip: null` turns clipping off.
    `bits` per element: 8 as in GRACE, or 2 packed. (n-1) (d bits/8 + 4 L) bytes by all-gather, with L tensors and 4
    bytes of scale per tensor. Public code has no error feedback. Times are those of fused kernels, with as many calls
    as GRACE's PyTorch code.

    - `seed`: of the draws.
    """

    bits: Literal[2, 8] = 8
    clip: Deviations | None = 2.5
    seed: Seed = 0

    def quantised(self, u: Values, block: Block) -> Values:
        """Worker by worker and tensor by tensor."""
        sent = np.empty_like(u)
        for worker, row in enumerate(u):
            draws = np.random.default_rng([self.seed, block.iteration, worker]).random(len(row), dtype=np.float32)
            for unit, _ in block.units("layer"):
                values = row[unit]
                magnitude = np.abs(values)
                if self.clip is not None:
                    deviation = math.sqrt(moments_of(values, block.weight_of(unit))[1])
                    np.minimum(magnitude, np.float32(self.clip * deviation), out=magnitude)
                scale = magnitude.max()
                kept = draws[unit] * scale < magnitude
                np.copysign(np.where(kept, scale, np.float32(0)), values, out=sent[worker, unit])
        return sent

    def payload(self, pieces: tuple[int, ...]) -> tuple[float, ...]:
        """The ternary codes; a scale per tensor."""
        return sum(packed(n, self.bits) for n in pieces), float(SCALE_BYTES * len(pieces))

    def encoding(self) -> list[tuple[str, int]]:
        """Mean and deviation (five calls per tensor), random rounding (ten)."""
        clipped = [("statistics", 5)] if self.clip is not None else []
        return [*clipped, ("quantise", 10)]
