"""Ok-Topk: a sparse all-reduce with almost the least traffic, by thresholds that are used several times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from simulator.models.curves import Floats
from simulator.models.exchange import AllGather, Bucket, Compute, Ints, Messages, Selection, Step, all_to_all
from simulator.models.gradients import ALL, Block, Choice, Draw, State, Values, are_among, largest_elements
from simulator.models.overlap import Overlap, union_density
from simulator.models.sampling import count_at
from simulator.records import replace
from simulator.sparsifiers.base import SIZE_BYTES, LocalSelection, Style, per_call, split_evenly


class OkTopK(LocalSelection, kind="oktopk"):
    """Ok-Topk: local and global Top-k by thresholds that are exact every few iterations and adjusted in between.

    1. Local: every `interval` iterations the threshold is the k-th magnitude of u. In between it is raised by 3 %, at
       most five times, while more than 4k/3 elements exceed it. |u| > threshold is selected (k-1 with an exact one).
    2. Split and reduce: there are n regions, and worker i sums region i. Each worker sends pairs (int32 index, fp32
       value) to the owners, 2 k_i (n-1)/n elements. Every `repartition` iterations the boundaries become the mean over
       workers of the positions that split the worker's own selection evenly, so that regions are equally full.
    3. Global: every `interval` iterations all sums that are not 0 are gathered, `gathered` in the detail; the k largest
       survive, and the smallest of them is the new global threshold. In between, the owners gather only those above
       it: 2K (n-1)/n elements. The paper balances them first, with at most as many again, so that the bound of such an
       iteration is 6k (n-1)/n elements; 2k (n-1)/n would be optimal. The released code does not balance.
    4. Both thresholds are adjusted: the local one is divided by `nudge` if fewer than 2k/3 were selected and multiplied
       by it if more than 5k/4 were; the global one likewise by `global_nudge`, outside 2k/3 to 4k/3.

    Own selected elements among the survivors are cleared from the residual; the rest stays (Li and Hoefler, PPoPP 2022;
    constants of the VGG example in Shigangli/Ok-Topk, without its 512 dense iterations at the start and without the
    4 (n-1) bytes of the boundaries; its BERT example has an interval of 128 and 1.025). Every worker scans the n
    regions one by one, and the host waits for the count of each. With an empty residual, K is too high for about the
    first two intervals, since sums grow above the first global threshold (with normal gradients to 5k and more); it
    settles near 1.2k.

    A k_i may be above K, since selected elements are dropped globally. Thresholds are for the whole bucket. The
    exchange takes regions as balanced; `region_imbalance` in the detail says how balanced they are. There is no form
    with servers.
    """

    drops_globally: ClassVar[bool] = True
    builds_up: ClassVar[bool] = False
    peers_only: ClassVar[str] = "every worker owns a region: use topology ring, tree or nccl"

    granularity: Literal["bucket", "model"] = "bucket"
    interval: int = Field(default=32, ge=1, le=10**6)
    repartition: int = Field(default=64, ge=1, le=10**6)
    nudge: float = Field(default=1.012, gt=1, le=10)
    global_nudge: float = Field(default=1.008, gt=1, le=10)

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """Local selection by threshold, sums, and the global selection among them."""
        n = len(u)
        k, weight = self.wanted(block.numel), block.weight_of(ALL)
        exact = _is_due(self.interval, block.iteration, state)
        local: Floats = np.zeros(n) if exact else state["local"].copy()
        sums, chosen, counts, scans = np.zeros(u.shape[1], np.float32), [], np.zeros(n), 1
        for worker, values in enumerate(u):
            magnitudes = np.abs(values)
            if exact:
                local[worker] = kth_magnitude(magnitudes, weight, k, block.draws_of(ALL, slice(worker, worker + 1)))
            else:
                local[worker], tries = raise_threshold(magnitudes, weight, local[worker], k)
                scans = max(scans, 1 + tries)
            index = np.flatnonzero(magnitudes > np.float32(local[worker]))
            counts[worker] = count_at(index, weight)
            sums[index] += values[index]
            chosen.append(index)
        if _is_due(self.repartition, block.iteration, state):
            state["boundaries"] = region_boundaries(chosen, block.coordinate, block.numel, weight)
        state["local"] = np.where(counts < 2 * k / 3, local / self.nudge, local)
        state["local"] = np.where(counts > 5 * k / 4, local * self.nudge, state["local"])
        state["iteration"] = block.iteration
        final = self._survivors(sums, block, k, exact, state)
        owner = np.searchsorted(state["boundaries"], block.coordinate[final], side="right")
        held = np.bincount(owner, weights=block.weight[final], minlength=n)
        ends = np.searchsorted(block.coordinate, [0, *state["boundaries"], block.numel])
        own_regions = [
            index[slice(*np.searchsorted(index, region))]
            for index, region in zip(chosen, pairwise(ends.tolist()), strict=True)
        ]
        detail = {
            "local_threshold": float(local.mean()),
            "region_imbalance": float(held.max() / held.mean()) if held.any() else 1.0,
            "pairs": float(counts.mean()) - math.fsum(count_at(index, weight) for index in own_regions) / n,
            "gathered": count_at(np.flatnonzero(sums) if exact else final, weight),
        }
        sent = [own[kept] for own, kept in zip(chosen, are_among(final, chosen, u.shape[1]), strict=True)]
        return Choice(chosen, sent, aggregated=final, passes=float(scans), detail=detail)

    def _survivors(self, sums: Values, block: Block, k: int, exact: bool, state: State) -> Ints:
        magnitudes, weight = np.abs(sums), block.weight_of(ALL)
        if exact:
            (final,) = self.top(sums[None], block)
            state["global"] = float(magnitudes[final].min()) if len(final) else 0.0
            return final
        final = np.flatnonzero(magnitudes > np.float32(state["global"]))
        count = count_at(final, weight)
        if count < 2 * k / 3:
            state["global"] /= self.global_nudge
        elif count > 4 * k / 3:
            state["global"] *= self.global_nudge
        return final

    def expect(self, bucket: Bucket, workers: int, concentration: Overlap) -> Selection:
        """k of every worker and K = k, the aim of the thresholds; two passes: a check and the selection.

        One in `interval` iterations gathers the union, by the overlap law.
        """
        even = super().expect(bucket, workers, concentration)
        k, d = even.aggregated, bucket.numel
        union = d * union_density(k / d, workers, concentration)
        detail = {"pairs": k * (workers - 1) / workers, "gathered": k + (union - k) / self.interval}
        return replace(even, passes=2.0, detail=detail)

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Residual add, checks of the threshold, 1/`interval` of an exact top-k, and a scan of every region.

        The host reads the count of every check and of every region.
        """
        d, checks = float(bucket.numel), selection.passes - 1.0
        checked = Compute("threshold_scan", (d * checks,), round(3 * checks), "selection", reads=round(checks))
        return [
            per_call("residual_add", (d,), 1),
            per_call("topk", (d / self.interval,), 1),
            *([checked] if checks else []),
            per_call("threshold_scan", split_evenly(d, workers), 5, reads=1),
        ]

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """Sizes and pairs to the owners of the regions, sums, global threshold; then sizes and sums to all."""
        pair, others = bucket.value_bytes + bucket.index_bytes, max(1, workers - 1)
        sent, survivors = float(selection.selected.mean()), selection.aggregated
        pairs = selection.detail.get("pairs", sent * (workers - 1) / workers)
        gathered = selection.detail.get("gathered", survivors)
        # The top-k of the whole union, as often as it is gathered.
        ranked = gathered - survivors * (1 - 1 / self.interval)
        return [
            Messages("oktopk", (float(SIZE_BYTES),), all_to_all),
            Messages("oktopk", (pair * pairs / others,), all_to_all),
            per_call("scatter_add", split_evenly(sent, workers), 1, "combine"),
            per_call("threshold_scan", (bucket.numel / workers,), 5, "combine", reads=1),
            AllGather(float(SIZE_BYTES), counts=True),
            AllGather((pair * gathered / workers,) * workers, padded=False),
            per_call("topk", (ranked,), 1, "combine"),
            per_call("scatter_add", (survivors,), 3, "combine"),
            per_call("residual_clear", (survivors,), 1, "combine"),
        ]


