"""Zen: Top-k gradients, summed by aggregators of equal load."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from simulator.models.exchange import Bucket, Compute, Ints, Selection, Step
from simulator.models.gradients import Block, Choice, State, Values
from simulator.sparsifiers.base import LocalSelection, Style, per_call
from simulator.sparsifiers.implementation import aggregated


class Zen(LocalSelection, kind="zen"):
    """Zen's balanced parallelism: a hash spreads the coordinates evenly over n aggregators, after a Top-k of `density`.

    Every worker pushes pairs (value, int32 index) to the aggregator of each coordinate and pulls the sums. With pairs
    in both directions ("coo") a worker receives (gamma + 1) (n-1)/n 2 M d_G bytes: M = 4d dense bytes, d_G = k/d,
    gamma = K/k the densification ratio (Wang et al., OSDI'25, equation 1). As implemented, the pull carries a hash
    bitmap instead of indices: (n-1)/n (4K + d/8) bytes, which is less if K > d/32. One bit per coordinate is enough,
    since every worker knows the coordinates of an aggregator.

    The hash is MurmurHash3 of the coordinate modulo n, the same on every worker. `push_imbalance` and `pull_imbalance`
    in the detail, largest load over the mean, say how even the loads are; they are below 1.1 in the paper, and taken as
    1 for the time of the exchange. The two-level memory that makes hashing fast on a GPU does not change what is sent;
    only its time counts (kernel `hash`). With servers the same pairs are pushed and pulled.

    - `pull`: form of the indices of the sums.
    - `seed`: of the hash.
    """

    alone: ClassVar[bool] = True

    pull: Literal["hash_bitmap", "coo"] = "hash_bitmap"
    seed: int = Field(default=0, ge=0, lt=2**32)

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """The Top-k of every worker; nothing else is lost."""
        chosen = self.top(u, block)
        union = np.unique(np.concatenate(chosen))
        owner = owners(block.coordinate[union], block.workers, self.seed)
        loads = np.array(
            [
                np.bincount(owner[np.searchsorted(union, own)], weights=block.weight[own], minlength=block.workers)
                for own in (*chosen, union)
            ]
        )
        imbalance = loads.max(axis=1) / np.maximum(loads.mean(axis=1), 1e-30) if len(union) else np.ones(len(loads))
        mean = float(loads[:-1].sum(axis=1).mean()) if len(union) else 1.0
        detail = {
            "gamma": float(loads[-1].sum()) / mean if len(union) else 1.0,
            "push_imbalance": float(imbalance[:-1].max()),
            "pull_imbalance": float(imbalance[-1]),
        }
        return Choice(chosen, detail=detail, counts=self.top_counts(block))

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Top-k with error feedback, and hashing of the selected elements."""
        hashed = per_call("hash", (float(selection.selected.mean()),), 1)
        return [*super().compute(selection, bucket, workers), hashed]

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """Push of pairs, sums, pull of the sums with bitmap or indices, and writing them."""
        pushed, union = float(selection.selected.mean()), selection.aggregated
        push = (bucket.value_bytes + bucket.index_bytes) * pushed
        pull = bucket.value_bytes * union + (bucket.index_bytes * union if self.pull == "coo" else bucket.numel / 8)
        decode = [] if self.pull == "coo" else [per_call("norm", (bucket.numel / 32,), 1, "combine")]
        write = per_call("scatter_add", (union,), 3, "combine")
        add = per_call("scatter_add", (pushed,), 1, "combine")
        return [*aggregated("zen", push, pull, add, workers=workers, style=style), *decode, write]


def owners(coordinate: Ints, workers: int, seed: int) -> Ints:
    """Aggregator of each coordinate: MurmurHash3 (32 bit, Appleby 2011) of its int32 index, modulo the workers."""
    with np.errstate(over="ignore"):
        key = coordinate.astype(np.uint32) * np.uint32(0xCC9E2D51)
        h = np.uint32(seed) ^ (_rotate_left(key, 15) * np.uint32(0x1B873593))
        h = _rotate_left(h, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        h ^= np.uint32(4)
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        h ^= h >> np.uint32(16)
    return (h % np.uint32(workers)).astype(np.int64)


def _rotate_left(value: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return (value << np.uint32(bits)) | (value >> np.uint32(32 - bits))
