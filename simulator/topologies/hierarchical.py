"""Hierarchical: inside the nodes first, so that each NIC carries every byte once."""

from __future__ import annotations

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Layout, Round
from simulator.topologies.base import Rounds, Topology, ring_gather, ring_pass


class Hierarchical(Topology, kind="hierarchical"):
    """Rings inside the nodes, and rings between the GPUs of equal rank across the nodes.

    All-reduce = reduce-scatter inside, all-reduce of the parts across, all-gather inside: with g GPUs on each of N
    nodes, 2(g-1)(alpha_l + S/(gB_l)) + 2(N-1)(alpha + S/(NB)) (Cho et al., BlueConnect 2019).
    """

    def all_reduce(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Reduce-scatter inside, all-reduce across, all-gather inside."""
        inside = self._inside(nbytes, layout)
        g, nodes = layout.gpus_per_node, layout.nodes
        return [*inside, *self._across(nbytes / (g * nodes), layout, 2 * (nodes - 1)), *inside]

    def reduce_scatter(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Reduce-scatter inside, then of the parts across."""
        share = nbytes / layout.workers
        return [*self._inside(nbytes, layout), *self._across(share, layout, layout.nodes - 1)]

    def all_gather(self, nbytes: Floats, layout: Layout) -> Rounds:
        """All-gather across the nodes among equal ranks, then inside of what each rank holds."""
        g, nodes = layout.gpus_per_node, layout.nodes
        blocks = nbytes.reshape(len(nbytes), nodes, g)
        across = _together([ring_gather(self._rank(rank, layout), blocks[:, :, rank]) for rank in range(g)])
        held = blocks.sum(axis=1)
        inside = _together([ring_gather(self._node(node, layout), held) for node in range(nodes)])
        return across + inside

    def broadcast(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Along the nodes' first GPUs, then inside every node at once."""
        g, nodes = layout.gpus_per_node, layout.nodes
        chain = [Round(np.array([n * g]), np.array([(n + 1) * g]), nbytes[:, None]) for n in range(nodes - 1)]
        heads = np.arange(nodes) * g
        everywhere = np.repeat(nbytes[:, None], nodes, axis=1)
        return chain + [Round(heads + i, heads + i + 1, everywhere) for i in range(g - 1)]

    def _inside(self, nbytes: Floats, layout: Layout) -> Rounds:
        g = layout.gpus_per_node
        rings = [ring_pass(self._node(n, layout), nbytes[:, None] / g, g - 1) for n in range(layout.nodes)]
        return _together(rings)

    def _across(self, share: Floats, layout: Layout, repeat: int) -> Rounds:
        rings = [ring_pass(self._rank(r, layout), share[:, None], repeat) for r in range(layout.gpus_per_node)]
        return _together(rings)

    @staticmethod
    def _node(node: int, layout: Layout) -> Ints:
        return np.arange(layout.gpus_per_node) + node * layout.gpus_per_node

    @staticmethod
    def _rank(rank: int, layout: Layout) -> Ints:
        return np.arange(layout.nodes) * layout.gpus_per_node + rank


def _together(rings: list[Rounds]) -> Rounds:
    """Rounds of several groups that run side by side."""
    return [
        Round(
            np.concatenate([item.src for item in items]),
            np.concatenate([item.dst for item in items]),
            np.concatenate([item.nbytes for item in items], axis=1),
            items[0].repeat,
        )
        for items in zip(*rings, strict=True)
    ]
