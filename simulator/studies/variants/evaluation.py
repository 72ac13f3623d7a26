"""Scenarios of a study are predicted together; what is refused stands in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from simulator.errors import InputError, map_unless_refused, unless_refused
from simulator.prediction.run import Prediction, run_batch, with_responses_of
from simulator.scenario.scenario import Scenario

Intervals = Literal["full", "first_order", "none"]
"""From simulating both ends of each input; from the seconds that each input decides; not at all."""


def evaluate(scenarios: Sequence[Scenario], intervals: Intervals = "first_order") -> list[Prediction | InputError]:
    """The prediction of each scenario in order, or why its parts cannot work together.

    Scenarios that share work are priced and simulated together, so that a batch is faster than one by one; each
    prediction is that of the scenario by itself.
    """
    made = run_batch(scenarios, intervals=intervals != "none")
    return map_unless_refused(with_responses_of, made) if intervals == "full" else made


def evaluate_all(scenarios: Sequence[Scenario], intervals: Intervals = "first_order") -> list[Prediction]:
    """The prediction of each scenario in order. Raises the InputError of the first one that is refused."""
    return [unless_refused(item) for item in evaluate(scenarios, intervals)]
