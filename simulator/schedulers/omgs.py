"""OMGS: merged gradients with sparsification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simulator.models.exchange import Bucket
from simulator.models.layers import Layer
from simulator.schedulers.base import FREE, Costs, Scheduler, buckets_of


class OptimalMergedSparse(Scheduler, kind="omgs"):
    """Merged gradients with sparsification (Shi et al., OMGS-SGD, INFOCOM 2020): the merge also weighs selection.

    Selection runs on the compute stream after each (merged) tensor. From the last layer on, the open group takes in the
    next tensor if it then waits for less time than the merge saves:
    b_next + s(n + n_next) - s(n) - s(n_next) - (start of the group's exchange - time at which the group is ready)
    < e(n) + e(n_next) - e(n + n_next), with the times of backward b, selection s and exchange e in this scenario.
    """

    reads_costs: ClassVar[bool] = True

    def plan(self, layers: Sequence[Layer], costs: Costs = FREE) -> list[Bucket]:
        """Merged buckets in backward order."""
        numels = np.array([float(layer.numel) for layer in layers])
        each = np.column_stack((numels, costs.selection(numels), costs.exchange(numels))).tolist()
        groups, (size, s, e) = [[len(layers) - 1]], each[-1]
        clock, busy = layers[-1].backward + s, 0.0
        for layer in reversed(range(len(layers) - 1)):
            (more, s_more, e_more), backward = each[layer], layers[layer].backward
            slack = max(0.0, busy - clock)
            s_whole, e_both = float(costs.selection(size + more)), float(costs.exchange(size + more))
            s_both = s + s_more if costs.by_tensor else s_whole
            if backward + s_both - s - s_more - slack < e + e_more - e_both:
                groups[-1].append(layer)
                clock += backward + s_both - s
                size, s, e = size + more, s_whole, e_both
            else:
                busy = max(busy, clock) + e
                groups.append([layer])
                clock += backward + s_more
                size, s, e = each[layer]
        return buckets_of(groups, layers)
