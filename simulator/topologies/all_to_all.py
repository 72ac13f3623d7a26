"""All to all: everyone sends everyone else its part directly."""

from __future__ import annotations

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Layout, Round
from simulator.models.limits import refuse_messages
from simulator.topologies.base import Rounds, Topology


class AllToAll(Topology, kind="all_to_all"):
    """Direct exchange in rotations: in round t of p-1, everyone sends to the worker t places on.

    On an idle, homogeneous fabric: reduce-scatter (p-1)(alpha + S/(pB)), all-gather (p-1)(alpha + max S_i/B),
    all-reduce both, as on a ring; but every part takes one hop, and on shared links most of them cross (Thakur,
    Rabenseifner and Gropp 2005, pairwise exchange). Broadcast: worker 0 sends to all at once, alpha + (p-1) S/B.
    """

    def all_reduce(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Everyone sums its own part of all vectors, then sends the sum to everyone."""
        return 2 * self.reduce_scatter(nbytes, layout)

    def reduce_scatter(self, nbytes: Floats, layout: Layout) -> Rounds:
        """p-1 rounds in which everyone sends another worker that worker's part."""
        return self._rotations(nbytes[:, None] / layout.workers, layout)

    def all_gather(self, nbytes: Floats, layout: Layout) -> Rounds:
        """p-1 rounds in which everyone sends its own block to another worker."""
        return self._rotations(nbytes, layout)

    def broadcast(self, nbytes: Floats, layout: Layout) -> Rounds:
        """One round, from worker 0 to everyone else."""
        others = np.arange(1, layout.workers)
        payload = np.broadcast_to(nbytes[:, None], (len(nbytes), len(others)))
        return [Round(np.zeros_like(others), others, payload)] if len(others) else []

    @staticmethod
    def _rotations(nbytes: Floats, layout: Layout) -> Rounds:
        """Everyone sends `nbytes` (b, 1) or (b, p) to everyone else; all receivers are windows of one array."""
        p = layout.workers
        refuse_messages(p * (p - 1))
        workers = np.arange(p)
        around = np.concatenate([workers, workers])
        payload = np.broadcast_to(nbytes, (len(nbytes), p))
        return [Round(workers, around[t : t + p], payload) for t in range(1, p)]
