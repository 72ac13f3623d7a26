"""The figures of the counted iterations of a run."""

from __future__ import annotations

from array import array
from functools import cached_property
from statistics import fmean

import numpy as np

from simulator.models.curves import Floats
from simulator.models.sharding import AXES
from simulator.models.timeline import BREAKDOWN, Iteration

_FIGURES = ("communication_total", "communication_added_up", "waiting", "held_back")
_SLOWED = {term: f"slowed {term}" for term in BREAKDOWN}
_NAMES = (*_FIGURES, *BREAKDOWN, *_SLOWED.values(), *AXES)


class IterationFigures:
    """Times and terms of the counted iterations, and the last iteration; all of them where they are kept.

    `steps`: local steps that each of them holds; the figures are those of one step. `times` and `breakdown` are read
    after the last iteration was added. Where nothing but times is added, there are no terms.
    """

    def __init__(self, steps: int = 1) -> None:
        self.seconds, self.rows, self.steps = array("d"), array("d"), steps
        self.last: Iteration
        self.kept: list[Iteration] = []

    def add(self, item: Iteration | float, keep: bool = False) -> None:
        """Count one more, or one of which only its seconds are known."""
        self.seconds.append((item if isinstance(item, float) else item.time) / self.steps)
        if isinstance(item, float):
            return
        self.rows.extend(getattr(item, name) / self.steps for name in _FIGURES)
        self.rows.extend(item.breakdown[term] / self.steps for term in BREAKDOWN)
        self.rows.extend(item.slowed.get(term, 0.0) / self.steps for term in _SLOWED)
        self.rows.extend(item.exposed.get(axis, 0.0) / self.steps for axis in AXES)
        self.last = item
        if keep:
            self.kept.append(item)

    @cached_property
    def _means(self) -> dict[str, float]:
        return {name: fmean(self.rows[place :: len(_NAMES)]) for place, name in enumerate(_NAMES)}

    def mean(self, name: str) -> float:
        """Mean over the counted iterations."""
        return self._means[name]

    @cached_property
    def times(self) -> Floats:
        """Seconds of each counted iteration."""
        return np.array(self.seconds)

    @cached_property
    def breakdown(self) -> dict[str, float]:
        """Mean seconds of each term."""
        return {term: self.mean(term) for term in BREAKDOWN}

    @cached_property
    def slowed(self) -> dict[str, float]:
        """Mean seconds by which exchanges slow the tasks of each term down; together they are `slowdown`."""
        return {term: seconds for term, name in _SLOWED.items() if (seconds := self.mean(name))}

    @cached_property
    def timed(self) -> dict[str, float]:
        """Mean seconds of each term as a timer around its tasks measures them, and no `slowdown`."""
        with_slowdown = {term: self.breakdown[term] + seconds for term, seconds in self.slowed.items()}
        return self.breakdown | with_slowdown | {"slowdown": 0.0}
