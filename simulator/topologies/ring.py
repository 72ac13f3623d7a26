"""Ring: optimal in bandwidth; the start-up grows with the number of workers."""

from __future__ import annotations

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Layout, Round
from simulator.models.wiring import Rings
from simulator.topologies.base import Rounds, Topology, merge_rounds, ring_gather, ring_pass


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
        """p-1 rounds, in which everyone passes on the block that it received last."""
        return ring_gather(np.arange(layout.workers), nbytes)

    def broadcast(self, nbytes: Floats, layout: Layout) -> Rounds:
        """p-1 hops along the chain, without pipelining."""
        return [Round(np.array([i]), np.array([i + 1]), nbytes[:, None]) for i in range(layout.workers - 1)]

    def over(self, rings: Rings, primitive: str, nbytes: Floats, layout: Layout) -> Rounds:
        """A primitive whose payloads are split over several `rings`, in proportion to their shares, at the same time.

        Bytes over one link in one round are one message. A broadcast goes along the chain of the first ring.
        """
        if primitive == "broadcast":
            chain = np.array(rings[0][0])
            return [Round(chain[i : i + 1], chain[i + 1 : i + 2], nbytes[:, None]) for i in range(len(chain) - 1)]
        whole = sum(share for _, share in rings)
        parts = []
        for order, share in rings:
            members = np.array(order)
            if primitive == "all_gather":
                parts.append(ring_gather(members, share / whole * nbytes[:, members]))
            else:
                passes = (2 if primitive == "all_reduce" else 1) * (layout.workers - 1)
                parts.append(ring_pass(members, share / whole * nbytes[:, None] / layout.workers, passes))
        return [_one_message_per_pair(item, layout.workers) for item in merge_rounds(parts)]


def _one_message_per_pair(item: Round, workers: int) -> Round:
    """The round with one message for each pair of sender and receiver, which carries the sum of their bytes."""
    pairs, position = np.unique(item.src * workers + item.dst, return_inverse=True)
    nbytes = np.zeros((len(item.nbytes), len(pairs)))
    np.add.at(nbytes.T, position, item.nbytes.T)
    return Round(pairs // workers, pairs % workers, nbytes, item.repeat)
