"""Symmetry of nodes: where every node does the same, one node stands for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Layout

_MANY = 1024
"""Messages of a round from which on the search for symmetry pays."""


@dataclass(frozen=True, slots=True)
class OneNode:
    """The `count` messages of a round that the first node sends; its places and links are numbered from 0."""

    layout: Layout
    count: int
    src: Ints
    dst: Ints
    first: Ints
    last: Ints

    def copy_times(self, have: Floats, free: Floats, first: Ints, last: Ints) -> tuple[Floats, Floats]:
        """Times of the node's workers, and of the links by which its messages leave and arrive."""
        links = np.concatenate([free[first[: self.count]], free[last[: self.count]]])
        return have[: self.layout.gpus_per_node].copy(), links

    def write_times(self, times: tuple[Floats, Floats], have: Floats, free: Floats, ends: tuple[Ints, Ints]) -> None:
        """Write the times of this node into `have` and `free` for every node."""
        nodes = self.layout.nodes
        have[: self.layout.workers] = np.tile(times[0], (nodes, 1))
        for links, part in zip(ends, np.split(times[1], 2), strict=True):
            free[links] = np.tile(part, (nodes, 1))


def reduce_to_one_node(
    layout: Layout, src: Ints, dst: Ints, ends: tuple[Ints, Ints], same: Sequence[Floats]
) -> OneNode | None:
    """The messages of the first node, if the messages of each node are those of the node before, moved by one node.

    `ends` are first and last links (m,), `same` arrays (m, ...) that must be equal for all nodes. None if the nodes
    differ, or if following one of them would save nothing.
    """
    g, count = layout.gpus_per_node, len(src) // layout.nodes
    if g < 2 or layout.nodes < 2 or len(src) < _MANY or len(src) != count * layout.nodes:
        return None
    if max(int(src.max()), int(dst.max())) >= layout.workers or np.bincount(np.concatenate(ends)).max() > 1:
        return None
    moved = (np.array_equal(np.roll(each, -count), (each + g) % layout.workers) for each in (src, dst))
    if not all(moved) or not all(np.array_equal(each[count:], each[:-count]) for each in same):
        return None
    number = np.arange(count)
    return OneNode(layout, count, src[:count] % g, dst[:count] % g, number, number + count)
