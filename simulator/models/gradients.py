"""Gradients as a sparsifier gets them: the values of every worker at some coordinates of one bucket."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Selection
from simulator.models.largest import Mask, Values, largest, largest_elements, largest_indices
from simulator.models.sampling import draw_uniformly

__all__ = [
    "Block",
    "Choice",
    "Cut",
    "Mask",
    "State",
    "Values",
    "counted",
    "largest",
    "largest_elements",
    "largest_indices",
    "top",
]

State = dict[str, Any]
"""What a method keeps of one bucket from one iteration to the next; `residual` is the memory of error feedback."""


@dataclass(frozen=True)
class Block:
    """Gradients of one bucket in one iteration.

    `values` (n, m): float32, of n workers at the m coordinates that are held. For each coordinate (m,): `piece` is the
    number of its tensor in the bucket, `coordinate` its position in the flat vector of d elements (increasing), and
    `weight` the elements that it stands for (1 if the trace holds all elements). `numels`: elements of each tensor, d
    in all. `iteration`: its number in the training. `shapes`: of the tensors, if known (PowerSGD needs matrices).
    """

    values: Values
    piece: Ints
    coordinate: Ints
    weight: Floats
    numels: tuple[int, ...]
    iteration: int = 0
    shapes: tuple[tuple[int, ...], ...] = ()

    @property
    def workers(self) -> int:
        """Number of workers, n."""
        return len(self.values)

    @property
    def numel(self) -> int:
        """Elements of the bucket, d."""
        return sum(self.numels)

    @cached_property
    def sampled(self) -> bool:
        """Whether some coordinates stand for more than one element."""
        return bool(np.any(self.weight != 1.0))

    def weight_of(self, unit: slice) -> Floats | None:
        """Elements that each coordinate of a unit stands for; None where every coordinate is one element."""
        return self.weight[unit] if self.sampled else None

    def draws(self, unit: slice, seed: int = 0) -> Floats:
        """A number from [0, 1) for each worker and coordinate of a unit, (n, size), other ones in every iteration.

        They decide where a method takes fewer elements than a coordinate stands for.
        """
        return draw_uniformly(seed, self.iteration, self.workers, self.coordinate[unit])

    def cut(self, layers: Sequence[int], offset: int, numels: tuple[int, ...]) -> Cut:
        """Where a bucket lies among the coordinates: some tensors of the whole model in the bucket's order, or a slice.

        `offset` is the first element of the first tensor that is in it.
        """
        ends = np.searchsorted(self.piece, np.arange(len(self.numels)), side="right")
        starts = np.concatenate([[0], ends[:-1]])
        bases = np.concatenate([[0], np.cumsum(self.numels)[:-1]])
        columns, pieces, places, base = [], [], [], 0
        for number, (layer, numel) in enumerate(zip(layers, numels, strict=True)):
            first = bases[layer] + (0 if number else offset)
            tensor = self.coordinate[starts[layer] : ends[layer]]
            a, b = (int(starts[layer] + np.searchsorted(tensor, edge)) for edge in (first, first + numel))
            columns.append((a, b))
            pieces.append(np.full(b - a, number))
            places.append(base + self.coordinate[a:b] - first)
            base += numel
        follow = all(b == a for (_, b), (a, _) in pairwise(columns))
        column = slice(columns[0][0], columns[-1][1]) if follow else np.concatenate([np.arange(*c) for c in columns])
        keys = Block(
            values=self.values[:0, column],
            piece=np.concatenate(pieces),
            coordinate=np.concatenate(places),
            weight=self.weight[column],
            numels=numels,
            shapes=tuple(self.shapes[layer] for layer in layers) if self.shapes and not offset else (),
        )
        return Cut(column, keys)

    def part(self, layers: Sequence[int], offset: int, numels: tuple[int, ...]) -> Block:
        """The block of a bucket, as `cut` takes it."""
        return self.cut(layers, offset, numels).of(self)

    def units(self, granularity: str) -> list[tuple[slice, int]]:
        """The units of the selection: slices of the m coordinates, each with its number of elements.

        `layer`: one unit per tensor (a slice, since coordinates are sorted); otherwise one for the whole bucket.
        """
        if granularity != "layer":
            return [(slice(0, len(self.piece)), self.numel)]
        ends = np.searchsorted(self.piece, np.arange(len(self.numels)), side="right").tolist()
        starts = [0, *ends[:-1]]
        return [(slice(a, b), n) for a, b, n in zip(starts, ends, self.numels, strict=True) if b > a]


@dataclass(frozen=True, slots=True)
class Cut:
    """A bucket's coordinates among those of the whole model: `columns` of its values, and `keys` without values.

    It is the same in every iteration. Tensors that follow each other are a slice, whose values are not copied.
    """

    columns: slice | Ints
    keys: Block

    def values(self, whole: Values) -> Values:
        """The bucket's values (n, m) of those of the whole model."""
        return whole[:, self.columns]

    def of(self, whole: Block) -> Block:
        """The bucket's part of a block of the whole model."""
        return replace(self.keys, values=self.values(whole.values), iteration=whole.iteration)


