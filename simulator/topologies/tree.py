"""Binomial tree: few start-ups, with the whole payload on every level."""

from __future__ import annotations

from typing import Literal

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Layout, Round, send
from simulator.topologies.base import Rounds, Topology, binomial_levels


class Tree(Topology, kind="tree"):
    """Binomial tree rooted at worker 0: reduce to the root, then broadcast.

    On an idle, homogeneous fabric with one GPU per node and p a power of two: all-reduce 2 log2(p)(alpha + S/B),
    broadcast half of it (Thakur, Rabenseifner and Gropp 2005). With several GPUs per node there is one tree over the
    first GPUs of the nodes and one inside every node, so that each NIC carries a payload once per level.

    `children: at_once` broadcasts to all children at the same time, as libraries with non-blocking sends do. The
    messages share the sender's NIC, so that the last child has the payload after L(L+1)/2 S/B, with L = log2(p).
    """

    children: Literal["in_turn", "at_once"] = "in_turn"

    def all_reduce(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Reduce up the tree, level by level, then broadcast down."""
        return self._reduce(nbytes, layout) + self.broadcast(nbytes, layout)

    def broadcast(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Each level doubles the number of nodes that have the payload; then the same inside every node."""
        levels = _levels(layout)
        return self._rounds(levels if self.children == "in_turn" else _by_depth(levels, layout), nbytes)

    def reduce_scatter(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Reduce to the root, which sends every worker its part down the tree."""
        part = np.repeat(nbytes[:, None] / layout.workers, layout.workers, axis=1)
        return self._reduce(nbytes, layout) + [
            Round(parents, children, sizes) for parents, children, sizes in self._subtrees(part, layout)
        ]

    def all_gather(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Gather up the tree (each child sends the blocks of its subtree), then broadcast all blocks."""
        up = [Round(children, parents, sizes) for parents, children, sizes in self._subtrees(nbytes, layout)]
        return up[::-1] + self.broadcast(nbytes.sum(axis=1), layout)

    def _reduce(self, nbytes: Floats, layout: Layout) -> Rounds:
        return [item.backwards() for item in reversed(self._rounds(_levels(layout), nbytes))]

    @staticmethod
    def _rounds(levels: list[tuple[Ints, Ints]], nbytes: Floats) -> Rounds:
        return [send(parents, children, nbytes[:, None]) for parents, children in levels]

    def _subtrees(self, sizes: Floats, layout: Layout) -> list[tuple[np.ndarray, np.ndarray, Floats]]:
        """Levels, with the bytes that belong to the subtree of each child."""
        below, levels = sizes.copy(), []
        for parents, children in reversed(_levels(layout)):
            levels.append((parents, children, below[:, children]))
            below[:, parents] += below[:, children]
        return levels[::-1]


def _levels(layout: Layout) -> list[tuple[Ints, Ints]]:
    """Pairs (parent, child), level by level: over the nodes' first GPUs, then inside all nodes at once."""
    heads = np.arange(layout.nodes) * layout.gpus_per_node
    inside = [
        ((heads[:, None] + parents).ravel(), (heads[:, None] + children).ravel())
        for parents, children in binomial_levels(np.arange(layout.gpus_per_node))
    ]
    return binomial_levels(heads) + inside


def _by_depth(levels: list[tuple[Ints, Ints]], layout: Layout) -> list[tuple[Ints, Ints]]:
    """Pairs (parent, child) of all levels, grouped by the distance of the parents from the root."""
    if not levels:
        return []
    parents, children = (np.concatenate(ends) for ends in zip(*levels, strict=True))
    depth = np.zeros(layout.workers, dtype=np.int64)
    for some, below in levels:  # a parent is a child of an earlier level
        depth[below] = depth[some] + 1
    return [(parents[depth[parents] == d], children[depth[parents] == d]) for d in np.unique(depth[parents])]
