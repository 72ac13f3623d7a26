"""QSGD: one norm per 128 elements, and a randomly rounded level for each element."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field

from simulator.bounds import Count, Seed
from simulator.component import expected
from simulator.models.exchange import Ints
from simulator.models.gradients import Block, Values
from simulator.sparsifiers.compressor import SCALE_BYTES, Compressor

_AT_ONCE = 2048
_MOST_LEVELS = {1: 127, 2: 32767}
"""The largest signed level of so many bytes."""


class QSGD(Compressor, kind="qsgd"):
    """QSGD: one level per element and one norm per bucket of 128, rounded at random without bias.

    Each tensor is cut into buckets of `bucket_size`; an element u of a bucket with 2-norm N is sent as
    sign(u) N l / s, where l is s |u| / N rounded up with a chance equal to its fractional part, so that its mean is u
    (Alistarh et al., NeurIPS 2017; buckets, whole bytes and the all-gather as in GRACE, ICDCS 2021). s = `levels` is
    below 128 with levels of int8, below 32768 with `level_bytes: 2`, which GRACE takes from 128 levels on. Its
    TensorFlow code has one norm per tensor (a `bucket_size` of the largest tensor). Payloads of different norms cannot
    be summed on the way: (n-1) d (1 + 4/128) bytes by all-gather. Public code has no error feedback, since the rounding
    is unbiased. Times are those of fused kernels, with as many calls as GRACE's PyTorch code. A sample of coordinates
    does not hold whole buckets, and is refused.

    - `seed`: of the random rounding.
    """

    whole_only: ClassVar[str] = "it takes the norm of elements in a row"

    levels: int = Field(default=127, ge=1, le=_MOST_LEVELS[2])
    level_bytes: Literal[1, 2] = 1
    bucket_size: Count = 128
    seed: Seed = 0

    def refuse_unfit(self) -> None:
        most = _MOST_LEVELS[self.level_bytes]
        if self.levels > most:
            hint = "signed levels of one byte; more take `level_bytes: 2`"
            raise expected(f"levels less than or equal to {most}", self.levels, hint)

    def quantised(self, u: Values, block: Block) -> Values:
        """Norm times level / s, for a few thousand buckets at a time, which fit into the cache."""
        starts = self._starts(block)
        ends = np.append(starts[1:], u.shape[1])
        sent = np.empty_like(u)
        for worker, row in enumerate(u):
            rng = np.random.default_rng([self.seed, block.iteration, worker])
            for i in range(0, len(starts), _AT_ONCE):
                part = slice(starts[i], ends[min(i + _AT_ONCE, len(ends)) - 1])
                inner = starts[i : i + _AT_ONCE] - part.start
                lengths = ends[i : i + _AT_ONCE] - starts[i : i + _AT_ONCE]
                sent[worker, part] = self._rounded(row[part], inner, lengths, rng)
        return sent

    def _rounded(self, values: Values, starts: Ints, lengths: Ints, rng: Generator) -> Values:
        squares = np.square(values, dtype=np.float64)
        norms = np.repeat(np.sqrt(np.add.reduceat(squares, starts)).astype(np.float32), lengths)
        level = np.abs(values)
        np.divide(level, norms, out=level, where=norms > 0)
        level *= self.levels
        low = np.floor(level)
        low += rng.random(len(values), dtype=np.float32) < level - low
        # float32 may round |u| / norm of a single element to slightly more than 1
        np.minimum(low, self.levels, out=low)
        low *= norms / np.float32(self.levels)
        signed: Values = np.copysign(low, values)
        return signed

    def _starts(self, block: Block) -> Ints:
        """Where each bucket begins among the coordinates held; every tensor begins a new bucket."""
        first = np.cumsum([0, *block.numels[:-1]])
        bucket = (block.coordinate - first[block.piece]) // self.bucket_size
        change = (np.diff(bucket) != 0) | (np.diff(block.piece) != 0)
        first_held = [0] if len(bucket) else []
        return np.concatenate([first_held, np.flatnonzero(change) + 1]).astype(np.int64)

    def payload(self, pieces: tuple[int, ...]) -> tuple[float, ...]:
        """`level_bytes` per element; a norm per bucket."""
        return float(self.level_bytes * sum(pieces)), float(
            SCALE_BYTES * sum(-(-n // self.bucket_size) for n in pieces)
        )

    def encoding(self) -> list[tuple[str, int]]:
        """Norms (three calls per tensor), random rounding (ten)."""
        return [("norm", 3), ("quantise", 10)]
