"""NCCL's channels over the hardware: rings, trees and chains, one for each NIC, and what their steps carry."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from simulator.hardware.machine import Machine
from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Layout, Round, send
from simulator.models.small_cache import MOST, LatestResults
from simulator.records import Record
from simulator.topologies.base import Carrier, Rounds, next_in_node
from simulator.topologies.double_binary_tree import two_trees
from simulator.topologies.nccl_tuning import NVLS_EFFICIENCY, TREE_EFFICIENCY


class Edges(NamedTuple):
    """Steps of all channels: senders and receivers (e,), and the share of the payload's channels on each (e,)."""

    src: Ints
    dst: Ints
    share: Floats


class Channels(Record, Carrier):
    """A collective that flows through all channels at once: one round with all bytes of every step.

    Chunks follow each other closely, so that the time is the start-up of the first one and then that of the busiest
    link. `algorithm` is one of NCCL's; `machine` decides which way channels take.
    """

    algorithm: str
    machine: Machine

    def collective(self, primitive: str, nbytes: Floats, layout: Layout) -> Rounds:
        """By `algorithm` for an all-reduce; all others along the rings.

        Rings: 2 (p - 1) / p of the payload over every step for an all-reduce, half of that for the other sums and
        gathers. A broadcast or reduction sends all of it over every step but the one that closes the ring.
        """
        p, algorithm = layout.workers, self.algorithm if primitive == "all_reduce" else "ring"
        if algorithm == "nvls":
            # A reduced read sends all and gets a part, a multicast write sends a part and gets the rest: S (1 + 1/g).
            return [send(*next_in_node(layout), nbytes[:, None] * (1 + 1 / layout.gpus_per_node))]
        if p < 2:
            return []
        ways = {"tree": _both_ways, "nvls_tree": _in_switch_and_across, "collnet": _in_switches}
        edges = ways.get(algorithm, rings)(self.machine, layout)
        if algorithm in ways:
            passed = nbytes[:, None]
        elif primitive == "all_gather":
            passed = nbytes.sum(axis=1)[:, None] - nbytes[:, edges.dst]
        elif primitive in ("broadcast", "reduce"):
            root = edges.dst if primitive == "broadcast" else edges.src
            passed = nbytes[:, None] * (root != 0)
        else:
            passed = nbytes[:, None] * ((2 if primitive == "all_reduce" else 1) * (p - 1) / p)
        return [Round(edges.src, edges.dst, edges.share * passed)]


_KNOWN: LatestResults[Edges] = LatestResults(64, lambda edges: len(edges.src) <= MOST)


def _remembered(find: Callable[[Machine, Layout], Edges]) -> Callable[[Machine, Layout], Edges]:
    """The function with its latest results by what decides the way of channels: sweeps ask for it at many rates."""

    @wraps(find)
    def found(machine: Machine, layout: Layout) -> Edges:
        decisive = machine.nics, machine.cycles, machine.chains, machine.full_mesh
        return _KNOWN.get((find.__name__, *decisive, layout), lambda: find(machine, layout))

    return found


@_remembered
def rings(machine: Machine, layout: Layout) -> Edges:
    """One ring for each NIC: it enters every node at the NIC's first GPU, and no other ring leaves by the same NIC.

    Inside a node it visits the GPUs in turn, or along the rings that direct links form.
    """
    g, nodes = layout.gpus_per_node, layout.nodes
    parts = []
    if nodes == 1:
        whole = sum(share for _, share in machine.cycles) or 1.0
        for order, share in machine.cycles or ((tuple(range(g)), 1.0),):
            members = np.array(order)
            parts.append(Edges(members, np.roll(members, -1), np.full(g, share / whole)))
        return _merged(parts, g)
    for way in _visits(machine, g):
        members = (np.arange(nodes)[:, None] * g + np.array(way)).ravel()
        parts.append(Edges(members, np.roll(members, -1), np.full(len(members), 1 / machine.nics)))
    return _merged(parts, layout.workers)


def _visits(machine: Machine, g: int) -> list[list[int]]:
    """The GPUs of a node in the order of the ring of each NIC, so that no two rings leave the node by the same NIC.

    Where direct links lead them to the same one, each goes round a ring of links that takes it to the NIC so many after
    its own, for the number with which the fullest link carries least; where there is none, they leave as they do.
    """
    orders = [_visit(machine, g, nic) for nic in range(machine.nics)]
    if len({order[-1] % machine.nics for order in orders}) == machine.nics:
        return orders
    fullest, apart = min(_leave_apart(machine, after) for after in range(machine.nics))
    return apart if math.isfinite(fullest) else orders


def _leave_apart(machine: Machine, after: int) -> tuple[float, list[list[int]]]:
    """How full the fullest link is, and the order of each NIC's ring, where it leaves by the NIC so many after its own.

    One NIC after the other takes the ring, either way round, that fills links least. They are as wide as all rings
    together use them. Infinitely full where a NIC has no such ring.
    """
    width, load = defaultdict[frozenset[int], float](float), Counter[tuple[int, int]]()
    for order, share in machine.cycles:
        for link in pairwise((*order, order[0])):
            width[frozenset(link)] += share
    fullest, made = 0.0, list[list[int]]()
    for nic in range(machine.nics):
        both = [list(way) for order, _ in machine.cycles for way in (order, order[::-1])]
        ways = [way[way.index(nic) :] + way[: way.index(nic)] for way in both]
        fits = [way for way in ways if (way[-1] - nic - after) % machine.nics == 0]
        filled = [max((load[link] + 1) / width[frozenset(link)] for link in pairwise(way)) for way in fits]
        full, way = min(zip(filled, fits, strict=True), default=(math.inf, []))
        load.update(pairwise(way))
        fullest = max(fullest, full)
        made.append(way)
    return fullest, made


