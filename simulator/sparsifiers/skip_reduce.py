"""SkipReduce: a ring all-reduce that leaves out some of its reduce-scatter steps."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from simulator.bounds import Count, Seed
from simulator.models.exchange import AllReduce, Bucket, Messages, Selection, Step, alike, ring_rounds
from simulator.models.gradients import Block, Choice, State, Values
from simulator.models.overlap import Overlap
from simulator.sparsifiers.base import Style
from simulator.sparsifiers.dense import Dense
from simulator.units import Fraction


class SkipReduce(Dense, kind="skip_reduce"):
    """SkipReduce: dense ring all-reduce without the first s reduce-scatter steps, so that each sum lacks s workers.

    With n workers the gradient is cut into n even chunks; n-1-s reduce-scatter rounds and n-1 all-gather rounds of
    S/n bytes remain, (2(n-1) - s) / (2(n-1)) of the dense time: 10/14 = 0.714 for n = 8, s = 4. Chunk c, completed by
    worker c - shift, contains n-s contributions; the workers after its owner on the ring are left out. `shift` is drawn
    in every iteration, so that all workers lose equally much. There are no indices, no selection and no residual: what
    is skipped is lost (Kasan, Abts, Choi and Kim, MICRO 2025; hanskasan/SkipReduce-2.0).

    s = round(`skipped` * n), or `steps`; at most n-1 (then nothing is reduced). Buckets of fewer than `smallest`
    elements are reduced in full, and so are buckets with a tensor of a size in `protected` (in elements; the authors
    protect embeddings and convolutions by size). The method is a ring under every topology of peers.

    - `seed`: of the shifts.
    """

    peers_only: ClassVar[str] = "SkipReduce is a ring: use topology ring, hierarchical or nccl"

    skipped: Fraction = 0.5
    steps: int | None = Field(default=None, ge=0, le=1_000_000)
    smallest: int = Field(default=100_000, ge=0, le=10**12)
    protected: tuple[Count, ...] = ()
    seed: Seed = 0

    def skips(self, pieces: tuple[int, ...], workers: int) -> int:
        """Reduce-scatter steps left out for a bucket of these tensors, s."""
        if sum(pieces) < self.smallest or not {sum(pieces), *pieces}.isdisjoint(self.protected):
            return 0
        return min(workers - 1, round(self.skipped * workers) if self.steps is None else self.steps)

    def accumulate(self, state: State, block: Block) -> Values:
        """The gradients alone: there is no residual."""
        return block.values.copy()

    def after(self, state: State, left: Values, choice: Choice) -> None:
        """What was skipped is lost."""

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """The gradients of every worker, except in the chunks whose sums leave this worker out."""
        n, s = block.workers, self.skips(block.numels, block.workers)
        if not s:
            return super().choose(u, block, state)
        shift = int(np.random.default_rng([self.seed, block.iteration, 0]).integers(n))
        worker, chunk = np.arange(n)[:, None], np.arange(n)[None, :]
        taken = (worker - (chunk - shift) - 1) % n >= s
        chunk_of, detail = block.coordinate * n // block.numel, {"shift": float(shift), "skipped_steps": float(s)}
        return Choice([np.flatnonzero(row[chunk_of]) for row in taken], detail=detail)

    def expect(self, bucket: Bucket, workers: int, concentration: Overlap) -> Selection:
        """Each worker is in the sums of n-s of n chunks; all elements are summed."""
        d = float(bucket.numel)
        k = d * (1 - self.skips(bucket.pieces, workers) / workers)
        return Selection(alike(workers, k), d, k, d)

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """The kernels of dense, with the shortened ring instead of the all-reduce."""
        steps = super().exchange(selection, bucket, workers, style)
        s = self.skips(bucket.pieces, workers)
        rounds = 2 * (workers - 1) - s
        return [
            Messages("skip_reduce", (step.nbytes / workers,) * rounds, ring_rounds)
            if s and isinstance(step, AllReduce)
            else step
            for step in steps
        ]
