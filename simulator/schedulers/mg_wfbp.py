"""MG-WFBP: tensors are merged such that the last exchange ends as early as possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from simulator.bounds import BOUNDS
from simulator.component import expected
from simulator.models.curves import Floats
from simulator.models.exchange import Bucket
from simulator.models.layers import Layer
from simulator.records import replace
from simulator.schedulers.base import FREE, Costs, Scheduler, buckets_of
from simulator.units import Seconds, SecondsPerItem


class MergedGradient(Scheduler, kind="mg_wfbp"):
    """Wait-free back-propagation with merged gradients (Shi, Chu and Li, INFOCOM 2019): fewer start-ups, some waiting.

    `optimal`: the merge with which the last exchange ends earliest, by dynamic programming over the cuts between
    tensors in backward order: f(j) = min over i of max(f(i), r_j) + t(n_i + ... + n_j). Here r_j is when tensor j is
    ready, selection included, and t the time of a bucket. `greedy`: the rule of the authors, in one pass: the next
    tensor joins the bucket if it is ready before the exchange of the bucket could start, or less than a start-up after
    that, or if the bucket has fewer than `smallest` elements. t comes from the scenario's network, or is
    `startup` + bytes * `per_byte` if both are given (for example from a fit).

    - `rule`: of merging.
    """

    reads_costs: ClassVar[bool] = True

    rule: Literal["optimal", "greedy"] = "optimal"
    smallest: int = Field(default=8192, ge=0, le=BOUNDS["count"].largest)
    startup: Seconds | None = None
    per_byte: SecondsPerItem | None = None

    def refuse_unfit(self) -> None:
        if (self.startup is None) != (self.per_byte is None):
            raise expected("`startup` and `per_byte` together, or neither", "one of them")

    def plan(self, layers: Sequence[Layer], costs: Costs = FREE) -> list[Bucket]:
        """Merged buckets in backward order."""
        order = np.arange(len(layers))[::-1]
        numel = np.array([layers[layer].numel for layer in order], dtype=float)
        ready = np.cumsum([layers[layer].backward for layer in order] + costs.selection(numel))
        costs = self._cost(costs)
        cuts = best_cuts(numel, ready, costs) if self.rule == "optimal" else self._greedy(numel, ready, costs)
        return buckets_of([order[i:j].tolist() for i, j in cuts], layers)

    def _greedy(self, numel: Floats, ready: Floats, costs: Costs) -> list[tuple[int, int]]:
        """Buckets [i, j) of tensors in backward order, by the rule of the authors."""
        startup = float(costs.exchange(1.0)) if self.startup is None else self.startup
        cuts, first, size, busy = [], 0, float(numel[0]), 0.0
        for j in range(1, len(numel)):
            start = max(busy, float(ready[j - 1]))
            if float(ready[j]) - start < startup or size < self.smallest:
                size += float(numel[j])
                continue
            cuts.append((first, j))
            busy = start + float(costs.exchange(size))
            first, size = j, float(numel[j])
        return [*cuts, (first, len(numel))]

    def _cost(self, costs: Costs) -> Costs:
        if self.startup is None or self.per_byte is None:
            return costs
        a, b = self.startup, self.per_byte * costs.value_bytes
        return replace(costs, exchange=lambda numel: a + b * np.asarray(numel))


def best_cuts(numel: Floats, ready: Floats, costs: Costs) -> list[tuple[int, int]]:
    """Buckets [i, j) of tensors in backward order with which the last exchange ends earliest."""
    count = len(numel)
    total = np.concatenate([[0.0], np.cumsum(numel)])
    end, cut = np.zeros(count + 1), np.zeros(count + 1, dtype=int)
    for j in range(1, count + 1):
        ends = np.maximum(end[:j], ready[j - 1]) + costs.exchange(total[j] - total[:j])
        # Of equally good cuts, the one with the smallest bucket: this leaves the most room for other traffic.
        best = j - 1 - int(np.argmax((ends <= ends.min() * (1 + 1e-12))[::-1]))
        end[j], cut[j] = ends[best], best
    cuts, j = [], count
    while j:
        cuts.append((int(cut[j]), j))
        j = int(cut[j])
    return cuts[::-1]
