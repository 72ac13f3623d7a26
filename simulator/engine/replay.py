"""Replay: the algorithm of a sparsifier runs on the recorded gradients of every worker, with error feedback."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from simulator.models.exchange import Selection
from simulator.models.gradients import ALL, Block, Mask, State, Values
from simulator.models.sampling import sums_of_squares
from simulator.records import Record
from simulator.sparsifiers.base import Sparsifier


class ReplayedStep(Record):
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


class Replay:
    """A method at work on the gradients of one bucket; `advance` takes one iteration.

    Its state (residual, momentum, thresholds, borders) lives through all iterations, whatever their numbers are, and so
    does the record of what no worker has sent. Warm-ups and rotations follow the numbers. Without error feedback the
    residual is emptied before every iteration, so that u is the gradient. `groups` of the workers, of each of which
    there is a step, are for methods whose workers select alone.
    """

    def __init__(self, sparsifier: Sparsifier, error_feedback: bool = True, groups: Sequence[slice] = (ALL,)) -> None:
        self.sparsifier = sparsifier
        self.error_feedback = error_feedback
        self.groups = groups
        self._state: State | None = None
        self._untouched: list[Mask] = []

    def advance(self, block: Block, residual: Values | None = None) -> ReplayedStep:
        """Select from one iteration's gradients; `residual` (n, m), if given, takes the place of the method's own."""
        return self.advance_groups(block, residual)[0]

    def advance_groups(self, block: Block, residual: Values | None = None) -> list[ReplayedStep]:
        """The step of each group of workers, as `advance` makes it."""
        if self._state is None:
            self._state = self.sparsifier.start(block)
            self._untouched = [np.ones(block.values.shape[1], dtype=bool) for _ in self.groups]
        if not self.error_feedback:
            self._state["residual"].fill(0)
        elif residual is not None:
            self._state["residual"][:] = self.sparsifier.encode(residual, block)
        member = self.sparsifier.at(block.iteration)
        done = member.select(self._state, block)
        kept = self._state["residual"]
        # Where the residual is all that is left of u, its squares are known.
        weight, known = block.weight_of(ALL), kept is done.left
        residuals = done.losses if known else sums_of_squares(kept, weight)
        groups = list(zip(self.groups, self._untouched, strict=True))
        for worker, (places, values) in enumerate(zip(done.choice.sent_places, done.sent, strict=True)):
            touched = np.flatnonzero(values)
            touched = touched if isinstance(places, slice) else places[touched]
            for group, untouched in groups:
                if worker in range(block.workers)[group]:
                    untouched[touched] = False
        return [
            ReplayedStep(
                iteration=block.iteration,
                selection=done.selection if group == ALL else member.counted(done.choice.of(group), block),
                energy=math.fsum(done.energies[group]),
                lost=math.fsum(done.losses[group]),
                residual=math.fsum(residuals[group]) / len(residuals[group]),
                never_sent=float(block.weight[untouched].sum() if block.sampled else untouched.sum()),
                numel=float(block.numel),
            )
            for group, untouched in groups
        ]


def replay(sparsifier: Sparsifier, blocks: Iterable[Block], error_feedback: bool = True) -> Iterator[ReplayedStep]:
    """Run `sparsifier` over the iterations of one bucket, in order."""
    return map(Replay(sparsifier, error_feedback).advance, blocks)


def add_steps(steps: Sequence[ReplayedStep]) -> ReplayedStep:
    """The steps of several buckets in one iteration as one step."""
    chosen = [step.selection for step in steps]
    counts: dict[str, Any] = {name: math.fsum(_values(chosen, name)) for name in ("aggregated", "largest", "target")}
    energies = {name: math.fsum(_values(steps, name)) for name in ("energy", "lost", "residual", "never_sent")}
    return ReplayedStep(
        iteration=steps[0].iteration,
        selection=Selection(
            selected=np.sum([item.selected for item in chosen], axis=0),
            **counts,
            aggregated_error=float(np.hypot.reduce(_values(chosen, "aggregated_error"))),
            exclusive=chosen[0].exclusive,
        ),
        **energies,
        numel=sum(step.numel for step in steps),
    )


def mean_selection(selections: Sequence[Selection]) -> Selection:
    """The mean of a bucket's selections over iterations, by which its exchange is priced."""
    names = ("aggregated", "largest", "target", "scanned", "passes", "aggregated_error")
    means: dict[str, Any] = {name: float(np.mean(_values(selections, name))) for name in names}
    return Selection(
        selected=np.mean([item.selected for item in selections], axis=0),
        **means,
        detail={key: float(np.mean([item.detail[key] for item in selections])) for key in selections[0].detail},
        exclusive=selections[0].exclusive,
    )


def _values(items: Sequence[object], name: str) -> list[float]:
    """A field of each."""
    return [getattr(item, name) for item in items]
