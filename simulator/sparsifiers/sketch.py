"""Quantile sketch: every element becomes the mean of its bin."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from simulator.models.curves import Floats
from simulator.models.gradients import Values
from simulator.models.sampling import quantile_of
from simulator.sparsifiers.compressor import SCALE_BYTES, Compressor


class Sketch(Compressor, kind="sketch"):
    """Quantile sketch: the number of a bin for each element, and the mean of each bin.

    The quantiles j/q of a tensor, j = 1 to q - 1, are the borders of its q = `bins` bins, with an equal number of
    elements in each; an element is decoded as the mean of its bin. This is the quantile part of SketchML (Jiang et al.,
    SIGMOD 2018), with exact quantiles and all elements as in GRACE (ICDCS 2021). SketchML's keys and min-max sketch are
    for gradients that are sparse already, and not in it. An element at a border belongs to the bin above. A byte per
    element travels (two from 256 bins on) and 4 q bytes of means per tensor, however small it is. Times are those of
    fused kernels, with as many calls as GRACE's TensorFlow code, which sorts each tensor.
    """

    bins: int = Field(default=64, ge=2, le=65536)

    def decoded(self, values: Values, weight: Floats | None) -> Floats:
        """The mean of each value's bin; of a sample, quantiles and means of what it stands for."""
        row = values.astype(np.float64)
        borders = quantile_of(row, weight, np.arange(1, self.bins) / self.bins)
        code = np.searchsorted(borders, row, side="right")
        counts = np.bincount(code, weights=weight, minlength=self.bins)
        sums = np.bincount(code, weights=row if weight is None else weight * row, minlength=self.bins)
        means: Floats = (sums / np.maximum(counts, 1))[code]
        return means

    def payload(self, pieces: tuple[int, ...]) -> tuple[float, ...]:
        """The bin of each element; the means of all bins of each tensor."""
        width = 1 if self.bins < 256 else 2
        return float(width * sum(pieces)), float(SCALE_BYTES * self.bins * len(pieces))

    def encoding(self) -> list[tuple[str, int]]:
        """A sort for the quantiles (11 calls per tensor), the search for the bins (13), their sums and counts (5)."""
        return [("sort", 11), ("quantise", 13), ("scatter_add", 2), ("scatter_add", 3)]
