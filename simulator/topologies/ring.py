"""Ring: bandwidth-optimal, start-up grows with the number of workers."""

from __future__ import annotations

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Layout, Round
from simulator.models.wiring import Rings
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

    def over(self, rings: Rings, primitive: str, nbytes: Floats, layout: Layout) -> Rounds:
        """A primitive whose payloads are split over several `rings` by what these carry, all under way together.

        What goes over one link in one round is one message. A broadcast goes along the first ring's chain.
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
        return [_together(items, layout.workers) for items in zip(*parts, strict=True)]


def _together(rounds: tuple[Round, ...], workers: int) -> Round:
    """One round of several, with one message for each pair of sender and receiver."""
    keys = np.concatenate([item.src * workers + item.dst for item in rounds])
    pairs, place = np.unique(keys, return_inverse=True)
    nbytes = np.zeros((len(rounds[0].nbytes), len(pairs)))
    np.add.at(nbytes.T, place, np.concatenate([item.nbytes for item in rounds], axis=1).T)
    return Round(pairs // workers, pairs % workers, nbytes, rounds[0].repeat)
