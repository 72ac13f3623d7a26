"""ASC-WFBP: merged tensors, several of which travel at the same time, so that one's start-up hides behind another's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from simulator.models.curves import Floats
from simulator.models.exchange import Bucket, Ints
from simulator.models.layers import Layer
from simulator.schedulers.base import FREE, Costs, Scheduler, buckets_of

_KEPT = 16
"""Ways to divide the tensors so far that are kept, the earliest first. 64 gave no earlier end in 16 random models."""
_SAME = 1e-12


class SimultaneousMerged(Scheduler, kind="asc_wfbp"):
    """Merged gradients on several communication streams (Shi, Chu and Li, ASC-WFBP, INFOCOM 2021).

    A single all-reduce leaves the links idle during its start-up; several at once fill them. An exchange alone takes
    t(n) = a + c(n), with the start-up a = t(1). On `streams` streams, which exchanges use in turn, exchange k of n_k
    elements, ready at r_k, starts at s_k = max(r_k, e_(k - streams)) and ends at
    e_k = max(e_(k-1), s_k + a) + c(n_k): start-ups pass at the same time, bytes one after the other. Of all merges of
    neighbouring tensors, the one with the earliest end of the last exchange is taken; of equal ones, one whose
    exchanges before it end early.

    The authors state this problem for all-reduces with a + b n; their own search was not published as code. Here it is
    dynamic programming over the cuts between tensors. A state is the ends of the last exchanges; one that is later in
    all of them than another is dropped. The result is the optimum as long as no more than 16 states remain.
    """

    reads_costs: ClassVar[bool] = True

    streams: int = Field(default=2, ge=1, le=64)

    def plan(self, layers: Sequence[Layer], costs: Costs = FREE) -> list[Bucket]:
        """Merged buckets in backward order."""
        order = np.arange(len(layers))[::-1]
        numel = np.array([layers[layer].numel for layer in order], dtype=float)
        ready = np.cumsum([layers[layer].backward for layer in order] + costs.selection(numel))
        cuts = simultaneous_cuts(numel, ready, costs, self.streams)
        return buckets_of([order[i:j].tolist() for i, j in cuts], layers)


def simultaneous_cuts(numel: Floats, ready: Floats, costs: Costs, streams: int) -> list[tuple[int, int]]:
    """Buckets [i, j) of tensors in backward order with which the last of `streams` exchanges at once ends earliest."""
    startup = float(costs.exchange(1.0))
    total = np.concatenate([[0.0], np.cumsum(numel)])
    # A state (streams + 1,): the ends of the last exchanges, the latest first, and the number of exchanges.
    states = [np.zeros((1, streams + 1))]
    came: list[tuple[Ints, Ints]] = []
    for j in range(1, len(total)):
        first = np.repeat(np.arange(j), [len(each) for each in states])
        earlier = np.concatenate(states)
        carried = np.maximum(costs.exchange(total[j] - total[first]) - startup, 0.0)
        started = np.maximum(ready[j - 1], earlier[:, streams - 1]) + startup
        made = np.empty_like(earlier)
        made[:, 0] = np.maximum(earlier[:, 0], started) + carried
        made[:, 1:streams] = earlier[:, : streams - 1]
        made[:, streams] = earlier[:, streams] + 1
        kept = _undominated(made)
        offset = np.concatenate([[0], np.cumsum([len(each) for each in states])])
        states.append(made[kept])
        came.append((first[kept], kept - offset[first[kept]]))
    cuts, j, state = [], len(numel), 0
    while j:
        first, before = came[j - 1]
        cuts.append((int(first[state]), j))
        j, state = int(first[state]), int(before[state])
    return cuts[::-1]


def _undominated(states: Floats) -> Ints:
    """Rows whose ends no other row undercuts, the earliest first; of equal rows the one with the fewest exchanges."""
    left = np.lexsort(states.T[::-1])
    kept: list[int] = []
    while len(left) and len(kept) < _KEPT:
        kept.append(int(left[0]))  # the first of those that are left is smallest in its first column
        later = states[left, :-1] * (1 + _SAME) >= states[left[0], :-1]
        left = left[~later.all(axis=1)]
    return np.array(kept)
