"""Nodes that are alike: where moving everything on by one node changes nothing, one node stands for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Layout

_MANY = 1024
"""Messages of a round from which on looking for alike nodes pays."""


@dataclass(frozen=True, slots=True)
class OneNode:
    """A round as the messages of its first node, `count` of them, with its own numbers for their places and links."""

    layout: Layout
    count: int
    src: Ints
    dst: Ints
    first: Ints
    last: Ints

    def state(self, have: Floats, free: Floats, first: Ints, last: Ints) -> tuple[Floats, Floats]:
        """Times of the node's workers, and of the links on which its messages leave and arrive."""
        links = np.concatenate([free[first[: self.count]], free[last[: self.count]]])
        return have[: self.layout.gpus_per_node].copy(), links

    def spread(self, times: tuple[Floats, Floats], have: Floats, free: Floats, ends: tuple[Ints, Ints]) -> None:
        """Give all nodes what the first one has come to."""
        nodes = self.layout.nodes
        have[: self.layout.workers] = np.tile(times[0], (nodes, 1))
        for links, part in zip(ends, np.split(times[1], 2), strict=True):
            free[links] = np.tile(part, (nodes, 1))


def one_node(layout: Layout, src: Ints, dst: Ints, ends: tuple[Ints, Ints], same: Sequence[Floats]) -> OneNode | None:
    """The first node's messages, where those of the next one, and so on round, are the same one node further.

    `ends` are first and last links (m,), `same` arrays (m, ...) that must not differ from node to node. None where that
    is not so, or where it would save nothing.
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
