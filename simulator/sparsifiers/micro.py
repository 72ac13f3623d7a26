"""MiCRO: every worker selects in its own part of the gradient; all use the same threshold."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from simulator.models.exchange import AllGather, AllReduce, Bucket, Compute, Ints, Selection, Step, alike
from simulator.models.gradients import Block, Choice, State, Values, find_above
from simulator.models.overlap import Overlap
from simulator.sparsifiers.base import COUNT_BYTES, Selective, Style, per_call


class Exclusive(Selective):
    """Base of methods whose workers select in disjoint parts of the gradient, so that nothing is selected twice.

    `density`: the share that all workers together select, K = sum k_i = density * d; there is no build-up.
    `granularity`: the parts are those of a bucket, or of the whole model. `padding` = n max k_i / K, the mean over a
    training (1: equal counts), is an input of the closed form; a replay gives its own.
    """

    exclusive: ClassVar[bool] = True
    peers_only: ClassVar[str] = (
        "all workers must know all K indices before they send values: use a topology of peers, such as ring"
    )

    granularity: Literal["bucket", "model"] = "bucket"
    padding: float = Field(default=1.0, ge=1, le=1e6)

    def parts_used(self, workers: int) -> int:
        """A part for each worker."""
        return workers

    def wanted(self, numel: int) -> int:
        """k: the target, rounded down as in the released code, at least 1."""
        return max(1, int(self.density * numel))

    def added_up(self, bucket: Bucket) -> list[Compute]:
        """Packing, where the bucket is not in one piece, and the residual add, over all d elements."""
        whole = (float(bucket.numel),)
        pack = [] if bucket.in_one_piece else [per_call("copy", whole, 1)]
        return [*pack, per_call("residual_add", whole, 1)]

    def gathered(self, selection: Selection, bucket: Bucket, indices: float, workers: int, style: Style) -> list[Step]:
        """Counts (8 bytes each), int64 `indices` padded to the largest count, then a sum of K values.

        Per worker on a ring: (n-1) 8 + (n-1) indices 8 + 2(n-1)/n K 4 bytes. The values of all workers at the K
        coordinates are summed and cleared from their residuals, no matter which worker selected them. Parts are
        disjoint, so that indices are unique. The released code asks the GPU for every worker's count three times: for
        the largest, whether it is 0, and to cut off the padding.
        """
        union = (selection.aggregated,)
        return [
            AllGather(float(COUNT_BYTES), counts=True),
            AllGather(bucket.long_index_bytes * indices),
            Compute("copy", union, workers + 1, "combine", reads=3 * workers + 1),
            per_call("gather", union, 1, "combine"),
            AllReduce(bucket.value_bytes * selection.aggregated),
            per_call("scatter_add", union, 3, "combine"),
            per_call("residual_clear", union, 1, "combine"),
        ]


class Micro(Exclusive, kind="micro"):
    """MiCRO: equal parts that rotate among the workers, one scan each, and one threshold that adjusts itself.

    The flat vector of d elements is cut into n equal parts. In iteration t, worker r selects |u| >= threshold in part
    (t + r) mod n only; if no element reaches the threshold, it selects one, at start + t mod size. With k = density *
    d, the threshold starts at 1/(2 sqrt(k)). In every iteration it is multiplied by 1.005 if the last K/k > 1.1, by
    1.00125 if K/k > 0.909, and by 0.995 otherwise. The released code has a fourth factor, 0.9987, under a condition
    that is always false. Since the threshold also rises inside the band, K/k settles at the lower edge of the band
    (MiCRO, HiPC 2023, 2310.00967; github kljp/micro). Each worker scans d/n elements; equal parts have unequal counts,
    and gathers are padded.
    """

    def parts(self, block: Block, state: State) -> Ints:
        """Bounds (n + 1,) of the parts of this iteration in the flat vector."""
        return even_bounds(block.numel, block.workers)

    def busiest(self, numel: int, workers: int) -> float:
        """Elements of the largest part at the start."""
        return float(-(-numel // workers))

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """Elements at or above the threshold in each worker's part; all workers send their values there."""
        workers, t, k = block.workers, block.iteration, self.wanted(block.numel)
        bounds = self.parts(block, state)
        threshold = self._threshold(state, k)
        cuts = np.searchsorted(block.coordinate, bounds).tolist()
        chosen, counts = [], [0.0] * workers
        for worker in range(workers):
            part = (t + worker) % workers
            held = slice(cuts[part], cuts[part + 1])
            found, size = find_above(u[worker, held], threshold), held.stop - held.start
            if size and not len(found):
                # One element, which a coordinate that stands for w elements is in one of w cases.
                one = np.array([t % size])
                draw = block.draws_of(held, slice(worker, worker + 1))(np.array([0]), one)
                taken = not block.sampled or draw[0] * block.weight[held][one[0]] < 1
                found = one if taken else one[:0]
            chosen.append(held.start + found)
            counts[part] = float(block.weight[chosen[-1]].sum())
        state["threshold"], state["counts"] = threshold, counts
        union, scanned = np.sort(np.concatenate(chosen)), float(np.diff(bounds).max())
        detail = {"threshold": threshold}
        return Choice(chosen, [union] * workers, aggregated=union, scanned=scanned, detail=detail)

    def _threshold(self, state: State, k: int) -> float:
        if "threshold" not in state:
            return 1.0 / (2.0 * math.sqrt(k))
        ratio = math.fsum(state["counts"]) / k
        factor = 1.005 if ratio > 1.1 else 1.00125 if ratio > 0.909 else 0.995
        return float(state["threshold"]) * factor

    def expect(self, bucket: Bucket, workers: int, concentration: Overlap) -> Selection:
        """K = k for any n (at least one index per worker) and for any overlap of the workers' gradients."""
        d, scanned = float(bucket.numel), self.busiest(bucket.numel, workers)
        union = min(d, max(float(self.wanted(bucket.numel)), workers))
        mean = union / workers
        largest = max(mean, min(self.padding * mean, union, scanned))
        return Selection(alike(workers, mean), union, largest, self.target(bucket.numel), scanned, exclusive=True)

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Packing and residual add over d; absolute value, compare and compaction over the largest part."""
        scanned = selection.scanned or self.busiest(bucket.numel, workers)
        return [*self.added_up(bucket), per_call("threshold_scan", (scanned,), 5)]

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """Counts, padded indices, then the sum of the values at all K of them."""
        return self.gathered(selection, bucket, selection.largest, workers, style)


def even_bounds(numel: int, parts: int) -> Ints:
    """Bounds (parts + 1,) of `numel` elements cut into equal parts; the first parts are longer by one if needed.

    >>> even_bounds(11, 3).tolist()
    [0, 4, 8, 11]
    """
    quotient, remainder = divmod(numel, parts)
    whole = np.arange(parts + 1, dtype=np.int64)
    return quotient * whole + np.minimum(whole, remainder)