def _is_due(interval: int, iteration: int, state: State) -> bool:
    """Whether a multiple of `interval` has come since the last iteration, in a gap of a recording as well."""
    return "iteration" not in state or iteration // interval > state["iteration"] // interval


def kth_magnitude(magnitudes: Values, weight: Floats | None, k: int, draw: Draw) -> float:
    """The magnitude (m,) that k - 1 elements exceed; of a sample, the largest one that is not among the k elements."""
    m = len(magnitudes)
    if weight is None:
        return float(np.partition(magnitudes, m - k)[m - k])
    (among,) = largest_elements(magnitudes[None], weight, k, draw)
    return float(np.delete(magnitudes, among).max(initial=0.0))


def raise_threshold(magnitudes: Values, weight: Floats | None, threshold: float, k: int) -> tuple[float, int]:
    """The threshold, raised by 3 % at most five times while more than 4k/3 exceed it, and the number of checks."""
    for tries in range(1, 6):
        if count_at(np.flatnonzero(magnitudes > np.float32(threshold)), weight) <= 4 * k // 3:
            return threshold, tries
        threshold *= 1.03
    return threshold, 5


def region_boundaries(chosen: Sequence[Ints], coordinate: Ints, numel: int, weight: Floats | None = None) -> Ints:
    """Where regions 1..n-1 begin (n-1,): the mean over workers of the positions that split their selections evenly."""
    n = len(chosen)
    own = np.empty((n, n - 1), dtype=np.int64)
    for worker, places in enumerate(chosen):
        held = coordinate[places]
        parts = np.arange(1, n)
        if not len(held):
            own[worker] = numel * parts // n
        elif weight is None:
            own[worker] = held[len(held) // n * parts]
        else:
            ends = np.cumsum(weight[places])
            begins = np.searchsorted(ends, ends[-1] / n * parts, side="right")
            own[worker] = held[np.minimum(begins, len(held) - 1)]
    mean: Ints = own.sum(axis=0) // n
    return mean
