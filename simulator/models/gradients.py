"""Gradients as a sparsifier sees them: every worker's values at some coordinates of one bucket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Selection

Values = npt.NDArray[np.float32]


Mask = npt.NDArray[np.bool_]
_SAMPLE = 10_000
State = dict[str, Any]
"""What a method carries from one iteration to the next for one bucket; `residual` is the error-feedback memory."""


@dataclass(frozen=True)
class Block:
    """Gradients of one bucket in one iteration.

    `values` (n, m): n workers, m coordinates held, float32. `piece` (m,): which of the bucket's tensors; `coordinate`
    (m,): position in the bucket's flat vector of d elements, increasing; `weight` (m,): elements that each coordinate
    stands for (1 everywhere when nothing was sampled). `numels`: elements of each tensor, d in all. `iteration` counts
    from 0 within the replay; `shapes` are the tensors' shapes where known (PowerSGD needs matrices).
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
        """Whether some coordinates stand for more than themselves."""
        return bool(np.any(self.weight != 1.0))

    def part(self, layers: Sequence[int], offset: int, numels: tuple[int, ...]) -> Block:
        """The block of a bucket: some tensors of a whole model in the bucket's order, or a slice of one of them."""
        ends = np.searchsorted(self.piece, np.arange(len(self.numels)), side="right")
        starts = np.concatenate([[0], ends[:-1]])
        bases = np.concatenate([[0], np.cumsum(self.numels)[:-1]])
        columns, pieces, places, base = [], [], [], 0
        for number, (layer, numel) in enumerate(zip(layers, numels, strict=True)):
            held = np.arange(starts[layer], ends[layer])
            local = self.coordinate[held] - bases[layer] - offset
            inside = (local >= 0) & (local < numel)
            columns.append(held[inside])
            pieces.append(np.full(int(inside.sum()), number))
            places.append(base + local[inside])
            base += numel
        column = np.concatenate(columns)
        shapes = tuple(self.shapes[layer] for layer in layers) if self.shapes and not offset else ()
        return Block(
            values=self.values[:, column],
            piece=np.concatenate(pieces),
            coordinate=np.concatenate(places),
            weight=self.weight[column],
            numels=numels,
            iteration=self.iteration,
            shapes=shapes,
        )

    def units(self, granularity: str) -> list[tuple[slice, int]]:
        """Slices of the m coordinates that are selected from on their own, with their true numbers of elements.

        `layer`: one per tensor (coordinates are sorted, so a tensor is a slice); else one for the whole bucket.
        """
        if granularity != "layer":
            return [(slice(0, len(self.piece)), self.numel)]
        ends = np.searchsorted(self.piece, np.arange(len(self.numels)), side="right").tolist()
        starts = [0, *ends[:-1]]
        return [(slice(a, b), n) for a, b, n in zip(starts, ends, self.numels, strict=True) if b > a]


@dataclass(slots=True)
class Choice:
    """What the n workers send of u (n, m), the gradients with what was left behind before.

    `chosen` (n, m): coordinates that each worker selected. `sent` (n, m): the values that reach the sum, 0 elsewhere;
    what is not sent stays in the residual. `aggregated` (m,): coordinates of the sum, by default all that anyone chose.
    `scanned`: elements that the busiest worker looked at, per pass (default: d); `passes`: how often it looked.
    `detail`: figures of interest to people (threshold, blocks moved).
    """

    chosen: Mask
    sent: Values
    aggregated: Mask | None = None
    scanned: float | None = None
    passes: float = 1.0
    detail: dict[str, float] = field(default_factory=dict)


def counted(choice: Choice, block: Block, target: float) -> Selection:
    """The selection's counts, scaled by the sampling weights, with their standard error.

    A coordinate that stands for w was drawn without replacement from its tensor; treating draws as independent, the
    variance of a scaled count is sum of w (w - 1) over the selected coordinates.
    """
    weight = block.weight
    if block.sampled:
        selected = np.array([float(weight[row].sum()) for row in choice.chosen])
    else:
        selected = np.count_nonzero(choice.chosen, axis=1).astype(float)
    union = choice.chosen.any(axis=0) if choice.aggregated is None else choice.aggregated
    aggregated = float(weight[union].sum())
    error = float(np.sqrt((weight * (weight - 1.0))[union].sum()))
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


