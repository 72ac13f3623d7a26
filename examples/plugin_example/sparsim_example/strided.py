"""Strided: every m-th element, starting one element later each iteration."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from simulator.models.exchange import AllReduce, Bucket, Compute, PushPull, Selection, Step
from simulator.models.gradients import Block, Choice, State, Values
from simulator.models.overlap import Overlap
from simulator.sparsifiers.base import Selective, Style, per_call


class Strided(Selective, kind="strided"):
    """Every m-th element of a bucket, m = round(1/density), starting one later each iteration; the rest is residual.

    All workers send the same elements, so they are summed by an all-reduce of d/m values, without indices and without
    build-up: K = k = d/m on average over m iterations. Values are not compared, so selection is one strided copy.
    """

    availability: ClassVar[tuple[dict[str, str], ...]] = ({"in": "code", "where": "examples/plugin_example"},)

    reads_samples: ClassVar[bool] = True
    """Of a sample, coordinates are sent by their place in the model, and count as many elements as they stand for."""

    @property
    def stride(self) -> int:
        """m, the distance between elements that are sent."""
        return max(1, round(1 / self.density))

    def target(self, bucket_numel: int) -> float:
        """density * d."""
        return self.density * bucket_numel

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """The elements of this iteration, the same on every worker."""
        turn = np.flatnonzero(block.coordinate % self.stride == block.iteration % self.stride)
        return Choice([turn] * block.workers, scanned=self._selected(block.numel))

    def expect(self, bucket: Bucket, workers: int, concentration: Overlap) -> Selection:
        """d/m for every worker and for the sum, however gradients overlap."""
        k = self._selected(bucket.numel)
        return Selection(np.full(workers, k), k, k, self.target(bucket.numel), scanned=k)

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Adding the residual over the bucket, a strided copy, and clearing the residual of what was copied."""
        k = selection.largest
        return [
            per_call("residual_add", (float(bucket.numel),), 1),
            per_call("gather", (k,), 1),
            per_call("residual_clear", (k,), 1),
        ]

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """All-reduce of the values, or push and pull of them; then a strided copy back."""
        nbytes = bucket.value_bytes * selection.largest
        travel: Step = PushPull(nbytes, nbytes) if style == "push_pull" else AllReduce(nbytes)
        return [travel, per_call("scatter_add", (selection.largest,), 1, "combine")]

    def _selected(self, numel: int) -> float:
        return numel / self.stride
