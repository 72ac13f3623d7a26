"""Dense: all gradients travel."""

from __future__ import annotations

from simulator.models.exchange import Bucket, Compute, Selection, Step
from simulator.models.gradients import ALL, Block, Choice, State, Values
from simulator.sparsifiers.base import Sparsifier, Style, sum_step
from simulator.sparsifiers.implementation import rows_gathered


class Dense(Sparsifier, kind="dense"):
    """No sparsification: all gradients are summed as they travel.

    Several tensors of one bucket are copied into a buffer and back, with one framework call per tensor.

    With `indexed_slices`, embeddings whose layers state `rows` travel as Horovod sends TensorFlow's IndexedSlices, if
    it is not told to make them dense (`sparse_as_dense`): an all-gather of the values of all rows and one of their
    indices, in fp32 r (4 w + 8) bytes from each worker for r rows of w elements; then the division by the number of
    workers, and a sort of the indices and a sum of equal rows, with which the optimiser begins. Of few rows this is
    less than the all-reduce, of many it is more (Cavdar et al., ISC 2019). The update is still that of the whole
    embedding. Embeddings are dense on the way to parameter servers, and where a scheduler cuts them into slices.
    """

    indexed_slices: bool = False

    @property
    def has_residual(self) -> bool:
        """None: everything is sent."""
        return False

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """All elements are sent; the residual stays 0."""
        return Choice([ALL] * len(u))

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """No selection."""
        return []

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """The rows; then one all-reduce, or one push and pull, packed and unpacked if several tensors are in it."""
        sent_as_rows = self.indexed_slices and style == "collective" and any(bucket.rows)
        rows = bucket.rows if sent_as_rows else (None,) * len(bucket.pieces)
        summed = [n for n, own in zip(bucket.pieces, rows, strict=True) if own is None]
        steps = [step for own in rows if own is not None for step in rows_gathered(own, bucket, workers)]
        if not summed:
            return steps
        travel = sum_step(float(bucket.value_bytes * sum(summed)), style)
        if bucket.filled or len(summed) == 1:
            return [*steps, travel]
        pack = Compute("copy", (float(sum(summed)),), 1, "combine")
        unpack = Compute("copy", (float(sum(summed)),), len(summed), "combine")
        return [*steps, pack, travel, unpack]
