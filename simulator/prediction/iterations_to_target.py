"""How many iterations a method needs to a target: given, or known to whoever asks, with what they may be off by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from simulator.prediction.doubts.spread import Response, Spread
from simulator.records import Record, replace
from simulator.scenario.scenario import Scenario
from simulator.scenario.titles import method_name


class Iterations(Record):
    """How many iterations a method needs to the target, and how far that may be off; none where it is given exactly."""

    value: float
    responses: tuple[Response, ...] = ()

    def spread(self, iteration: Spread) -> Spread:
        """The time to the target: both errors together, which are independent of each other."""
        # What was seen of errors of iteration times says nothing of how many iterations it takes: that stays as it is.
        whole = iteration.tails.stretch[90]
        own = (it._replace(low=it.low / whole, high=it.high / whole, as_stated=True) for it in self.responses)
        return replace(iteration, time=self.value * iteration.time, responses=(*iteration.responses, *own))

    @property
    def interval(self) -> tuple[float, float]:
        """Between what the iterations lie in nine of ten cases."""
        return Spread(self.value, self.responses).interval()


class IterationsOf(Protocol):
    """What says how many iterations a scenario's method needs."""

    def of(self, scenario: Scenario) -> Iterations | None:
        """None where that is not known."""

    def warnings(self, scenario: Scenario) -> list[str]:
        """What a reader should know of them."""


class GivenIterations(Record):
    """Iterations that somebody stated, by method (`topk`, or `topk 0.01` for one density)."""

    by_method: Mapping[str, float]

    def of(self, scenario: Scenario) -> Iterations | None:
        """Those of the method at its density, else those of its kind."""
        value = self.by_method.get(method_name(scenario), self.by_method.get(scenario.sparsifier.kind))
        return None if value is None else Iterations(value)

    def warnings(self, scenario: Scenario) -> list[str]:
        """None: who states a number knows what it is of."""
        return []
