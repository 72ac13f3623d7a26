"""Two-way ring: half of every payload travels in each direction."""

from __future__ import annotations

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Layout, Round
from simulator.topologies.base import Rounds, Topology, ring_gather, ring_pass


class TwoWayRing(Topology, kind="two_way_ring"):
    """Two rings of all workers in node order, one in each direction; each carries half of every payload.

    Where a node has one link to each neighbour (fabric `direct_ring`) both directions are used at once: all-reduce
    2(p-1)(alpha + S/(2pB)). On a switch the two messages share the NIC, and nothing is gained.
    """

    def all_reduce(self, nbytes: Floats, layout: Layout) -> Rounds:
        """2(p-1) rounds of S/(2p) from everyone to both neighbours."""
        p = layout.workers
        return _both_ways(layout, lambda members: ring_pass(members, nbytes[:, None] / (2 * p), 2 * (p - 1)))

    def reduce_scatter(self, nbytes: Floats, layout: Layout) -> Rounds:
        """p-1 rounds of S/(2p) from everyone to both neighbours."""
        p = layout.workers
        return _both_ways(layout, lambda members: ring_pass(members, nbytes[:, None] / (2 * p), p - 1))

    def all_gather(self, nbytes: Floats, layout: Layout) -> Rounds:
        """p-1 rounds in which half of each block travels in each direction."""
        members = np.arange(layout.workers)
        return _joined(ring_gather(members, nbytes / 2), ring_gather(members[::-1], nbytes[:, ::-1] / 2))


def _both_ways(layout: Layout, rounds) -> Rounds:
    members = np.arange(layout.workers)
    return _joined(rounds(members), rounds(members[::-1]))


def _joined(one: Rounds, other: Rounds) -> Rounds:
    """Rounds of two rings that run at the same time."""
    return [
        Round(
            np.concatenate([a.src, b.src]),
            np.concatenate([a.dst, b.dst]),
            np.concatenate([a.nbytes, b.nbytes], axis=1),
            a.repeat,
        )
        for a, b in zip(one, other, strict=True)
    ]
