"""Double binary tree: few start-ups like a tree, and the bandwidth of a ring."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from pydantic import Field

from simulator.hardware.machine import Machine
from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Layout, send
from simulator.topologies.base import Rounds, Subset, Topology
from simulator.units import PartBytes


class DoubleBinaryTree(Topology, kind="double_binary_tree"):
    """Two complementary binary trees over the nodes, each carrying half of the payload, chunk after chunk.

    No node is an inner node of both trees, so that none sends or receives more than 2S for an all-reduce (Sanders,
    Speck and Traeff 2009; NCCL since 2.4). In every round each node passes on one chunk of S/2C, up and down in both
    trees at once; the root sends a chunk down as soon as it is summed. On an idle, homogeneous fabric with one GPU per
    node, C chunks and height h = floor(log2 p): at most (C + 2h)(alpha + 2S/(CB)), which tends to 2S/B; broadcast at
    most (C + h + 1)(alpha + S/(CB)). Every chunk has its own start-up. Inside a node the trees continue as a chain from
    its first GPU, as in NCCL. There is no tree for gathers and scatters.

    `chunk`: bytes of a chunk of one tree; chunks are larger if there would be more than `max_chunks` of them. The
    number of chunks is a power of two.
    """

    chunk: PartBytes = 512 * 2.0**10
    max_chunks: int = Field(default=64, ge=1, le=2**20)

    def choices(self, primitive: str, nbytes: Floats, layout: Layout, machine: Machine | None = None) -> list[Subset]:
        """One choice for each number of chunks."""
        counts = self._chunks(nbytes)
        return [Subset(self, counts == count, self.kind) for count in np.unique(counts)]

    def all_reduce(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Reduce up both trees and broadcast down them, as one pipeline."""
        g = layout.gpus_per_node
        wave = _chains(np.arange(layout.nodes), g, np.zeros(layout.nodes, dtype=np.int64)).reversed(g - 2)
        waves = [wave, wave]
        for tree in two_trees(layout.nodes):
            top = g - 1 + int(tree.height.max())  # when the root has summed its first chunk
            inner = tree.parent >= 0
            heads, parents = tree.node[inner] * g, tree.parent[inner] * g
            waves += [
                _Wave(heads, parents, g - 1 + tree.height[inner]),
                _Wave(parents, heads, top - 1 + tree.depth[inner]),
                _chains(tree.node, g, top + tree.depth),
            ]
        return self._rounds(waves, nbytes)

    def broadcast(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Worker 0 sends to both roots; the trees are over the other nodes."""
        g = layout.gpus_per_node
        own = _chains(np.array([0]), g, np.array([0]))
        waves = [own, own]
        for tree in two_trees(layout.nodes - 1) if layout.nodes > 1 else ():
            heads, sources = (tree.node + 1) * g, (tree.parent + 1) * g  # node 0 is the parent of the roots
            waves += [_Wave(sources, heads, tree.depth), _chains(tree.node + 1, g, tree.depth + 1)]
        return self._rounds(waves, nbytes)

    def _chunks(self, nbytes: Floats) -> Ints:
        """Chunks of each payload (b,), in each tree: a power of two."""
        wanted = np.ceil(np.log2(np.maximum(1.0, nbytes / 2 / self.chunk)))
        most = self.max_chunks.bit_length() - 1
        counts: Ints = 2 ** np.minimum(wanted, most).astype(np.int64)
        return counts

    def _rounds(self, waves: list[_Wave], nbytes: Floats) -> Rounds:
        """Rounds of all waves; successive rounds with the same messages are one repeated round."""
        src, dst, start = (np.concatenate(columns) for columns in zip(*waves, strict=True))
        chunks = int(self._chunks(nbytes).max(initial=1))
        payload, rounds = nbytes[:, None] / (2 * chunks), []
        for now, then in pairwise(np.unique(np.concatenate([start, start + chunks])).tolist()):
            active = (start <= now) & (now < start + chunks)
            rounds.append(send(src[active], dst[active], payload, then - now))
        return rounds


class BinaryTree(NamedTuple):
    """A binary tree: nodes (n,), the parent of each (-1 for the root), its height above the leaves, and its depth."""

    node: Ints
    parent: Ints
    height: Ints
    depth: Ints


class _Wave(NamedTuple):
    """Edges (e,), and the round in which each of them carries its first chunk; each later round carries one more."""

    src: Ints
    dst: Ints
    start: Ints

    def reversed(self, last: int) -> _Wave:
        """The edges in the opposite direction and order; the last of them starts in round `last`."""
        return _Wave(self.dst, self.src, last - self.start)


def two_trees(nodes: int) -> tuple[BinaryTree, BinaryTree]:
    """Two binary trees over `nodes` of equal shape and height floor(log2 nodes); no node is an inner node of both.

    The first is the search tree over 1 ... n in which odd numbers are leaves and a number with i binary zeros at its
    end has height i. The second is its mirror image, or, for an odd number of nodes, the first one shifted by one.
    """
    places = np.arange(1, nodes + 1)
    lowest = places & -places
    nearest = (places ^ lowest) | (lowest << 1)
    above = np.where(nearest <= nodes, nearest, places ^ lowest)  # 0: the root
    height = np.log2(lowest).astype(np.int64)
    depth = np.zeros(nodes, dtype=np.int64)
    for level in reversed(range(int(height.max()))):
        here = height == level
        depth[here] = depth[above[here] - 1] + 1
    mirrored = places[::-1] - 1 if nodes % 2 == 0 else places % nodes
    return (
        BinaryTree(places - 1, np.where(above > 0, above - 1, -1), height, depth),
        BinaryTree(mirrored, np.where(above > 0, mirrored[above - 1], -1), height, depth),
    )


def _chains(nodes: Ints, gpus: int, start: Ints) -> _Wave:
    """Chains over the GPUs of every node from its first GPU, which has the first chunk before round `start` (n,)."""
    heads, hops = np.meshgrid(nodes * gpus, np.arange(gpus - 1), indexing="ij")
    return _Wave((heads + hops).ravel(), (heads + hops + 1).ravel(), (start[:, None] + hops).ravel())
