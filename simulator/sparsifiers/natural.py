"""Natural compression: powers of two."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from simulator.bounds import Seed
from simulator.models.gradients import Block, Values
from simulator.sparsifiers.compressor import Compressor, packed

_RANGES = {8: (-108, 18), 9: (-126, 127)}
"""The smallest and largest exponent of codes of so many bits."""


class Natural(Compressor, kind="natural"):
    """Natural compression: every element is rounded at random to a power of two next to it, without bias.

    |u| between 2^e and 2^(e+1) becomes 2^(e+1) with chance |u| / 2^e - 1, otherwise 2^e, so that its mean is u and the
    variance is at most u^2 / 8 (Horvath et al., 2019, 1905.10988). Sign and exponent travel, and no scale: `bits: 9`
    for all exponents of fp32 as in the paper, or 8 as in GRACE (ICDCS 2021), which keeps 2^-108 to 2^18: what is
    smaller becomes 0, what is larger 2^18. Times are those of fused kernels, with as many calls as GRACE's code (its
    CUDA extension takes two to encode and one to decode).

    - `seed`: of the draws.
    """

    bits: Literal[8, 9] = 8
    seed: Seed = 0

    decode_calls: ClassVar[int] = 11

    def quantised(self, u: Values, block: Block) -> Values:
        """Worker by worker."""
        low, high = _RANGES[self.bits]
        sent = np.empty_like(u)
        for worker, row in enumerate(u):
            draws = np.random.default_rng([self.seed, block.iteration, worker]).random(len(row), dtype=np.float32)
            fraction, exponent = np.frexp(np.abs(row))
            # frexp gives |u| = fraction 2^exponent with a fraction in [0.5, 1)
            exponent += (draws < 2 * fraction - 1).astype(exponent.dtype) - 1
            power = np.ldexp(np.float32(1), np.clip(exponent, low, high))
            np.copysign(np.where((row == 0) | (exponent < low), np.float32(0), power), row, out=sent[worker])
        return sent

    def payload(self, pieces: tuple[int, ...]) -> tuple[float, ...]:
        """The codes, packed over the bucket."""
        return (packed(sum(pieces), self.bits),)

    def encoding(self) -> list[tuple[str, int]]:
        """Sign, exponent and random rounding: 13 calls per tensor."""
        return [("quantise", 13)]
