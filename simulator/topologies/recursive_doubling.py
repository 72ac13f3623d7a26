"""Recursive doubling: the fewest start-ups, with the whole payload in every round."""

from __future__ import annotations

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Layout, send
from simulator.topologies.base import Rounds
from simulator.topologies.halving_doubling import HalvingDoubling, hand_in, hand_out, split_into_pairs
from simulator.topologies.tree import Tree


class RecursiveDoubling(HalvingDoubling, kind="recursive_doubling"):
    """Pairs at distance 1, 2, 4, ... exchange all that they hold.

    On an idle, homogeneous fabric with one GPU per node and p = 2^m: all-reduce log2(p) (alpha + S/B), all-gather
    log2(p) alpha + (p-1)/p T/B for T bytes in all, broadcast (binomial) log2(p) (alpha + S/B). Doubling cannot
    scatter, so that reduce-scatter is by halving: log2(p) alpha + (p-1)/p S/B. For other p, the p - 2^m extra workers
    first send their payload to a neighbour and receive the result at the end: 2 (alpha + S/B) more for the all-reduce
    (Thakur, Rabenseifner and Gropp 2005).
    """

    def all_reduce(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Every member exchanges the sum that it has so far with its partner, m times."""
        members, extras = split_into_pairs(layout.workers)
        whole, core, distance = nbytes[:, None], [], 1
        while distance < len(members):
            core.append(send(members, members[np.arange(len(members)) ^ distance], whole))
            distance *= 2
        return [*hand_in(members, extras, whole), *core, *hand_out(members, extras, whole)]

    def broadcast(self, nbytes: Floats, layout: Layout) -> Rounds:
        """The binomial tree: each level doubles the number of workers that have the payload."""
        return Tree().broadcast(nbytes, layout)
