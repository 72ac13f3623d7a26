"""gTop-k: a global Top-k, found by merging pairs of workers in a tree."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from simulator.component import expected
from simulator.models.curves import Floats
from simulator.models.exchange import Bucket, Compute, Ints, Messages, Selection, Step
from simulator.models.gradients import Block, Choice, Draw, State, Values, largest, largest_elements
from simulator.models.patterns import merge_tree
from simulator.sparsifiers.base import LocalSelection, Style, per_call, split_evenly

Sparse = tuple[Ints, Values]


class GTopK(LocalSelection, kind="gtopk"):
    """gTop-k: pairs of workers merge their Top-k, and only the k largest sums survive each round.

    There are log2 n rounds up a tree: the higher worker of two sends k pairs (int32 index, fp32 value); the lower one
    adds values at equal indices and keeps the k largest magnitudes of up to 2k. Then the result is broadcast down
    again. This is 2k elements per round and 2 log2(n) rounds, and K = k for every n, without build-up (Shi et al.,
    ICDCS 2019; hclhkbu/gtopkssgd). The authors merge on the host: k elements per round, at the runtime's
    `host_element` seconds each.

    A worker clears its residual at those of its selected elements that are in the final set; the others go back into
    the residual. As published, a value that is dropped in an early merge is also cleared if its coordinate survives on
    another branch, so that it is neither in the update nor in the residual. Selected elements are dropped globally; on
    sampled coordinates a k_i may therefore be above K. Of equal magnitudes, the one with the lowest index survives.

    The number of workers must be a power of two; there is no form with servers. The default `granularity` is the whole
    bucket, since the authors merge all tensors into one.
    """

    drops_globally: ClassVar[bool] = True
    builds_up: ClassVar[bool] = False
    peers_only: ClassVar[str] = "gTop-k merges among peers: use topology ring, tree or nccl"

    granularity: Literal["layer", "bucket", "model"] = "bucket"

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """The Top-k of every worker, and which of its elements survive the merges."""
        self._check(block.workers)
        chosen = self.top(u, block)
        final, survivors = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.float32)]
        for unit, n in block.units(self.granularity):
            k, weight = self.wanted(n), block.weight_of(unit)
            weighted = None if weight is None else (weight, block.draws_of(unit, seed=1))
            sums: list[Sparse] = []
            for mine, values in zip(chosen, u, strict=True):
                index = mine[slice(*np.searchsorted(mine, (unit.start, unit.stop)))]
                sums.append((index - unit.start, values[index]))
            while len(sums) > 1:
                pairs = zip(sums[::2], sums[1::2], strict=True)
                sums = [merge_pair(low, high, k, weighted) for low, high in pairs]
            final.append(unit.start + sums[0][0])
            survivors.append(sums[0][1])
        union = np.concatenate(final)
        kept = [np.isin(own, union, assume_unique=True) for own in chosen]
        put_back = [float(block.weight[own[~sent]].sum()) for own, sent in zip(chosen, kept, strict=True)]
        detail = {"put_back": math.fsum(put_back) / len(u)}
        sent = [own[sent] for own, sent in zip(chosen, kept, strict=True)]
        counts = self.top_counts(block)
        return Choice(chosen, sent, aggregated=union, sums=np.concatenate(survivors), detail=detail, counts=counts)

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Top-k of each unit, with error feedback."""
        return self.topk_kernels(bucket)

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """The tree with its merges on the host; then the result is written and the rest put back into the residual."""
        self._check(workers)
        k, units = selection.largest, len(self.units(bucket))
        rounds = workers.bit_length() - 1
        return [
            # Each round waits for the merge of the round before, so that the merges delay the messages.
            Compute("host_merge", (k,) * rounds, rounds, "combine"),
            Messages("gtopk", ((bucket.value_bytes + bucket.index_bytes) * k,), merge_tree),
            per_call("scatter_add", split_evenly(selection.aggregated, units), 3, "combine"),
            per_call("residual_add", split_evenly(k, units), 1, "combine"),
        ]

    def _check(self, workers: int) -> None:
        if workers & (workers - 1):
            hint = "gTop-k merges workers in pairs, round by round"
            raise expected("a number of workers that is a power of two", str(workers), hint)


def merge_pair(low: Sparse, high: Sparse, k: int, weighted: tuple[Floats, Draw] | None = None) -> Sparse:
    """The k largest magnitudes of the sum of two sparse vectors, each (sorted indices, values).

    `weighted`: of a sample, the elements that each coordinate stands for, and their draws from [0, 1).
    """
    index = np.union1d(low[0], high[0])
    total = np.zeros(len(index), dtype=np.float32)
    for part, values in (low, high):
        total[np.searchsorted(index, part)] += values
    if weighted is not None:
        weight, draw = weighted
        (kept,) = largest_elements(total[None], weight[index], k, lambda rows, places: draw(rows, index[places]))
        return index[kept], total[kept]
    if len(index) <= k:
        return index, total
    kept = largest(total, k)
    # Sums that cancel are passed on, too, where there is room.
    cancelled = np.flatnonzero(total == 0)[: k - len(kept)]
    kept = np.sort(np.concatenate([kept, cancelled]))
    return index[kept], total[kept]
