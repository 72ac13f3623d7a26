"""gTop-k: a global Top-k, found by merging pairs of workers in a tree."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from simulator.component import expected
from simulator.models.exchange import Bucket, Compute, Messages, Selection, Step, merge_tree
from simulator.models.gradients import ALL, Block, Choice, Mask, State, Values, are_among, top
from simulator.records import replace
from simulator.sparsifiers.base import LocalSelection, Style, per_call, split_evenly


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
        selected: Mask = np.zeros(u.shape, dtype=bool)
        for mine, own in zip(selected, chosen, strict=True):
            mine[own] = True
        union = np.flatnonzero(selected.any(axis=0))
        held: Mask = selected[:, union]
        sums: Values = np.where(held, u[:, union], np.float32(0))
        keys = {name: getattr(block, name)[union] for name in ("piece", "coordinate", "weight")}
        among = replace(block, values=sums, **keys)
        while len(sums) > 1:
            sums, held = self._merge(sums[::2] + sums[1::2], held[::2] | held[1::2], among)
        final = union[held[0]]
        kept = are_among(final, chosen, u.shape[1])
        put_back = [float(block.weight[own[~sent]].sum()) for own, sent in zip(chosen, kept, strict=True)]
        detail = {"put_back": math.fsum(put_back) / len(u)}
        sent = [own[sent] for own, sent in zip(chosen, kept, strict=True)]
        counts = self.top_counts(block)
        return Choice(chosen, sent, aggregated=final, sums=sums[0][held[0]], detail=detail, counts=counts)

    def _merge(self, sums: Values, held: Mask, among: Block) -> tuple[Values, Mask]:
        """The k largest of the sums of each pair (n/2, m), and where they are; `held`: where either of two had one."""
        draw = among.draws_of(ALL, seed=1)
        kept = top(sums, among, self.granularity, self.wanted, lambda rows, places: draw(0 * rows, places))
        survive = np.zeros_like(held)
        for mine, places in zip(survive, kept, strict=True):
            mine[places] = True
        # Sums that cancel are passed on, too, where there is room.
        cancelled = held & (sums == 0)
        for unit, n in among.units(self.granularity) if cancelled.any() and not among.sampled else ():
            for mine, zeros in zip(survive[:, unit], cancelled[:, unit], strict=True):
                mine[np.flatnonzero(zeros)[: self.wanted(n) - np.count_nonzero(mine)]] = True
        return np.where(survive, sums, np.float32(0)), survive

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
