"""Dense: all gradients travel."""

from __future__ import annotations

import numpy as np

from simulator.models.exchange import Bucket, Compute, Selection, Step, alike
from simulator.models.gradients import Block, Choice, State, Values
from simulator.models.overlap import Overlap
from simulator.sparsifiers.base import Sparsifier, Style, sum_step


class Dense(Sparsifier, kind="dense"):
    """No sparsification: all gradients are summed as they travel.

    Several tensors of one bucket are copied into a buffer and back, with one framework call per tensor.
    """

    @property
    def has_residual(self) -> bool:
        """None: everything is sent."""
        return False

    def expect(self, bucket: Bucket, workers: int, concentration: Overlap) -> Selection:
        """All elements on every worker."""
        d = float(bucket.numel)
        return Selection(alike(workers, d), d, d, d)

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """All elements are sent; the residual stays 0."""
        return Choice(np.ones(u.shape, dtype=bool), u)

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """No selection."""
        return []

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """One all-reduce, or one push and pull; packed and unpacked if the bucket has several tensors."""
        nbytes = float(bucket.value_bytes * bucket.numel)
        travel = sum_step(nbytes, style)
        if bucket.in_one_piece:
            return [travel]
        pack = Compute("copy", (float(bucket.numel),), 1, "combine")
        unpack = Compute("copy", (float(bucket.numel),), len(bucket.pieces), "combine")
        return [pack, travel, unpack]
