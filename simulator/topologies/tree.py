"""Binomial tree: few start-ups, the whole payload on every level."""

from __future__ import annotations

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Layout, Round
from simulator.topologies.base import Rounds, Topology, binomial_levels


class Tree(Topology, kind="tree"):
    """Binomial tree rooted at worker 0: reduce to the root, then broadcast.

    On an idle, homogeneous fabric with one GPU per node: all-reduce 2 ceil(log2 p)(alpha + S/B), broadcast half of it
    (Thakur, Rabenseifner and Gropp 2005).
    """

    def all_reduce(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Reduce up the tree, level by level, then broadcast down."""
        return self._reduce(nbytes, layout) + self.broadcast(nbytes, layout)

    def broadcast(self, nbytes: Floats, layout: Layout) -> Rounds:
        """ceil(log2 p) levels, each doubling those who have the payload."""
        return [
            Round(parents, children, np.repeat(nbytes[:, None], len(parents), axis=1))
            for parents, children in binomial_levels(np.arange(layout.workers))
        ]

    def reduce_scatter(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Reduce to the root, which sends each worker its part down the tree."""
        part = np.repeat(nbytes[:, None] / layout.workers, layout.workers, axis=1)
        return self._reduce(nbytes, layout) + [
            Round(parents, children, sizes) for parents, children, sizes in self._subtrees(part, layout)
        ]

    def all_gather(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Gather up the tree (each child sends all that stands below it), then broadcast the whole."""
        up = [Round(children, parents, sizes) for parents, children, sizes in self._subtrees(nbytes, layout)]
        return up[::-1] + self.broadcast(nbytes.sum(axis=1), layout)

    def _reduce(self, nbytes: Floats, layout: Layout) -> Rounds:
        return [Round(item.dst, item.src, item.nbytes) for item in reversed(self.broadcast(nbytes, layout))]

    def _subtrees(self, sizes: Floats, layout: Layout) -> list[tuple[np.ndarray, np.ndarray, Floats]]:
        """Levels with the bytes that belong to each child's subtree."""
        below, levels = sizes.copy(), []
        for parents, children in reversed(binomial_levels(np.arange(layout.workers))):
            levels.append((parents, children, below[:, children]))
            below[:, parents] += below[:, children]
        return levels[::-1]
