"""Ring: bandwidth-optimal, start-up grows with the number of workers."""

from __future__ import annotations

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Layout, Round
from simulator.topologies.base import Rounds, Topology, ring_gather, ring_pass


class Ring(Topology, kind="ring"):
    """All workers on one ring in node order; all-reduce is reduce-scatter, then all-gather.

    On an idle, homogeneous fabric: all-reduce 2(p-1)(alpha + S/(pB)), all-gather (p-1)(alpha + max S_i/B)
    (Patarasuk and Yuan 2009).
    """

    def all_reduce(self, nbytes: Floats, layout: Layout) -> Rounds:
        """2(p-1) rounds of S/p from everyone to the next."""
        p = layout.workers
        return ring_pass(np.arange(p), nbytes[:, None] / p, 2 * (p - 1))

    def reduce_scatter(self, nbytes: Floats, layout: Layout) -> Rounds:
        """p-1 rounds of S/p from everyone to the next."""
        p = layout.workers
        return ring_pass(np.arange(p), nbytes[:, None] / p, p - 1)

    def all_gather(self, nbytes: Floats, layout: Layout) -> Rounds:
        """p-1 rounds in which the blocks go round."""
        return ring_gather(np.arange(layout.workers), nbytes)

    def broadcast(self, nbytes: Floats, layout: Layout) -> Rounds:
        """p-1 hops along the chain, unpipelined."""
        return [Round(np.array([i]), np.array([i + 1]), nbytes[:, None]) for i in range(layout.workers - 1)]
