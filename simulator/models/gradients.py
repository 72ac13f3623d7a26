"""Gradients as a sparsifier gets them: the values of every worker at some coordinates of one bucket."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Selection
from simulator.models.largest import Draw, Mask, Values, find_above, largest, largest_elements
from simulator.models.sampling import draw_uniformly, sums_of_squares
from simulator.records import Record, Struct, field, replace

__all__ = [
    "ALL",
    "Block",
    "Choice",
    "Cut",
    "Draw",
    "Mask",
    "Outcome",
    "Places",
    "State",
    "Values",
    "are_among",
    "count_selected",
    "find_above",
    "join_places",
    "largest",
    "largest_elements",
    "take_sent",
    "top",
    "top_of",
]

State = dict[str, Any]
"""What a method keeps of one bucket from one iteration to the next; `residual` is the memory of error feedback."""

Places = Ints | slice
"""Some of the m coordinates of one worker, as increasing indices; `ALL` of them as a slice."""
ALL = slice(None)


class Block(Record, dict=True):
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
        return len(self.weight) != self.numel and bool((self.weight != 1.0).any())

    def weight_of(self, unit: slice) -> Floats | None:
        """Elements that each coordinate of a unit stands for; None where every coordinate is one element."""
        return self.weight[unit] if self.sampled else None

    def draws_of(self, unit: slice, workers: slice = ALL, seed: int = 0) -> Draw:
        """Numbers from [0, 1) for some of the workers, and places in a unit; other ones in every iteration.

        They decide where a method takes fewer elements than a coordinate stands for.
        """
        first, coordinate = workers.start or 0, self.coordinate[unit]
        return lambda rows, places: draw_uniformly(seed, self.iteration, first + rows, coordinate[places])

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

    def units(self, granularity: str) -> list[tuple[slice, int]]:
        """The units of the selection: slices of the m coordinates, each with its number of elements.

        `layer`: one unit per tensor (a slice, since coordinates are sorted); otherwise one for the whole bucket.
        """
        if granularity != "layer":
            return [(slice(0, len(self.piece)), self.numel)]
        ends = np.searchsorted(self.piece, np.arange(len(self.numels)), side="right").tolist()
        starts = [0, *ends[:-1]]
        return [(slice(a, b), n) for a, b, n in zip(starts, ends, self.numels, strict=True) if b > a]


class Cut(Record):
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


class Choice(Struct):
    """What the n workers send of u (n, m), the residuals plus the gradients.

    `chosen`: the coordinates that each worker selected. `sent`: those of each worker whose values reach the sum as they
    are, by default the chosen ones; the rest stays in the residual. `decoded` (n, m), instead of `sent`: what other
    workers decode of all values. `aggregated` (K,): coordinates of the sum, by default all that a worker selected.
    `scanned`: elements that the busiest worker reads per pass (default: d); `passes`: number of passes, of all or of
    each worker (n,). `detail`: other figures of the method (threshold, moved blocks), of all or of each worker (n,).
    `counts` (n,): elements that each worker selects, where the method fixes them, so that they need not be estimated
    from a sample.
    """

    chosen: Sequence[Places]
    sent: Sequence[Places] | None = None
    decoded: Values | None = None
    aggregated: Ints | None = None
    sums: Values | None = None
    scanned: float | None = None
    passes: float | Floats = 1.0
    detail: Mapping[str, float | Floats] = field(default_factory=dict)
    counts: Floats | None = None

    def of(self, workers: slice) -> Choice:
        """The choice of some workers, where each selects alone; figures of all workers together are left out of it."""
        return replace(
            self,
            chosen=self.chosen[workers],
            sent=None if self.sent is None else self.sent[workers],
            passes=self.passes[workers] if isinstance(self.passes, np.ndarray) else self.passes,
            detail={key: each[workers] for key, each in self.detail.items() if isinstance(each, np.ndarray)},
            counts=None if self.counts is None else self.counts[workers],
        )

    @property
    def sent_places(self) -> Sequence[Places]:
        """The coordinates at which each worker sends something."""
        if self.decoded is not None:
            return [ALL] * len(self.chosen)
        return self.chosen if self.sent is None else self.sent

    def is_valid(self, shape: tuple[int, ...]) -> bool:
        """Whether every worker has increasing coordinates of u (n, m), and finite values."""
        n, m = shape
        each = [*self.chosen, *self.sent_places, *([] if self.aggregated is None else [self.aggregated])]
        once = {id(places): places for places in each}.values()
        fits = len(self.chosen) == len(self.sent_places) == n and all(_are_places(places, m) for places in once)
        if self.sums is not None:
            of = () if self.aggregated is None else self.aggregated.shape
            fits = fits and self.sums.shape == of and bool(np.isfinite(self.sums).all())
        if self.decoded is None:
            return fits
        return fits and self.decoded.shape == shape and all(np.isfinite(row).all() for row in self.decoded)


class Outcome(Record):
    """One iteration of a method: the counts, the choice, and what was sent of u and what was not.

    `sent`: values of each worker at the choice's `sent_places`. `left` (n, m): u less what was sent. Of each worker
    (n,), weighted where coordinates were sampled: `energies`, ||u||^2, and `losses`, ||left||^2, in float64.
    """

    selection: Selection
    choice: Choice
    sent: Sequence[Values]
    left: Values
    energies: Floats
    losses: Floats

    @property
    def energy_kept(self) -> float:
        """1 - ||left||^2 / ||u||^2 of all workers, which is 1 if everything was sent."""
        energy = math.fsum(self.energies)
        return 1.0 - math.fsum(self.losses) / energy if energy else 1.0

    def mean(self) -> Values:
        """The mean over workers of what was sent, less what was lost on its way, (m,)."""
        total, choice = np.zeros(self.left.shape[1], dtype=np.float32), self.choice
        if choice.aggregated is not None and choice.sums is not None:
            total[choice.aggregated] = choice.sums
        else:
            for places, values in zip(choice.sent_places, self.sent, strict=True):
                total[places] += values
        total /= np.float32(len(self.left))
        return total


def take_sent(choice: Choice, u: Values, block: Block) -> tuple[Sequence[Values], Floats, Floats]:
    """Take what is sent out of u (n, m), which then holds what is left: the values sent, and of each worker ||u||^2 and
    ||left||^2.
    """
    weight = block.weight_of(ALL)
    if choice.decoded is not None:
        whole = sums_of_squares(u, weight)
        u -= choice.decoded
        return list(choice.decoded), whole, sums_of_squares(u, weight)
    sent, energies = [], []
    for row, places in zip(u, choice.sent_places, strict=True):
        values = row[places].copy() if isinstance(places, slice) else row[places]
        row[places] = 0
        sent.append(values)
        energies.append(sums_of_squares(values[None], None if weight is None else weight[places])[0])
    losses = sums_of_squares(u, weight)
    return sent, losses + energies, losses


def count_selected(choice: Choice, block: Block, target: float) -> Selection:
    """The counts of a choice, scaled by the sampling weights, with their standard error.

    A coordinate that stands for w elements was drawn with a chance of 1/w. If draws are taken as independent, the
    variance of a scaled count is the sum of w (w - 1) over the selected coordinates (Horvitz and Thompson 1952). It
    also spreads the counts of the workers, and so raises the largest: counts are drawn towards their mean by as much as
    leaves their spread without it. Where the method fixes the counts, the sum is scaled by their ratio to the counts of
    the sample, which share most of its error (ratio estimator, Cochran 1977).
    """
    m, scale, error = len(block.weight), 1.0, 0.0
    union = join_places(choice.chosen, m) if choice.aggregated is None else choice.aggregated
    if block.sampled:
        weight, excess = block.weight, block.weight * (block.weight - 1.0)
        selected = np.array([float(weight[places].sum()) for places in choice.chosen])
        if choice.counts is None:
            variance = np.array([float(excess[places].sum()) for places in choice.chosen])
            selected = without_noise(selected, float(variance.mean()))
        elif selected.any():
            scale = float(choice.counts.sum() / selected.sum())
            selected = choice.counts
        aggregated, error = scale * float(weight[union].sum()), scale * math.sqrt(float(excess[union].sum()))
    else:
        selected = np.array([_count(places, m) for places in choice.chosen], dtype=float)
        aggregated = float(_count(union, m))
    return Selection(
        selected=selected,
        aggregated=aggregated,
        largest=float(selected.max()),
        target=target,
        scanned=float(block.numel) if choice.scanned is None else choice.scanned,
        passes=float(np.max(choice.passes)),
        aggregated_error=error,
        detail={key: float(np.mean(value)) for key, value in choice.detail.items()},
    )


def join_places(each: Sequence[Places], m: int) -> Places:
    """The coordinates, of m, that at least one worker has."""
    if any(isinstance(places, slice) for places in each):
        return ALL
    if all(places is each[0] for places in each):
        return each[0]
    union = np.zeros(m, dtype=bool)
    for places in each:
        union[places] = True
    return np.flatnonzero(union)


def are_among(some: Ints, each: Sequence[Ints], m: int) -> list[Mask]:
    """Of coordinates of m, each increasing, whether they are among some others."""
    mask = np.zeros(m, dtype=bool)
    mask[some] = True
    return [mask[places] for places in each]


def _count(places: Places, m: int) -> int:
    return m if isinstance(places, slice) else len(places)


def _are_places(places: Places, m: int) -> bool:
    """Whether they are increasing indices below m, or all."""
    if isinstance(places, slice):
        return places == ALL
    if places.ndim != 1 or places.dtype.kind not in "iu":
        return False
    return not len(places) or bool(places[0] >= 0 and places[-1] < m and (places[1:] > places[:-1]).all())


def without_noise(counts: Floats, variance: float) -> Floats:
    """Counts (n,) drawn towards their mean, so that their spread is less by the variance of their errors.

    >>> without_noise(np.array([1.0, 3.0]), 1.5).tolist()
    [1.5, 2.5]
    """
    mean, spread = float(counts.mean()), float(counts.var(ddof=1)) if len(counts) > 1 else 0.0
    kept = math.sqrt(max(0.0, 1.0 - variance / spread)) if spread > 0 else 1.0
    return np.asarray(mean + kept * (counts - mean))


def top(
    u: Values, block: Block, granularity: str, wanted: Callable[[int], int], draw: Draw | None = None
) -> list[Ints]:
    """The coordinates of the k = wanted(n) largest magnitudes of each unit of n elements, for each worker.

    Of a sampled unit: coordinates that stand for k elements, on average where they do not add up to k.
    """
    units = block.units(granularity)
    return top_of(u, block, [unit for unit, _ in units], [wanted(n) for _, n in units], draw or block.draws_of(ALL))


def top_of(u: Values, block: Block, units: Sequence[slice], wanted: Sequence[int], draw: Draw) -> list[Ints]:
    """The coordinates of the largest magnitudes of units that follow each other, so many of each, for each row of u."""
    if block.sampled:
        return largest_elements(u, block.weight, wanted, draw, [unit.stop for unit in units])
    each = list(zip(units, wanted, strict=True))
    none = np.zeros(0, dtype=np.int64)
    return [np.concatenate([none, *(unit.start + largest(row[unit], k) for unit, k in each)]) for row in u]
