"""Halving and doubling: few start-ups, and no more bytes than on a ring."""

from __future__ import annotations

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Layout, send
from simulator.topologies.base import Rounds, Topology, binomial_levels


class HalvingDoubling(Topology, kind="halving_doubling"):
    """Pairs exchange halves: reduce-scatter by recursive halving, all-gather by recursive doubling.

    On an idle, homogeneous fabric with one GPU per node and p = 2^m: all-reduce 2 log2(p) alpha + 2 (p-1)/p S/B;
    reduce-scatter and all-gather half of it; broadcast (scatter, then all-gather: van de Geijn 1994) as much as the
    all-reduce. The largest parts go to the nearest worker. For other p, the r = p - 2^m extra workers first send their
    whole vector to a neighbour and receive the result at the end: 2 (alpha + S/B) more (Rabenseifner 2004; Thakur,
    Rabenseifner and Gropp 2005).
    """

    def all_reduce(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Halve, then double; extra workers send their vector before and receive the sum after."""
        members, extras = split_into_pairs(layout.workers)
        whole = nbytes[:, None]
        share = whole / len(members)
        core = halving(members, share) + doubling(members, share)
        return [*hand_in(members, extras, whole), *core, *hand_out(members, extras, whole)]

    def reduce_scatter(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Halve; partners of extra workers sum two parts and send one of them on."""
        members, extras = split_into_pairs(layout.workers)
        whole = nbytes[:, None]
        part = whole / layout.workers
        parts = part * np.where(np.arange(len(members)) < len(extras), 2, 1) if len(extras) else part
        return [
            *hand_in(members, extras, whole),
            *halving(members, parts),
            *hand_out(members, extras, part),
        ]

    def all_gather(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Double, whatever the sizes of the blocks; extra workers receive all other blocks at the end."""
        members, extras = split_into_pairs(layout.workers)
        own, held = nbytes[:, extras], nbytes[:, members]
        held[:, : len(extras)] += own
        if not len(extras) and np.all(nbytes == nbytes[:, :1]):
            held = nbytes[:, :1]
        others = nbytes.sum(axis=1, keepdims=True) - own
        return [*hand_in(members, extras, own), *doubling(members, held), *hand_out(members, extras, others)]

    def broadcast(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Worker 0 scatters parts down a binomial tree, then all workers gather them by doubling."""
        members, extras = split_into_pairs(layout.workers)
        whole, scatter = nbytes[:, None], []
        for level, (parents, children) in enumerate(binomial_levels(members)):
            scatter.append(send(parents, children, whole / 2 ** (level + 1)))
        return [*scatter, *doubling(members, whole / len(members)), *hand_out(members, extras, whole)]


def split_into_pairs(workers: int) -> tuple[Ints, Ints]:
    """The 2^m members, which halve and double, and the extra workers; the i-th extra worker is paired with member i.

    Partners are neighbours, so that they are on the same node if possible. Worker 0 is never an extra worker.
    """
    many = workers - (1 << (workers.bit_length() - 1))
    members = np.concatenate([np.arange(0, 2 * many, 2), np.arange(2 * many, workers)])
    return members, np.arange(1, 2 * many, 2)


def doubling(members: Ints, held: Floats) -> Rounds:
    """All-gather among 2^m members that hold `held` bytes, (b, m) or (b, 1), with the farthest partner first."""
    rounds, distance = [], len(members) // 2
    while distance:
        partner = np.arange(len(members)) ^ distance
        rounds.append(send(members, members[partner], held))
        held = held + (held if held.shape[1] == 1 else held[:, partner])
        distance //= 2
    return rounds


def halving(members: Ints, parts: Floats) -> Rounds:
    """Reduce-scatter among 2^m members that keep `parts` bytes, (b, m) or (b, 1): the all-gather in reverse."""
    return [item.backwards() for item in reversed(doubling(members, parts))]


def hand_in(members: Ints, extras: Ints, nbytes: Floats) -> Rounds:
    """Extra workers send `nbytes` (b, 1) or (b, r) to their partners; no round without extra workers."""
    return [send(extras, members[: len(extras)], nbytes)] if len(extras) else []


def hand_out(members: Ints, extras: Ints, nbytes: Floats) -> Rounds:
    """Extra workers receive `nbytes` (b, 1) or (b, r) from their partners; no round without extra workers."""
    return [send(members[: len(extras)], extras, nbytes)] if len(extras) else []
