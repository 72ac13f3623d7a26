"""Replay: a sparsifier's own algorithm on recorded gradients of every worker, with error feedback."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.models.exchange import Selection
from simulator.models.gradients import Block, State
from simulator.sparsifiers.base import Sparsifier


@dataclass(frozen=True, slots=True)
class Step:
    """One iteration of one bucket: what was selected, and what was lost beside what was saved.

    `energy_kept` = 1 - ||u - C(u)||^2 / ||u||^2, summed over workers and weighted where coordinates were sampled, of
    u = residual + gradient; `residual_norm` = ||residual|| after the iteration, root mean square over workers;
    `never_sent` = share of coordinates that no worker has sent so far.
    """

    iteration: int
    selection: Selection
    energy_kept: float
    residual_norm: float
    never_sent: float


def replay(sparsifier: Sparsifier, blocks: Iterable[Block], error_feedback: bool = True) -> Iterator[Step]:
    """Run `sparsifier` over the iterations of one bucket, in order.

    Without error feedback the residual is emptied before every iteration, so that u is the gradient.
    """
    state: State | None = None
    untouched: np.ndarray | None = None
    for block in blocks:
        if state is None:
            state = sparsifier.start(block)
            untouched = np.ones(block.values.shape[1], dtype=bool)
        if not error_feedback:
            state = {**state, "residual": np.zeros_like(block.values)}
        state, selection, u, choice = sparsifier.select(state, block)
        untouched &= ~(choice.sent != 0).any(axis=0)
        weight = block.weight
        total = float((np.square(u, dtype=float) @ weight).sum())
        lost = float((np.square(u - choice.sent, dtype=float) @ weight).sum())
        residual = np.square(state["residual"], dtype=float) @ weight
        yield Step(
            iteration=block.iteration,
            selection=selection,
            energy_kept=1.0 - lost / total if total else 1.0,
            residual_norm=float(np.sqrt(residual.mean())),
            never_sent=float(weight[untouched].sum() / weight.sum()),
        )


def mean_selection(selections: Sequence[Selection]) -> Selection:
    """The mean over iterations: what a bucket's exchange is priced by."""
    return Selection(
        selected=np.mean([item.selected for item in selections], axis=0),
        aggregated=float(np.mean([item.aggregated for item in selections])),
        largest=float(np.mean([item.largest for item in selections])),
        target=float(np.mean([item.target for item in selections])),
        scanned=float(np.mean([item.scanned for item in selections])),
        passes=float(np.mean([item.passes for item in selections])),
    )
