"""Symmetry of nodes: where every node does the same, one node stands for all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Layout
from simulator.records import Record, replace


class Legs(Record):
    """A round, and what its m messages cross: their first and last links, and numbers of n wirings, (m, n).

    `nbytes` (b, m), as in `Round`. `leaving` and `arriving`: bytes/s of the first and of the last link.
    """

    src: Ints
    dst: Ints
    nbytes: Floats
    repeat: int
    first: Ints
    last: Ints
    latency: Floats
    leaving: Floats
    arriving: Floats

    def columns(self, rows: Ints, wires: Ints) -> Legs:
        """These messages with columns of times for payloads `rows` on wirings `wires`, (c,) each."""
        # What is the same for all messages stays one number.
        nbytes = self.nbytes[:, :1] if self.nbytes.strides[1] == 0 else self.nbytes
        numbers = (each.take(wires, axis=1) for each in (self.latency, self.leaving, self.arriving))
        ends = self.src, self.dst, nbytes[rows], self.repeat, self.first, self.last
        return Legs(*ends, *numbers)


def reduce_to_one_node(layout: Layout, links: int, rounds: Sequence[Legs]) -> tuple[list[Legs], int] | None:
    """What the first node sends in each round, if each node sends what the node before does, moved by one node.

    Then the same places of all nodes have the same times, and so have links that are used in the same way. Places and
    links are numbered from 0, and messages arrive there, too. `links`: how many there are; returned with the rounds is
    how many are left. None if nodes differ, a link carries messages of two nodes in a round, or there is only one node.
    """
    g, nodes, made, known = layout.gpus_per_node, layout.nodes, list[Legs](), 0
    alike = np.full(links, -1)
    for item in (_by_node(item, g) for item in rounds):
        count, rest = divmod(len(item.src), nodes)
        if nodes < 2 or rest or not count or max(int(item.src.max()), int(item.dst.max())) >= layout.workers:
            return None
        leads = [lead for each in (item.first, item.last) if (lead := _lead(each.reshape(nodes, count))) is not None]
        if len(leads) < 2 or np.intersect1d(item.first, item.last).size:
            return None
        moved = (np.array_equal(np.roll(each, -count), (each + g) % layout.workers) for each in (item.src, item.dst))
        own = () if item.nbytes.strides[1] == 0 else (item.nbytes.T,)
        numbers = (item.latency, item.leaving, item.arriving, *own)
        if not all(moved) or not all(np.array_equal(each[count:], each[:-count]) for each in numbers):
            return None
        ends = []
        for each, lead in zip((item.first, item.last), leads, strict=True):
            seen = alike[each].reshape(nodes, count)
            if (seen != seen[0]).any():
                return None
            ends.append(np.where(seen[0] < 0, known + lead, seen[0]))
            alike[each], known = np.tile(ends[-1], nodes), known + count
        few = {name: getattr(item, name)[:count] for name in ("latency", "leaving", "arriving")}
        nbytes, (first, last) = item.nbytes[:, :count], ends
        src, dst = item.src[:count] % g, item.dst[:count] % g
        made.append(replace(item, src=src, dst=dst, nbytes=nbytes, first=first, last=last, **few))
    return made, known


def _lead(links: Ints) -> Ints | None:
    """For each message of a node, the number of the first one over the same link; `links` (nodes, m).

    None if nodes differ in this, or if two nodes use one link.
    """
    known: dict[int, int] = {}
    lead: Ints = np.array([known.setdefault(link, number) for number, link in enumerate(links[0].tolist())])
    alike = (links == links[:, lead]).all() and np.count_nonzero(np.bincount(links.ravel())) == len(links) * len(known)
    return lead if alike else None


def _by_node(item: Legs, gpus_per_node: int) -> Legs:
    """A round with its messages in the order of the nodes that send them."""
    node = item.src // gpus_per_node
    if (node[1:] >= node[:-1]).all():
        return item
    order = np.argsort(node, kind="stable")
    nbytes = item.nbytes if item.nbytes.strides[1] == 0 else item.nbytes[:, order]
    names = ("src", "dst", "first", "last", "latency", "leaving", "arriving")
    return replace(item, nbytes=nbytes, **{name: getattr(item, name)[order] for name in names})
