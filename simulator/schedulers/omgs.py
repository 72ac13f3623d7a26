"""OMGS: merged gradients with sparsification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

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
        order = list(reversed(range(len(layers))))
        groups, size = [[order[0]]], float(layers[order[0]].numel)
        clock = layers[order[0]].backward + float(costs.selection(size))
        busy = 0.0
        for layer in order[1:]:
            more, backward = float(layers[layer].numel), layers[layer].backward
            slack = max(0.0, busy - clock)
            s, s_more, s_both = (float(costs.selection(n)) for n in (size, more, size + more))
            s_both = s + s_more if costs.by_tensor else s_both
            e, e_more, e_both = (float(costs.exchange(n)) for n in (size, more, size + more))
            if backward + s_both - s - s_more - slack < e + e_more - e_both:
                groups[-1].append(layer)
                clock += backward + s_both - s
                size += more
            else:
                busy = max(busy, clock) + e
                groups.append([layer])
                clock += backward + s_more
                size = more
        return buckets_of(groups, layers)
