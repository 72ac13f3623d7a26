"""Rings over direct links: which ones a collective library can run side by side, and what they carry."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
from scipy.optimize import linprog

from simulator.models.curves import Floats
from simulator.models.exchange import Round
from simulator.topologies.base import Rounds

MOST_GPUS = 8
_LEAST = 1e-6


def best_rings(links: Sequence[tuple[int, int, int]], gpus: int) -> list[tuple[tuple[int, ...], float]]:
    """Rings over GPUs 0 to `gpus` - 1 that together carry the most, each with its share in links.

    `links` such as (0, 3, 2): GPUs 0 and 3 are joined by two links, each of which carries both directions. A ring sends
    along each of its edges in one direction, so the shares w of all rings r solve: maximise sum w_r so that the rings
    over an edge carry no more than its links (a packing of directed Hamiltonian cycles; NCCL searches for the same,
    src/graph/search.cc). On a DGX-1 with V100 that is 1, 2, 4 and 6 links for 2, 3, 4 and 8 GPUs. Empty where no ring
    closes over the links alone, or for more than 8 GPUs.

    >>> sum(share for _, share in best_rings([(0, 1, 1), (0, 2, 1), (1, 2, 2)], 3))
    2.0
    """
    count = {(a, b): n for first, second, n in links for a, b in ((first, second), (second, first))}
    if not 2 <= gpus <= MOST_GPUS:
        return []
    rings = [(0, *rest) for rest in permutations(range(1, gpus)) if all(edge in count for edge in _edges((0, *rest)))]
    if not rings:
        return []
    edges = sorted({edge for ring in rings for edge in _edges(ring)})
    uses = np.array([[edge in set(_edges(ring)) for ring in rings] for edge in edges], dtype=float)
    found = linprog(-np.ones(len(rings)), A_ub=uses, b_ub=np.array([count[edge] for edge in edges]), method="highs")
    return [(ring, float(share)) for ring, share in zip(rings, found.x, strict=True) if share > _LEAST]


def on_rings(rings: Sequence[tuple[tuple[int, ...], float]], nbytes: Floats, passes: int) -> Rounds:
    """A ring collective of payloads `nbytes` (b,) split over rings by their shares: `passes` rounds of S/p each."""
    whole = sum(share for _, share in rings)
    src = np.array([gpu for ring, _ in rings for gpu in ring])
    dst = np.array([gpu for ring, _ in rings for gpu in (*ring[1:], ring[0])])
    share = np.array([share / whole / len(ring) for ring, share in rings for _ in ring])
    return [Round(src, dst, nbytes[:, None] * share, passes)]


def _edges(ring: tuple[int, ...]) -> list[tuple[int, int]]:
    """Directed edges of a ring; of two GPUs, both directions."""
    return list(zip(ring, (*ring[1:], ring[0]), strict=True))
