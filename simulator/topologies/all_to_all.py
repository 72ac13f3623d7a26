"""All to all: every worker sends directly to every other."""

from __future__ import annotations

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Layout, rotations, send
from simulator.topologies.base import Rounds, Topology


class AllToAll(Topology, kind="all_to_all"):
    """Direct exchange in p-1 rounds: in round t, every worker sends to the worker t places further.

    On an idle, homogeneous fabric: reduce-scatter (p-1)(alpha + S/(pB)), all-gather (p-1)(alpha + max S_i/B), and
    all-reduce the sum of both, as on a ring. But every part takes one hop, and most messages cross the links between
    nodes (Thakur, Rabenseifner and Gropp 2005, pairwise exchange). Broadcast: worker 0 sends to all at once,
    alpha + (p-1) S/B.
    """

    def all_reduce(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Every worker sums its own part of all vectors, then sends the sum to all others."""
        return 2 * self.reduce_scatter(nbytes, layout)

    def reduce_scatter(self, nbytes: Floats, layout: Layout) -> Rounds:
        """p-1 rounds, in which every worker sends other workers their parts."""
        return rotations(nbytes[:, None] / layout.workers, layout)

    def all_gather(self, nbytes: Floats, layout: Layout) -> Rounds:
        """p-1 rounds, in which every worker sends its own block to the others."""
        return rotations(nbytes, layout)

    def broadcast(self, nbytes: Floats, layout: Layout) -> Rounds:
        """One round, from worker 0 to all others."""
        others = np.arange(1, layout.workers)
        return [send(np.zeros_like(others), others, nbytes[:, None])] if len(others) else []
