"""Rings over direct links: which ones a collective library can run side by side, and what they carry."""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations

import numpy as np

Rings = tuple[tuple[tuple[int, ...], float], ...]
"""Rings over workers, each with what it carries in relation to the others."""
MOST_GPUS = 8
_LEAST = 1e-6


@lru_cache(maxsize=64)
def best_rings(links: tuple[tuple[int, int, int], ...], gpus: int) -> Rings:
    """Rings over GPUs 0 to `gpus` - 1 that together carry the most, each with its share in links.

    `links` such as (0, 3, 2): GPUs 0 and 3 are joined by two links, each of which carries both directions. A ring sends
    along each of its edges in one direction, so the shares w of all rings r solve: maximise sum w_r so that the rings
    over an edge carry no more than its links (a packing of directed Hamiltonian cycles; NCCL searches for the same,
    src/graph/search.cc). On a DGX-1 with V100 that is 1, 2, 4 and 6 links for 2, 3, 4 and 8 GPUs. Empty where no ring
    closes over the links alone, or for more than 8 GPUs.

    >>> sum(share for _, share in best_rings(((0, 1, 1), (0, 2, 1), (1, 2, 2)), 3))
    2.0
    """
    from scipy.optimize import linprog  # heavy, and only for direct links

    count = {(a, b): n for first, second, n in links for a, b in ((first, second), (second, first))}
    if not 2 <= gpus <= MOST_GPUS:
        return ()
    rings = [(0, *rest) for rest in permutations(range(1, gpus)) if all(edge in count for edge in _edges((0, *rest)))]
    if not rings:
        return ()
    edges = sorted({edge for ring in rings for edge in _edges(ring)})
    uses = np.array([[edge in set(_edges(ring)) for ring in rings] for edge in edges], dtype=float)
    found = linprog(-np.ones(len(rings)), A_ub=uses, b_ub=np.array([count[edge] for edge in edges]), method="highs")
    return tuple((ring, float(share)) for ring, share in zip(rings, found.x, strict=True) if share > _LEAST)


def _edges(ring: tuple[int, ...]) -> list[tuple[int, int]]:
    """Directed edges of a ring; of two GPUs, both directions."""
    return list(zip(ring, (*ring[1:], ring[0]), strict=True))
