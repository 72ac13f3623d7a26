"""Hard threshold: every magnitude above a fixed value."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from pydantic import Field

from simulator.bounds import Magnitude
from simulator.models.exchange import AllGather, Bucket, Compute, Selection, Step
from simulator.models.gradients import Block, Choice, State, Values, find_above
from simulator.models.overlap import Overlap
from simulator.records import replace
from simulator.sparsifiers.base import (
    COUNT_BYTES,
    LocalSelection,
    Style,
    per_call,
)
from simulator.units import Density


class Threshold(LocalSelection, kind="threshold"):
    """Hard threshold: one scan selects all |g| >= threshold, so that counts differ between workers and iterations.

    The default of `threshold` is the published one, 1/(2 sqrt(k)), for the whole training (Sahu et al. 2021; SAGE
    2023). It does not keep the density: ResNet-18 on CIFAR-10 selects 0.00146 on average with a target of 0.001. In
    closed form the counts are an input: `selected_density` (default: the target) and `padding` = n max k_i / sum k_i
    (default 1), means over a training. Counts are gathered first (8 bytes per worker), then pairs padded to the
    largest.
    """

    alone: ClassVar[bool] = True

    threshold: Magnitude | None = None
    selected_density: Density | None = None
    padding: float = Field(default=1.0, ge=1, le=1e6)

    def counts(self, bucket: Bucket) -> np.ndarray:
        """Expected count of each unit at `selected_density`."""
        return (self.selected_density or self.density) * np.array(self.units(bucket))

    def expect(self, bucket: Bucket, workers: int, concentration: Overlap) -> Selection:
        """The mean count for every worker; the largest count is `padding` times the mean."""
        even = super().expect(bucket, workers, concentration)
        largest = min(float(bucket.numel), self.padding * even.largest)
        return replace(even, largest=largest)

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """All |u| at or above the fixed threshold."""
        threshold = self.threshold or 1.0 / (2.0 * math.sqrt(max(1.0, self.target(block.numel))))
        return Choice([find_above(row, threshold) for row in u], detail={"threshold": np.full(len(u), threshold)})

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Residual add and clear; per unit absolute value, compare, compaction, and two gathers."""
        units = self.unit_sizes(bucket)
        return [
            per_call("residual_add", units, 1),
            per_call("threshold_scan", units, 5),
            per_call("residual_clear", tuple(self.counts(bucket)), 1),
        ]

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """Counts, then padded pairs; every unit of every worker is cut to its count before the scatter-add."""
        if style == "push_pull":
            return super().exchange(selection, bucket, workers, style)
        units = len(self.units(bucket))
        per_unit = (selection.largest / units,) * (units * workers)
        return [
            AllGather(float(COUNT_BYTES), counts=True),
            AllGather((bucket.value_bytes + bucket.index_bytes) * selection.largest),
            per_call("scatter_add", per_unit, 6, "combine"),
        ]
