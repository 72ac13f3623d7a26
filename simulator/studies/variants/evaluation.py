"""Scenarios of a study are predicted together; what is refused stands in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from simulator.errors import InputError
from simulator.prediction.run import Prediction, run_batch, with_responses_of
from simulator.scenario.scenario import Scenario

Intervals = Literal["first_order", "full", "none"]
"""From the seconds that each input decides; from simulating both ends of each input; not at all."""


def evaluate(scenarios: Sequence[Scenario], intervals: Intervals = "first_order") -> list[Prediction | InputError]:
    """The prediction of each scenario in order, or why its parts cannot work together.

    Scenarios that share work are priced and simulated together, so that a batch is faster than one by one; each
    prediction is that of the scenario by itself.
    """
    made = run_batch(scenarios, intervals=intervals != "none")
    if intervals != "full":
        return made
    closer = iter(with_responses_of([item for item in made if not isinstance(item, InputError)]))
    return [item if isinstance(item, InputError) else next(closer) for item in made]


def evaluate_all(scenarios: Sequence[Scenario], intervals: Intervals = "first_order") -> list[Prediction]:
    """The prediction of each scenario in order. Raises the InputError of the first one that is refused."""
    made = []
    for item in evaluate(scenarios, intervals):
        if isinstance(item, InputError):
            raise item
        made.append(item)
    return made
