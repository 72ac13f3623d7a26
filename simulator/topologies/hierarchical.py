"""Hierarchical: first inside the nodes, so that each NIC carries every byte once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Layout, send
from simulator.records import replace
from simulator.topologies.base import Rounds, Topology, merge_rounds, ring_gather, rings_in_nodes
from simulator.topologies.halving_doubling import HalvingDoubling
from simulator.topologies.ring import Ring
from simulator.topologies.tree import Tree

_INTER: dict[str, type[Topology]] = {"ring": Ring, "halving_doubling": HalvingDoubling, "tree": Tree}


def exchange_across(inter: str, primitive: str, payloads: Sequence[Floats], lanes: Ints) -> Rounds:
    """A primitive of topology `inter` among the members of each lane, `lanes` (n, members), one payload for each lane,
    at once."""
    topology, alone = _INTER[inter](), Layout(lanes.shape[1], 1)
    return merge_rounds(
        [
            [
                replace(item, src=lane[item.src], dst=lane[item.dst])
                for item in getattr(topology, primitive)(payload, alone)
            ]
            for lane, payload in zip(lanes, payloads, strict=True)
        ]
    )


class Hierarchical(Topology, kind="hierarchical"):
    """Rings inside the nodes, and another topology between the GPUs of equal rank across the nodes.

    All-reduce = reduce-scatter inside, all-reduce of the parts across the nodes, all-gather inside. With g GPUs on each
    of N nodes: 2(g-1)(alpha_l + S/(gB_l)) + 2(N-1)(alpha + S/(NB)) (Cho et al., BlueConnect 2019). `inter` is the
    topology across the nodes; halving and doubling has 2 log2(N) start-ups instead of 2(N-1), a tree has as many and
    moves log2(N) times S.
    """

    inter: Literal["ring", "halving_doubling", "tree"] = "ring"

    def all_reduce(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Reduce-scatter inside, all-reduce across, all-gather inside."""
        inside, g = rings_in_nodes(nbytes, layout), layout.gpus_per_node
        return [*inside, *self._across("all_reduce", [nbytes / g] * g, layout), *inside]

    def reduce_scatter(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Reduce-scatter inside, then of the parts across."""
        inside, g = rings_in_nodes(nbytes, layout), layout.gpus_per_node
        return [*inside, *self._across("reduce_scatter", [nbytes / g] * g, layout)]

    def all_gather(self, nbytes: Floats, layout: Layout) -> Rounds:
        """All-gather across the nodes among equal ranks, then all-gather inside of what each rank holds."""
        g, nodes = layout.gpus_per_node, layout.nodes
        blocks = nbytes.reshape(len(nbytes), nodes, g)
        across = self._across("all_gather", [blocks[:, :, rank] for rank in range(g)], layout)
        held = blocks.sum(axis=1)
        inside = merge_rounds([ring_gather(np.arange(g) + node * g, held) for node in range(nodes)])
        return across + inside

    def broadcast(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Among the nodes' first GPUs, then inside every node at once."""
        g, nodes = layout.gpus_per_node, layout.nodes
        heads = np.arange(nodes) * g
        across = self._across("broadcast", [nbytes], layout)
        return across + [send(heads + i, heads + i + 1, nbytes[:, None]) for i in range(g - 1)]

    def _across(self, primitive: str, payloads: Sequence[Floats], layout: Layout) -> Rounds:
        """A primitive among the GPUs of rank 0 of all nodes, of rank 1, ..., one payload for each rank, at once."""
        g = layout.gpus_per_node
        return exchange_across(
            self.inter, primitive, payloads, np.arange(layout.workers).reshape(-1, g).T[: len(payloads)]
        )
