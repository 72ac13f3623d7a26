"""The base of methods that estimate a threshold instead of sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Bucket, Compute, Selection
from simulator.models.gradients import Block, Choice, Mask, Values
from simulator.models.sampling import count_at
from simulator.records import Record
from simulator.sparsifiers.base import LocalSelection, per_call, split_evenly


class Unit(Record):
    """What one worker selects from: `values` (m,), the elements that each stands for (None: one each), and k of them.

    `numel`: elements of the unit; `worker` and `number` of the unit, from 0.
    """

    values: Values
    weight: Floats | None
    k: int
    numel: int
    worker: int
    number: int

    def count(self, mask: Mask) -> float:
        """Elements that the coordinates in the mask (m,) stand for."""
        return count_at(np.flatnonzero(mask), self.weight)


Search = Callable[[Unit], tuple[Mask, float] | tuple[Mask, float, bool]]
"""The selection of one worker in one unit: the mask (m,), the passes over the unit, and whether it converged, if it may
not."""


class EstimatedThreshold(LocalSelection):
    """Base of methods that find a threshold for about k elements in a few passes over the vector."""

    alone: ClassVar[bool] = True

    statistics_read: ClassVar[int] = 0
    """How many statistics of a unit the host waits for, to compute the threshold from them."""

    def searched(self, u: Values, block: Block, search: Search) -> Choice:
        """What `search` selects in every unit of every worker; zeros are never sent.

        `passes` are those of each worker, as multiples of the bucket's length.
        """
        found, looked, converged = u != 0, np.zeros(len(u)), list[bool]()
        for number, (unit, n) in enumerate(block.units(self.granularity)):
            weight = block.weight_of(unit)
            for worker, values in enumerate(u[:, unit]):
                mask, passes, *ended = search(Unit(values, weight, self.wanted(n), n, worker, number))
                found[worker, unit] &= mask
                looked[worker] += passes * n
                converged += ended
        detail = {"converged": float(np.mean(converged))} if converged else {}
        return Choice([np.flatnonzero(own) for own in found], passes=looked / block.numel, detail=detail)

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Residual add; two statistics; per pass compare, compaction and count; gather and clear."""
        units = self.unit_sizes(bucket)
        selected = split_evenly(selection.largest, len(units))
        return [
            per_call("residual_add", units, 1),
            per_call("statistics", units, 2, reads=self.statistics_read),
            scans(units, selection.passes, 3),
            per_call("gather", selected, 1),
            per_call("residual_clear", selected, 2),
        ]


def scans(units: tuple[float, ...], passes: float, launches: int) -> Compute:
    """`passes` threshold scans of each unit, with `launches` framework calls each; a fraction is a shorter scan."""
    whole, part = int(passes), passes % 1
    rest = tuple(part * n for n in units) if part else ()
    return Compute("threshold_scan", units * whole + rest, round(launches * passes * len(units)), "selection")
