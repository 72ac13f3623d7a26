"""OmniReduce: Top-k gradients, sent as blocks with at least one non-zero element."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from pydantic import Field

from simulator.bounds import Concentration
from simulator.models.exchange import Bucket, Compute, Ints, Selection, Step, alike
from simulator.models.gradients import Block, Choice, State, Values
from simulator.models.overlap import INDEPENDENT, Overlap, union_density
from simulator.sparsifiers.base import LocalSelection, Style, per_call
from simulator.sparsifiers.implementation import aggregated


class OmniReduce(LocalSelection, kind="omnireduce"):
    """OmniReduce: only blocks with a non-zero gradient travel, without indices, after a Top-k of `density`.

    The bucket is cut into blocks of b = 256 elements. A worker pushes its non-zero blocks to aggregators and pulls the
    union of the blocks of all workers (Fei et al., SIGCOMM 2021). Selected k_i and aggregated K count all elements of
    non-zero blocks, so that the selected density is far above `density` (Zen, OSDI'25: with a Top-k of 5 % of OPT-2.7B
    gradients, more than 30 % are sent). Error feedback is that of Top-k.

    With servers: push 4 k_i, pull 4 K bytes. Among peers each worker aggregates 1/n of the bucket: (n-1)/n 4 (k_i + K)
    bytes. Aggregators are taken as evenly loaded; `skewness` in the detail, the largest load of n even parts over the
    mean, says how even the gradients are.

    In closed form the share of non-zero blocks follows the beta-binomial law inside a block: 1 - (1 - density)^b for
    scattered gradients (`clustering` empty). With a small `clustering`, non-zero elements are close together (1.22:
    5 % are in 30 % of the blocks). The overlap law of the workers then holds for blocks. A sample of
    coordinates does not hold whole blocks, and is refused.

    - `block_size`: b, elements of a block.
    """

    alone: ClassVar[bool] = True
    whole_only: ClassVar[str] = "it sends blocks of elements in a row"

    block_size: int = Field(default=256, ge=1, le=2**20)
    clustering: Concentration | None = None

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """The Top-k, and the blocks that contain its elements."""
        top = self.top(u, block)
        detail = {"selected_elements": float(np.mean([len(own) for own in top])), "skewness": skewness(top[0], block)}
        return Choice([self._fill_blocks(own, u.shape[1]) for own in top], top, detail=detail)

    def _fill_blocks(self, found: Ints, m: int) -> Ints:
        """All coordinates, of m, in the blocks of those that were found."""
        blocks = np.unique(found // self.block_size)
        inside = (blocks[:, None] * self.block_size + np.arange(self.block_size)).ravel()
        return inside[: np.searchsorted(inside, m)]

    def expect(self, bucket: Bucket, workers: int, concentration: Overlap) -> Selection:
        """Elements in the non-zero blocks of a worker and of all workers, unit by unit."""
        clustering = INDEPENDENT if self.clustering is None else self.clustering
        selected = union = 0.0
        for n, k in zip(self.units(bucket), self.counts(bucket).tolist(), strict=True):
            b = min(n, self.block_size)
            fewest = b * math.ceil(k / b)
            sent = min(float(n), max(fewest, n * union_density(k / n, b, clustering)))
            selected += sent
            union += n * union_density(sent / n, workers, concentration)
        return Selection(alike(workers, selected), union, selected, self.target(bucket.numel))

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Top-k with error feedback, one pass that marks the non-zero blocks, and a copy of them."""
        d, sent = float(bucket.numel), float(selection.selected.mean())
        selected = super().compute(selection, bucket, workers)
        return [*selected, per_call("norm", (d,), 1), per_call("copy", (sent,), 1)]

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """Push and pull of blocks; among peers every worker is the aggregator of one part."""
        sent, union = float(selection.selected.mean()), selection.aggregated
        write = per_call("copy", (union,), 1, "combine")
        push, pull = bucket.value_bytes * sent, bucket.value_bytes * union
        add = per_call("elementwise", (sent,), 1, "combine")
        return [*aggregated("omnireduce", push, pull, add, workers=workers, style=style), write]


def skewness(chosen: Ints, block: Block) -> float:
    """Selected elements of one worker in the fullest of n even parts, over the mean (Zen, definition 5)."""
    part = block.coordinate[chosen] * block.workers // block.numel
    filled = np.bincount(part, weights=block.weight[chosen], minlength=block.workers)
    return float(filled.max() / filled.mean()) if filled.any() else 1.0
