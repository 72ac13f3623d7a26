"""Gradients as a sparsifier sees them: every worker's values at some coordinates of one bucket."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Selection

Values = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
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
    selected = choice.chosen @ weight
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


def largest(magnitudes: Floats | Values, k: int) -> Mask:
    """Mask of the k largest entries of each row of (n, m); exact zeros are never chosen.

    >>> largest(np.array([[3.0, 0.0, 1.0, 2.0]]), 2)
    array([[ True, False, False,  True]])
    """
    n, m = magnitudes.shape
    mask = np.zeros((n, m), dtype=bool)
    if k >= m:
        mask[:] = True
    elif k > 0:
        np.put_along_axis(mask, np.argpartition(magnitudes, m - k, axis=1)[:, m - k :], True, axis=1)
    return mask & (magnitudes > 0)
