"""Halving and doubling: few start-ups, and as few bytes as the ring sends."""

from __future__ import annotations

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Layout, Round
from simulator.topologies.base import Rounds, Topology, binomial_levels


class HalvingDoubling(Topology, kind="halving_doubling"):
    """Pairs exchange halves: reduce-scatter by recursive halving, all-gather by recursive doubling.

    On an idle, homogeneous fabric with one GPU per node and p = 2^m: all-reduce 2 log2(p) alpha + 2 (p-1)/p S/B, each
    half of it half as much, broadcast (scatter, then all-gather: van de Geijn 1994) as the all-reduce. The largest
    parts go to the nearest worker. Elsewhere the r = p - 2^m workers too many hand their whole vector to a neighbour
    first and receive the result last: 2 (alpha + S/B) more (Rabenseifner 2004; Thakur, Rabenseifner and Gropp 2005).
    """

    def all_reduce(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Halve, then double; workers too many hand in their vector before and receive the sum after."""
        members, extras = paired(layout.workers)
        whole = nbytes[:, None]
        share = whole / len(members)
        core = halving(members, share) + doubling(members, share)
        return [*hand_in(members, extras, whole), *core, *hand_out(members, extras, whole)]

    def reduce_scatter(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Halve; those with a partner too many sum two parts and send one of them on."""
        members, extras = paired(layout.workers)
        whole = nbytes[:, None]
        part = whole / layout.workers
        parts = part * np.where(np.arange(len(members)) < len(extras), 2, 1) if len(extras) else part
        return [
            *hand_in(members, extras, whole),
            *halving(members, parts),
            *hand_out(members, extras, part),
        ]

    def all_gather(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Double, whatever the blocks' sizes; workers too many receive all but their own block at the end."""
        members, extras = paired(layout.workers)
        own, held = nbytes[:, extras], nbytes[:, members]
        held[:, : len(extras)] += own
        if not len(extras) and np.all(nbytes == nbytes[:, :1]):
            held = nbytes[:, :1]
        others = nbytes.sum(axis=1, keepdims=True) - own
        return [*hand_in(members, extras, own), *doubling(members, held), *hand_out(members, extras, others)]

    def broadcast(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Worker 0 scatters parts down a binomial tree, then all gather them by doubling."""
        members, extras = paired(layout.workers)
        whole, scatter = nbytes[:, None], []
        for level, (parents, children) in enumerate(binomial_levels(members)):
            scatter.append(Round(parents, children, _each(whole / 2 ** (level + 1), parents)))
        return [*scatter, *doubling(members, whole / len(members)), *hand_out(members, extras, whole)]


def paired(workers: int) -> tuple[Ints, Ints]:
    """The 2^m workers that halve and double, and those too many; the i-th of these belongs to the i-th of those.

    Partners are neighbours, so that they stand on the same node where they can; worker 0 is no worker too many.
    """
    many = workers - (1 << (workers.bit_length() - 1))
    members = np.concatenate([np.arange(0, 2 * many, 2), np.arange(2 * many, workers)])
    return members, np.arange(1, 2 * many, 2)


def doubling(members: Ints, held: Floats) -> Rounds:
    """All-gather among 2^m members that hold `held` bytes, (b, m), or (b, 1) for all alike; the farthest first."""
    rounds, distance = [], len(members) // 2
    while distance:
        partner = np.arange(len(members)) ^ distance
        rounds.append(Round(members, members[partner], _each(held, members)))
        held = held + (held if held.shape[1] == 1 else held[:, partner])
        distance //= 2
    return rounds


def halving(members: Ints, parts: Floats) -> Rounds:
    """Reduce-scatter among 2^m members that keep `parts` bytes, (b, m) or (b, 1): the all-gather backwards."""
    return [Round(item.dst, item.src, item.nbytes) for item in reversed(doubling(members, parts))]


def hand_in(members: Ints, extras: Ints, nbytes: Floats) -> Rounds:
    """Workers too many send `nbytes` (b, 1) or (b, r) to their partners; nothing where there are none."""
    return [Round(extras, members[: len(extras)], _each(nbytes, extras))] if len(extras) else []


def hand_out(members: Ints, extras: Ints, nbytes: Floats) -> Rounds:
    """Workers too many receive `nbytes` (b, 1) or (b, r) from their partners; nothing where there are none."""
    return [Round(members[: len(extras)], extras, _each(nbytes, extras))] if len(extras) else []


def _each(nbytes: Floats, senders: Ints) -> Floats:
    return np.broadcast_to(nbytes, (len(nbytes), len(senders)))
