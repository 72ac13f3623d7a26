"""The figures of the counted iterations of a run."""

from __future__ import annotations

import math
from array import array
from functools import cached_property

import numpy as np

from simulator.models.curves import Floats
from simulator.models.terms import BREAKDOWN
from simulator.models.timeline import Iteration


class IterationFigures:
    """Times and terms of the counted iterations, and the last iteration; all of them where they are kept.

    `times` and `breakdown` are read after the last iteration was added.
    """

    def __init__(self) -> None:
        self.of = {
            name: array("d")
            for name in ("time", "communication_total", "communication_added_up", "waiting", *BREAKDOWN)
        }
        self.last: Iteration
        self.kept: list[Iteration] = []

    def add(self, item: Iteration, keep: bool) -> None:
        """Count one more."""
        for name, value in self.of.items():
            value.append(item.breakdown[name] if name in item.breakdown else getattr(item, name))
        self.last = item
        if keep:
            self.kept.append(item)

    def mean(self, name: str) -> float:
        """Mean over the counted iterations."""
        return math.fsum(self.of[name]) / len(self.of[name])

    @cached_property
    def times(self) -> Floats:
        """Seconds of each counted iteration."""
        return np.array(self.of["time"])

    @cached_property
    def breakdown(self) -> dict[str, float]:
        """Mean seconds of each term."""
        return {term: self.mean(term) for term in BREAKDOWN}
