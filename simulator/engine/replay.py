"""Replay: the algorithm of a sparsifier runs on the recorded gradients of every worker, with error feedback."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from simulator.models.exchange import Bucket, Selection
from simulator.models.gradients import Block, Mask, State, Values
from simulator.sparsifiers.base import Sparsifier

if TYPE_CHECKING:
    from simulator.traces.format.trace import Trace  # brings pyarrow, which a scenario without a trace does not need


@dataclass(frozen=True, slots=True)
class Step:
    """One iteration of one bucket, or of all buckets together: what was selected, and what was lost.

    With u = residual + gradient and C(u), what was sent of it, summed over workers and weighted where coordinates were
    sampled: `energy` = ||u||^2 and `lost` = ||u - C(u)||^2. `residual` = ||residual||^2 after the iteration, mean over
    workers. `never_sent`: how many of the `numel` coordinates no worker has sent so far.
    """

    iteration: int
    selection: Selection
    energy: float
    lost: float
    residual: float
    never_sent: float
    numel: float

    @property
    def energy_kept(self) -> float:
        """1 - ||u - C(u)||^2 / ||u||^2, which is 1 if everything was sent."""
        return 1.0 - self.lost / self.energy if self.energy else 1.0

    def row(self) -> dict[str, float]:
        """The step as a tidy row; densities are shares of all elements.

        For comparison with the energy kept: what k random coordinates keep, k/d, and the lower bound for the k largest
        of a bell-shaped distribution, (2kd - k^2)/d^2 (Shi et al. 2019, 1911.08772).
        """
        chosen, d = self.selection, self.numel
        selected = float(chosen.selected.mean())
        share = selected / d
        return {
            "iteration": self.iteration,
            "selected": selected / d,
            "aggregated": chosen.aggregated / d,
            "aggregated_error": chosen.aggregated_error / d,
            "build_up": chosen.aggregated / chosen.without_overlap if selected else 1.0,
            "padding": chosen.largest / selected if selected else 1.0,
            "imbalance": float(chosen.selected.max()) / selected if selected else 1.0,
            "smallest": float(chosen.selected.min()) / selected if selected else 1.0,
            "energy_kept": self.energy_kept,
            "random_k_bound": share,
            "top_k_bound": 2 * share - share * share,
            "residual_norm": self.residual**0.5,
            "never_sent": self.never_sent / d,
        }


def replay(sparsifier: Sparsifier, blocks: Iterable[Block], error_feedback: bool = True) -> Iterator[Step]:
    """Run `sparsifier` over the iterations of one bucket, in order.

    Without error feedback the residual is emptied before every iteration, so that u is the gradient.
    """
    state: State = {}
    untouched: Mask | None = None
    for block in blocks:
        if untouched is None:
            state, untouched = sparsifier.start(block), np.ones(block.values.shape[1], dtype=bool)
        if not error_feedback:
            state = {**state, "residual": np.zeros_like(block.values)}
        state, step = _advance(sparsifier, state, block, untouched)
        yield step


def replay_trace(
    sparsifier: Sparsifier,
    buckets: Sequence[Bucket],
    trace: Trace,
    workers: int | Sequence[int],
    error_feedback: bool = True,
) -> Iterator[list[Step]]:
    """Run `sparsifier` bucket by bucket over a recorded trace; one list of steps, in bucket order, per iteration.

    Every block of consecutive iterations starts from the residuals recorded with it, or from zero where there are none.
    Recorded residuals are those of the method of the recorded training, and so only a guess for any other method.
    """
    for number, (first, _) in enumerate(trace.spec.runs()):
        left = trace.residuals(number, workers) if error_feedback else None
        steps = replay_buckets(sparsifier, buckets, trace.blocks(workers, block=number), left, error_feedback)
        for place, each in enumerate(steps):
            yield [replace(step, iteration=first + place) for step in each]


def replay_buckets(
    sparsifier: Sparsifier,
    buckets: Sequence[Bucket],
    blocks: Iterable[Block],
    residual: Values | None = None,
    error_feedback: bool = True,
) -> Iterator[list[Step]]:
    """Run `sparsifier` bucket by bucket over whole-model blocks, starting from `residual` (n, m) of the whole model."""
    states: list[State] = []
    untouched: list[Mask] = []
    for block in blocks:
        parts = [block.part(bucket.layers, bucket.offset, bucket.pieces) for bucket in buckets]
        if not states:
            states = [sparsifier.start(part) for part in parts]
            if residual is not None:
                before = replace(block, values=residual)
                for state, bucket in zip(states, buckets, strict=True):
                    state["residual"] = before.part(bucket.layers, bucket.offset, bucket.pieces).values
            untouched = [np.ones(part.values.shape[1], dtype=bool) for part in parts]
        steps = []
        for place, part in enumerate(parts):
            if not error_feedback:
                states[place] = {**states[place], "residual": np.zeros_like(part.values)}
            states[place], step = _advance(sparsifier, states[place], part, untouched[place])
            steps.append(step)
        yield steps


def _advance(sparsifier: Sparsifier, state: State, block: Block, untouched: Mask) -> tuple[State, Step]:
    state, selection, u, choice = sparsifier.at(block.iteration).select(state, block)
    untouched &= ~(choice.sent != 0).any(axis=0)
    weight = block.weight
    step = Step(
        iteration=block.iteration,
        selection=selection,
        energy=_energy(u, block),
        lost=_energy(u, block, choice.sent),
        residual=_energy(state["residual"], block) / block.workers,
        never_sent=float(weight[untouched].sum()),
        numel=float(block.numel),
    )
    return state, step


def _energy(values: Values, block: Block, sent: Values | None = None) -> float:
    """Weighted sum of squares of `values` less `sent`, row by row, to need no second array of that size."""
    total = 0.0
    for worker, row in enumerate(values):
        rest = row if sent is None else row - sent[worker]
        total += float(np.dot(rest, rest) if not block.sampled else np.dot(np.square(rest, dtype=float), block.weight))
    return total


def add_steps(steps: Sequence[Step]) -> Step:
    """The steps of several buckets in one iteration as one step."""
    chosen = [step.selection for step in steps]
    selection = Selection(
        selected=np.sum([item.selected for item in chosen], axis=0),
        aggregated=math.fsum(item.aggregated for item in chosen),
        largest=math.fsum(item.largest for item in chosen),
        target=math.fsum(item.target for item in chosen),
        aggregated_error=float(np.hypot.reduce([item.aggregated_error for item in chosen])),
        exclusive=chosen[0].exclusive,
    )
    return Step(
        iteration=steps[0].iteration,
        selection=selection,
        energy=math.fsum(step.energy for step in steps),
        lost=math.fsum(step.lost for step in steps),
        residual=math.fsum(step.residual for step in steps),
        never_sent=math.fsum(step.never_sent for step in steps),
        numel=sum(step.numel for step in steps),
    )


def mean_selection(selections: Sequence[Selection]) -> Selection:
    """The mean of a bucket's selections over iterations, by which its exchange is priced."""
    return Selection(
        selected=np.mean([item.selected for item in selections], axis=0),
        aggregated=float(np.mean([item.aggregated for item in selections])),
        largest=float(np.mean([item.largest for item in selections])),
        target=float(np.mean([item.target for item in selections])),
        scanned=float(np.mean([item.scanned for item in selections])),
        passes=float(np.mean([item.passes for item in selections])),
        aggregated_error=float(np.mean([item.aggregated_error for item in selections])),
        detail={key: float(np.mean([item.detail[key] for item in selections])) for key in selections[0].detail},
        exclusive=selections[0].exclusive,
    )
