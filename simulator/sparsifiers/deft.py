"""DEFT: every worker selects in its own layers; each layer gets a share of k by its norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Broadcast, Bucket, Compute, Ints, Selection, Step
from simulator.models.gradients import ALL, Block, Choice, State, Values, top_of
from simulator.models.overlap import Overlap
from simulator.sparsifiers.base import SIZE_BYTES, Style, per_call
from simulator.sparsifiers.micro import Exclusive, even_bounds


class Deft(Exclusive, kind="deft"):
    """DEFT: top-k in disjoint sets of layers, packed so that every worker has equally much work.

    1. Tensors of more than d/n elements are cut into n equal pieces. 2. Every worker computes the L2 norm of each piece
    and gives the pieces, in descending order of norm, k_l = remaining k * norm_l / remaining norm (at least 1, at most
    all elements of the piece). 3. The leader, worker t mod n, packs the pieces into n bins by its own k_l: the piece of
    the highest cost first, each into the bin of the lowest cost; a piece costs n_l log2(k_l), or n_l if k_l = 1. It
    broadcasts the assignment, n + L int32. Pieces with k_l = n_l are common: all their values are sent, without
    indices. 4. Worker r selects the top k_l of each piece of bin (t + r) mod n, by its own k_l; zeros are never
    selected (DEFT, ICPP 2023, 2307.03500; github kljp/deft).

    K = density * d for any n, up to rounding and the minimum of 1 per piece; the work is d log k / n. A common element
    counts as selected by every worker, so that sum k_i = K + (n-1) C with C common elements. Traffic per worker: the
    broadcast and (n-1) 8 + (n-1) max(k_i - C) 8 + 2(n-1)/n K 4 bytes. In closed form all elements have the same scale:
    norm_l = sqrt(n_l).
    """

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """The top k_l of the pieces in each worker's bin, and all of the common pieces."""
        workers, t, d = block.workers, block.iteration, block.numel
        bounds = pieces(block.numels, workers)
        sizes, cuts = np.diff(bounds).tolist(), np.searchsorted(block.coordinate, bounds)
        k = self.wanted(d)
        shares = [share_out(k, norms, sizes) for norms in _norms(u, block, cuts)]
        bins, costs = pack_pieces(sizes, shares[t % workers], workers)
        owner, own = np.full(len(sizes), -1), [0] * len(sizes)
        for worker in range(workers):
            for piece in bins[(t + worker) % workers]:
                owner[piece], own[piece] = worker, shares[worker][piece]
        owners = np.repeat(owner, np.diff(cuts))
        units = [slice(*ends) for ends in pairwise(cuts.tolist())]
        held = u[owners, np.arange(len(owners))][None]
        draw = block.draws_of(ALL)
        (found,) = top_of(held, block, units, own, lambda _, places: draw(owners[places], places))
        common, by = np.flatnonzero(owners < 0), owners[found]
        chosen = [np.sort(np.concatenate([common, found[by == worker]])) for worker in range(workers)]
        union = np.sort(np.concatenate([common, found]))
        scanned = max(sum(sizes[piece] for piece in items) for items in bins)
        return Choice(chosen, [union] * workers, aggregated=union, scanned=float(scanned), detail={"cost": max(costs)})

    def expect(self, bucket: Bucket, workers: int, concentration: Overlap) -> Selection:
        """The method with norms sqrt(n_l); `padding` raises the largest count of elements that are not common."""
        sizes = np.diff(pieces(bucket.pieces, workers)).tolist()
        shares = share_out(self.wanted(bucket.numel), np.sqrt(sizes), sizes)
        bins, _ = pack_pieces(sizes, shares, workers)
        own = np.array([math.fsum(shares[piece] for piece in items) for items in bins])
        union = float(math.fsum(shares))
        common = union - own.sum()
        most = max(own.max(), min(self.padding * own.mean(), own.sum()))
        scanned = max(sum(sizes[piece] for piece in items) for items in bins)
        target = self.target(bucket.numel)
        return Selection(own + common, union, float(most + common), target, float(scanned), exclusive=True)

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Residual add and the norm of every piece; top-k of the busiest worker's pieces, taken as equally large."""
        sizes = tuple(np.diff(pieces(bucket.pieces, workers)).astype(float).tolist())
        scanned = selection.scanned or bucket.numel / workers
        own = -(-len(sizes) // workers)
        return [
            *self.added_up(bucket),
            per_call("norm", sizes, 1),
            per_call("topk", (scanned / own,) * own, 2),
        ]

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """The assignment, then counts, indices of elements that are not common, and the sum of all K values.

        C follows from sum k_i = K + (n-1) C, also for means over iterations.
        """
        selected = float(np.broadcast_to(selection.selected, (workers,)).sum())
        common = max(0.0, selected - selection.aggregated) / (workers - 1)
        indices = max(0.0, selection.largest - common)
        steps = self.gathered(selection, bucket, indices, workers, style)
        count = len(pieces(bucket.pieces, workers)) - 1
        return [Broadcast(float(SIZE_BYTES * workers)), Broadcast(float(SIZE_BYTES * count)), *steps]


@lru_cache(maxsize=64)
def pieces(numels: Sequence[int], workers: int) -> Ints:
    """Bounds (L + 1,) of the pieces in the flat vector; tensors of more than d/n elements are cut into n pieces.

    >>> pieces((10, 3), 4).tolist()
    [0, 3, 6, 8, 10, 13]
    """
    d, bounds = sum(numels), [np.zeros(1, dtype=np.int64)]
    for numel in numels:
        cut = even_bounds(numel, workers if numel * workers > d else 1)
        bounds.append(bounds[-1][-1] + cut[1:])
    return np.unique(np.concatenate(bounds))


def share_out(k: int, norms: Floats, sizes: Sequence[int]) -> list[int]:
    """k_l of each piece, from 1 to its size, in proportion to the norms; largest norm first, then in order."""
    shares, values = [0] * len(sizes), norms.tolist()
    remaining, weight = k, math.fsum(values)
    for piece in np.argsort(-norms, kind="stable").tolist():
        part = int(remaining * (values[piece] / weight)) if weight > 0 else 0
        size = sizes[piece]
        shares[piece] = part = (1 if part < 1 else part) if part < size else size
        remaining -= part
        weight -= values[piece]
    return shares


def pack_pieces(sizes: Sequence[int], shares: Sequence[int], workers: int) -> tuple[list[list[int]], list[float]]:
    """The pieces of each of the n bins, and the costs of the bins; common pieces (k_l = n_l) are in no bin."""
    bins: list[list[int]] = [[] for _ in range(workers)]
    loads = [0.0] * workers
    costs = [n * math.log2(k) if k > 1 else float(n) for n, k in zip(sizes, shares, strict=True)]
    for piece in sorted(range(len(sizes)), key=lambda piece: -costs[piece]):
        if shares[piece] < sizes[piece]:
            lightest = loads.index(min(loads))
            bins[lightest].append(piece)
            loads[lightest] += costs[piece]
    return bins, loads


def _norms(u: Values, block: Block, cuts: Ints) -> Floats:
    """L2 norm of each piece of u (n, m); sampled coordinates count with their weights.

    Norms are rounded to fp32, as the framework returns them: their sums are then exact in fp64, and the last piece gets
    all of the remaining k.
    """
    squares = np.square(u, dtype=float)
    if block.sampled:
        squares *= block.weight
    totals = np.zeros((*u.shape[:-1], len(cuts) - 1))
    held = np.diff(cuts) > 0
    totals[..., held] = np.add.reduceat(squares, cuts[:-1][held], axis=-1)
    return np.sqrt(totals).astype(np.float32).astype(float)
