"""Packing of rings over direct links: the rings that a collective library runs at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import pairwise, permutations

import numpy as np

from simulator.models.wiring import Rings

Edge = tuple[int, int]
Order = tuple[int, ...]

MOST_GPUS = 8
_LEAST = 1e-6


@lru_cache(maxsize=64)
def pack_rings(links: tuple[tuple[int, int, int], ...], gpus: int) -> Rings:
    """The rings over GPUs 0 to `gpus` - 1 that together carry the most, each with its share as a number of links.

    An entry (0, 3, 2) of `links` means: two links join GPUs 0 and 3, and each of them carries both directions. A ring
    sends along each of its edges in one direction. The shares w maximise sum w_r over all rings r, such that the rings
    over an edge carry no more than its links: a packing of directed Hamiltonian cycles, which NCCL searches for too
    (src/graph/search.cc). On a DGX-1 with V100 GPUs, 2, 3, 4 and 8 GPUs get 1, 2, 4 and 6 links. Empty if no ring
    closes over the links alone, and for more than 8 GPUs.

    >>> sum(share for _, share in pack_rings(((0, 1, 1), (0, 2, 1), (1, 2, 2)), 3))
    2.0
    """
    count = {(a, b): n for first, second, n in links for a, b in ((first, second), (second, first))}
    orders = ((0, *rest) for rest in permutations(range(1, gpus)))
    return _pack(orders, gpus, count, lambda order: list(pairwise((*order, 0))))


@lru_cache(maxsize=64)
def pack_chains(links: tuple[tuple[int, int, int], ...], gpus: int) -> Rings:
    """The chains over GPUs 0 to `gpus` - 1 that together carry the most, each with its share as a number of links.

    A chain visits every GPU once and sends along each of its edges in both directions, which a link has too. NCCL uses
    chains, as trees inside a node, where no ring closes. `links` as for `pack_rings`; empty where no chain exists.

    >>> sum(share for _, share in pack_chains(((0, 1, 2), (1, 2, 2)), 3))
    2.0
    """
    count = {(min(a, b), max(a, b)): n for a, b, n in links}
    orders = (order for order in permutations(range(gpus)) if order[0] < order[-1])
    return _pack(orders, gpus, count, lambda order: [(min(pair), max(pair)) for pair in pairwise(order)])


def _pack(
    orders: Iterable[Order], gpus: int, count: Mapping[Edge, int], edges_of: Callable[[Order], list[Edge]]
) -> Rings:
    """The orders of GPUs that together carry the most, each with its share, where no edge carries more than `count`."""
    if not 2 <= gpus <= MOST_GPUS:
        return ()
    uses = {order: own for order in orders if (own := set(edges_of(order))) <= count.keys()}
    if not uses:
        return ()
    from scipy.optimize import linprog  # heavy, and only for direct links

    edges = sorted(set().union(*uses.values()))
    limits = np.array([[edge in own for own in uses.values()] for edge in edges], dtype=float)
    found = linprog(-np.ones(len(uses)), A_ub=limits, b_ub=np.array([count[edge] for edge in edges]), method="highs")
    return tuple((order, float(share)) for order, share in zip(uses, found.x, strict=True) if share > _LEAST)