def largest_indices(magnitudes: Floats | Values, k: int) -> Ints:
    """Indices, increasing, of the k largest entries of (m,), 0 < k <= m; of equal entries the first ones.

    A partition alone would leave it to the processor which of equal entries is taken.

    >>> largest_indices(np.array([1.0, 3.0, 2.0, 2.0]), 2)
    array([1, 2])
    """
    smallest = np.partition(magnitudes, len(magnitudes) - k)[len(magnitudes) - k]
    above = np.flatnonzero(magnitudes > smallest)
    equal = np.flatnonzero(magnitudes == smallest)
    return np.sort(np.concatenate([above, equal[: k - len(above)]]))


def largest(magnitudes: Floats | Values, k: int) -> Mask:
    """Mask of the k largest entries of each row of (n, m), of equal ones the first; exact zeros are never chosen.

    >>> largest(np.array([[3.0, 0.0, 1.0, 2.0]]), 2)
    array([[ True, False, False,  True]])
    """
    if k < 1:
        return np.zeros(magnitudes.shape, dtype=bool)
    if k >= magnitudes.shape[1]:
        return np.asarray(magnitudes > 0)
    mask = np.zeros(magnitudes.shape, dtype=bool)
    for row, out in zip(magnitudes, mask, strict=True):
        candidates = _candidates(row, k)
        best = candidates[largest_indices(row[candidates], k)]
        out[best] = row[best] > 0
    return mask


def reaching(magnitudes: Floats | Values, weight: Floats, k: float) -> Ints:
    """Indices of the largest entries of (m,), of equal ones the first, as many as stand for k elements; at least one.

    >>> reaching(np.array([3.0, 0.0, 1.0, 2.0]), np.array([1.0, 1.0, 5.0, 1.0]), 2.0)
    array([0, 3])
    """
    order = np.argsort(-magnitudes, kind="stable")
    total = np.cumsum(weight[order])
    count = max(1, int(np.searchsorted(total, k + 0.5 * float(weight[order[0]]), side="right")) if len(order) else 0)
    best = order[:count]
    return np.sort(best[magnitudes[best] > 0])


def top(u: Values, block: Block, granularity: str, density: float) -> Mask:
    """The k = max(1, round(density n)) largest magnitudes of each unit of n elements and worker, (n, m).

    Of a sampled unit as many coordinates as stand for k elements; at least one.
    """
    chosen = np.zeros(u.shape, dtype=bool)
    for unit, n in block.units(granularity):
        magnitudes, weight, k = np.abs(u[:, unit]), block.weight[unit], max(1, round(density * n))
        if np.ptp(weight):
            # Tensors sampled at different rates: k counts elements, not coordinates.
            for row, out in zip(magnitudes, chosen[:, unit], strict=True):
                out[reaching(row, weight, k)] = True
        else:
            chosen[:, unit] = largest(magnitudes, held(magnitudes.shape[1], n, k))
    return chosen


def held(m: int, n: int, k: int) -> int:
    """Coordinates to select of a unit of n elements, k of them wanted, of which m are held alike."""
    return min(m, max(1, round(k * m / n)))


def _candidates(row: Floats | Values, k: int) -> Ints:
    """Indices that surely hold the k largest of a row: those above a bound from a sample, or all of them.

    Partitioning a few per cent of a long row is an order of magnitude faster than partitioning the row.
    """
    stride = len(row) // _SAMPLE
    if stride < 2:
        return np.arange(len(row))
    sample = np.sort(row[::stride])
    wanted = int(len(sample) * (1.0 - 1.5 * k / len(row))) - 3 * int(np.sqrt(len(sample)))
    found = np.flatnonzero(row >= sample[max(0, wanted)])
    return found if len(found) >= k else np.arange(len(row))