def _visit(machine: Machine, g: int, nic: int) -> list[int]:
    """The GPUs of a node in the order of the ring of a NIC: from the NIC's first GPU to one of the NIC before it.

    In a full mesh of g GPUs, g even, the zigzags i, i + 1, i - 1, i + 2, ... from every GPU i end at GPU i + g/2 and
    use each link once in each direction (Walecki's construction: Lucas, Récréations mathématiques II, 1892), so that no
    ring shares links with another one.
    """
    if machine.full_mesh and g % 2 == 0 and g % machine.nics == 0:
        return [(nic + (step + 1) // 2 * (1 if step % 2 else -1)) % g for step in range(g)]
    if machine.cycles:
        order = list(machine.cycles[nic % len(machine.cycles)][0])
        start = order.index(nic)
        return order[start:] + order[:start]
    last = (nic - 1) % machine.nics if machine.nics > 1 else g - 1
    between = [(nic + step) % g for step in range(g)]
    return [gpu for gpu in between if gpu != last] + [last] if last != nic else between


@_remembered
def trees(machine: Machine, layout: Layout) -> Edges:
    """From children to parents: two complementary trees over the nodes for each NIC, and chains inside the nodes.

    A tree moves sums up and results down through the same channels. Over direct links NCCL counts that as half of the
    bandwidth (`ratio` in src/graph/tuning.cc, v2.30.7, 2025), so that each step counts twice there.
    """
    g, nodes = layout.gpus_per_node, layout.nodes
    parts = [_across(machine, layout)] if nodes > 1 else []
    if g > 1:
        direct = machine.chains if nodes == 1 else ()
        if direct:
            whole = sum(share for _, share in direct) / 2
            chains = [(list(order), share / whole) for order, share in direct]
        else:
            heads = range(machine.nics if nodes > 1 else g)
            chains = [([(head + step) % g for step in range(g)], 1 / len(heads)) for head in heads]
            if machine.cycles:
                ways = _visits(machine, g) if nodes > 1 else [_visit(machine, g, head) for head in heads]
                chains = [(way, 1 / len(heads)) for way in ways]
        inside = []
        for order, share in chains:
            members = np.arange(nodes)[:, None] * g + np.array(order)
            inside.append(Edges(members[:, 1:].ravel(), members[:, :-1].ravel(), np.full(nodes * (g - 1), share)))
        parts.append(_merged(inside, layout.workers))
    return _joined(parts)


def _across(machine: Machine, layout: Layout) -> Edges:
    """From children to parents between nodes: half of each NIC's share in either tree."""
    g, parts = layout.gpus_per_node, []
    for tree in two_trees(layout.nodes):
        inner = tree.parent >= 0
        for nic in range(machine.nics):
            share = np.full(int(inner.sum()), 0.5 / machine.nics)
            parts.append(Edges(tree.node[inner] * g + nic, tree.parent[inner] * g + nic, share))
    return _joined(parts)


def _in_switch(machine: Machine, layout: Layout) -> Edges:
    """Sums in the node's switch."""
    src, dst = next_in_node(layout)
    # The switch reaches less of its links' rate than trees do of the NICs': its bytes count for more.
    weight = TREE_EFFICIENCY / (NVLS_EFFICIENCY.get(machine.generation) or TREE_EFFICIENCY)
    return Edges(src, dst, np.full(len(src), weight * (1 + 1 / layout.gpus_per_node)))


def _in_switches(machine: Machine, layout: Layout) -> Edges:
    """Sums in the node's switch, and up to the network's switches and back."""
    heads = np.arange(layout.workers).reshape(layout.nodes, -1)[:, : machine.nics]
    share = np.full(heads.size, 1 / machine.nics)
    across = Edges(heads.ravel(), np.roll(heads, -1, axis=0).ravel(), share)
    return _merged([_in_switch(machine, layout), across], layout.workers)


def _in_switch_and_across(machine: Machine, layout: Layout) -> Edges:
    """Sums in the node's switch, and between nodes along trees."""
    up = _across(machine, layout)
    return _joined([_in_switch(machine, layout), up, Edges(up.dst, up.src, up.share)])


@_remembered
def _both_ways(machine: Machine, layout: Layout) -> Edges:
    """The edges of the trees, and the same backwards."""
    edges = trees(machine, layout)
    return _joined([edges, Edges(edges.dst, edges.src, edges.share)])


def _joined(parts: Sequence[Edges]) -> Edges:
    """The steps of all parts: where both trees use a pair of nodes, each has a connection with its own fair share."""
    return Edges(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _merged(parts: Sequence[Edges], workers: int) -> Edges:
    """The steps with one entry for each pair of sender and receiver, which has the sum of their shares."""
    src, dst, share = _joined(parts)
    pairs, position = np.unique(src * workers + dst, return_inverse=True)
    return Edges(pairs // workers, pairs % workers, np.bincount(position, weights=share).astype(float))
