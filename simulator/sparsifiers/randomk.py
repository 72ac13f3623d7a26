"""Random-k: k coordinates drawn at random."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from simulator.bounds import Seed
from simulator.models.exchange import Bucket, Compute, Selection, Step
from simulator.models.gradients import Block, Choice, State, Values
from simulator.models.overlap import Overlap
from simulator.sparsifiers.base import LocalSelection, Style, per_call, sum_step


class RandomK(LocalSelection, kind="randomk"):
    """Random-k: k = density * n coordinates drawn uniformly, whatever their values (Stich et al. 2018).

    With `shared_seed` all workers draw the same coordinates: k values are all-reduced, no index travels, and K = k.
    Without it the exchange is that of Top-k, and workers select independently.

    - `seed`: of the draws.
    """

    alone: ClassVar[bool] = True

    shared_seed: bool = True
    seed: Seed = 0

    def expect(self, bucket: Bucket, workers: int, concentration: Overlap) -> Selection:
        """K = k with a shared seed, otherwise independent draws, for any gradients."""
        drawn = super().expect(bucket, workers, float("inf"))
        k = drawn.largest
        return Selection(drawn.selected, k if self.shared_seed else drawn.aggregated, k, drawn.target)

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """k elements of each unit, drawn in every iteration; equal for all workers with a shared seed.

        Of a sample, k m / n coordinates, rounded at random so that k elements are drawn on average.
        """
        chosen = []
        for worker in range(1 if self.shared_seed else block.workers):
            rng = np.random.default_rng([self.seed, block.iteration, worker])
            found = [np.zeros(0, dtype=np.int64)]
            for unit, n in block.units(self.granularity):
                m = unit.stop - unit.start
                # Every coordinate has the same chance, k / n, whatever it stands for.
                drawn = rng.choice(m, size=int(self.wanted(n) * m / n + (rng.random() if m < n else 0)), replace=False)
                found.append(unit.start + np.sort(drawn))
            chosen.append(np.concatenate(found))
        return Choice(chosen * block.workers if self.shared_seed else chosen)

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Residual add, index generation (k of each unit), gather of the values, residual clear."""
        units, counts = self.unit_sizes(bucket), tuple(self.counts(bucket))
        return [
            per_call("residual_add", units, 1),
            per_call("random_indices", counts, 1),
            per_call("gather", counts, 1),
            per_call("residual_clear", counts, 1),
        ]

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """All-reduce of k values with a shared seed, otherwise pairs."""
        if not self.shared_seed:
            return super().exchange(selection, bucket, workers, style)
        nbytes = bucket.value_bytes * selection.largest
        return [sum_step(nbytes, style), per_call("scatter_add", tuple(self.counts(bucket)), 1, "combine")]
