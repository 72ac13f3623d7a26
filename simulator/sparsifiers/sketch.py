"""Quantile sketch: every element becomes the mean of its bin."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from simulator.models.exchange import Bucket, Compute, Selection
from simulator.models.gradients import Block, Values
from simulator.models.sampling import quantile_of
from simulator.sparsifiers.base import per_call
from simulator.sparsifiers.compressor import SCALE_BYTES, Compressor
from simulator.sparsifiers.implementation import Implementation, grace


class Sketch(Compressor, kind="sketch"):
    """Quantile sketch: the number of a bin for each element, and the mean of each bin.

    The quantiles j/q of a tensor, j = 1 to q - 1, are the borders of its q = `bins` bins, with an equal number of
    elements in each; an element is decoded as the mean of its bin. This is the quantile part of SketchML (Jiang et al.,
    SIGMOD 2018), with exact quantiles and all elements as in GRACE (ICDCS 2021). SketchML's keys and min-max sketch are
    for gradients that are sparse already, and not in it. An element at a border belongs to the bin above. A byte per
    element travels (two from 256 bins on) and 4 q bytes of means per tensor, however small it is. Times are those of
    fused kernels, with as many calls as GRACE's TensorFlow code, which sorts each tensor.
    """

    implementations: ClassVar[dict[str, Implementation]] = {
        "grace": grace(before=25, decode=2, own=1, arrays=2, host=1, kernels=("sort",))
    }

    bins: int = Field(default=64, ge=2, le=65536)

    decode_calls: ClassVar[int] = 3

    def quantised(self, u: Values, block: Block) -> Values:
        """Worker by worker and tensor by tensor; of a sample, quantiles and means of what it stands for."""
        shares = np.arange(1, self.bins) / self.bins
        sent = np.empty_like(u)
        for unit, _ in block.units("layer"):
            weight = block.weight_of(unit)
            for worker, row in enumerate(u[:, unit].astype(np.float64)):
                code = np.searchsorted(quantile_of(row, weight, shares), row, side="right")
                counts = np.bincount(code, weights=weight, minlength=self.bins)
                sums = np.bincount(code, weights=row if weight is None else weight * row, minlength=self.bins)
                means = sums / np.maximum(counts, 1)
                sent[worker, unit] = means[code]
        return sent

    def payload(self, pieces: tuple[int, ...]) -> tuple[float, ...]:
        """The bin of each element; the means of all bins of each tensor."""
        width = 1 if self.bins < 256 else 2
        return float(width * sum(pieces)), float(SCALE_BYTES * self.bins * len(pieces))

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """A sort for the quantiles (11 calls per tensor), the search for the bins (13), their sums and counts (5)."""
        units = tuple(float(n) for n in bucket.pieces)
        return [
            *self.before(bucket),
            per_call("sort", units, 11),
            per_call("quantise", units, 13),
            per_call("scatter_add", units, 2),
            per_call("scatter_add", units, 3),
        ]