@dataclass(slots=True)
class Choice:
    """What the n workers send of u (n, m), the residuals plus the gradients.

    `chosen` (n, m): coordinates that each worker selected. `sent` (n, m): the values that reach the sum, 0 elsewhere;
    the rest stays in the residual. `aggregated` (m,): coordinates of the sum; by default all that a worker selected.
    `scanned`: elements that the busiest worker reads per pass (default: d); `passes`: number of passes. `detail`: other
    figures of the method (threshold, moved blocks). `counts` (n,): elements that each worker selects, where the method
    fixes them, so that they need not be estimated from a sample.
    """

    chosen: Mask
    sent: Values
    aggregated: Mask | None = None
    scanned: float | None = None
    passes: float = 1.0
    detail: dict[str, float] = field(default_factory=dict)
    counts: Floats | None = None


def counted(choice: Choice, block: Block, target: float) -> Selection:
    """The counts of a choice, scaled by the sampling weights, with their standard error.

    A coordinate that stands for w elements was drawn with a chance of 1/w. If draws are taken as independent, the
    variance of a scaled count is the sum of w (w - 1) over the selected coordinates (Horvitz and Thompson 1952). It
    also spreads the counts of the workers, and so raises the largest: counts are drawn towards their mean by as much as
    leaves their spread without it. Where the method fixes the counts, the sum is scaled by their ratio to the counts of
    the sample, which share most of its error (ratio estimator, Cochran 1977).
    """
    weight, scale = block.weight, 1.0
    if block.sampled:
        selected = np.array([float(weight[row].sum()) for row in choice.chosen])
        if choice.counts is None:
            variance = np.array([float((weight * (weight - 1.0))[row].sum()) for row in choice.chosen])
            selected = without_noise(selected, float(variance.mean()))
        elif selected.any():
            scale = float(choice.counts.sum() / selected.sum())
            selected = choice.counts
    else:
        selected = np.count_nonzero(choice.chosen, axis=1).astype(float)
    union = choice.chosen.any(axis=0) if choice.aggregated is None else choice.aggregated
    aggregated = scale * float(weight[union].sum())
    error = scale * float(np.sqrt((weight * (weight - 1.0))[union].sum()))
    return Selection(
        selected=selected,
        aggregated=aggregated,
        largest=float(selected.max()),
        target=target,
        scanned=float(block.numel) if choice.scanned is None else choice.scanned,
        passes=choice.passes,
        aggregated_error=error,
        detail=choice.detail,
    )


def without_noise(counts: Floats, variance: float) -> Floats:
    """Counts (n,) drawn towards their mean, so that their spread is less by the variance of their errors.

    >>> without_noise(np.array([1.0, 3.0]), 1.5).tolist()
    [1.5, 2.5]
    """
    mean, spread = float(counts.mean()), float(counts.var(ddof=1)) if len(counts) > 1 else 0.0
    kept = math.sqrt(max(0.0, 1.0 - variance / spread)) if spread > 0 else 1.0
    return np.asarray(mean + kept * (counts - mean))


def top(u: Values, block: Block, granularity: str, wanted: Callable[[int], int]) -> Mask:
    """The k = wanted(n) largest magnitudes of each unit of n elements, for each worker (n, m).

    Of a sampled unit: coordinates that stand for k elements, on average where they do not add up to k.
    """
    chosen = np.zeros(u.shape, dtype=bool)
    for unit, n in block.units(granularity):
        chosen[:, unit] = top_of(u[:, unit], block, unit, wanted(n))
    return chosen


def top_of(u: Values, block: Block, unit: slice, k: int, workers: slice = slice(None)) -> Mask:
    """The coordinates of the k elements of largest magnitude in one unit, for each of `workers`: u is (workers, m)."""
    weight = block.weight_of(unit)
    if weight is None:
        # One worker after the other, to need no second array of that size.
        return np.stack([largest(np.abs(values)[None], k)[0] for values in u])
    return largest_elements(np.abs(u), weight, k, block.draws(unit)[workers])
