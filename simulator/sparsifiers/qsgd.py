"""QSGD: a norm per 128 elements, and a randomly rounded level for each."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from simulator.models.exchange import Bucket, Compute, Ints, Selection
from simulator.models.gradients import Block, Values
from simulator.sparsifiers.base import per_call
from simulator.sparsifiers.compressor import SCALE_BYTES, Compressor


class QSGD(Compressor, kind="qsgd"):
    """QSGD: one int8 level per element and one norm per bucket of 128, rounded at random without bias.

    Each tensor is cut into buckets of `bucket_size`; an element u of a bucket with 2-norm N is sent as
    sign(u) N l / s, where l is s |u| / N rounded up with a chance equal to its fractional part, so that its mean is u
    (Alistarh et al., NeurIPS 2017; buckets, int8 and the all-gather as in GRACE, ICDCS 2021). s = `levels` < 128.
    Payloads of different norms can't be summed on the way: (n-1) d (1 + 4/128) bytes by all-gather. Public code has
    no error feedback: the rounding is unbiased. Kernels are priced as fused, with the calls of GRACE's PyTorch code.
    On a sample of coordinates a bucket's norm is estimated from those that it holds.
    """

    levels: int = Field(default=127, ge=1, le=127)
    bucket_size: int = Field(default=128, ge=1)
    seed: int = Field(default=0, ge=0)

    def quantised(self, u: Values, block: Block) -> Values:
        """Norm times level / s, worker by worker to bound memory."""
        starts = self._starts(block)
        lengths = np.diff([*starts, u.shape[1]])
        sent = np.empty_like(u)
        for worker, row in enumerate(u):
            draws = np.random.default_rng([self.seed, block.iteration, worker]).random(len(row), dtype=np.float32)
            squares = np.square(row, dtype=np.float64)
            if block.sampled:
                squares *= block.weight
            norms = np.sqrt(np.add.reduceat(squares, starts)).astype(np.float32)
            norm = np.repeat(norms, lengths)
            level = np.abs(row)
            np.divide(level, norm, out=level, where=norm > 0)
            level *= self.levels
            low = np.floor(level)
            low += draws < level - low
            # float32 may round |u| / norm of a lone element to just above 1
            np.minimum(low, self.levels, out=low)
            low *= norm / np.float32(self.levels)
            np.copysign(low, row, out=sent[worker])
        return sent

    def _starts(self, block: Block) -> Ints:
        """Where each bucket begins among the coordinates held; buckets begin anew with every tensor."""
        first = np.cumsum([0, *block.numels[:-1]])
        bucket = (block.coordinate - first[block.piece]) // self.bucket_size
        change = (np.diff(bucket) != 0) | (np.diff(block.piece) != 0)
        return np.concatenate([[0], np.flatnonzero(change) + 1]).astype(np.int64)

    def payload(self, pieces: tuple[int, ...]) -> tuple[float, ...]:
        """A byte per element; a norm per started bucket."""
        return float(sum(pieces)), float(SCALE_BYTES * sum(-(-n // self.bucket_size) for n in pieces))

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Norms (three calls per tensor), random rounding (ten)."""
        units = tuple(float(n) for n in bucket.pieces)
        return [*self.before(bucket), per_call("norm", units, 3), per_call("quantise", units, 10)]
