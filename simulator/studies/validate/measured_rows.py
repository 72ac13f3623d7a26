"""Measured times of scenarios, whole iterations and phases, and what a prediction says of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simulator.prediction.run import Prediction
from simulator.scenario.scenario import Measured, Scenario

QUANTITIES = ("iteration_time", "forward", "backward", "selection", "communication", "combine", "update")


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredRow:
    """One measured time of one scenario, in seconds. `fitted`: whether constants are fitted to it."""

    scenario: Scenario
    quantity: str
    seconds: float
    fitted: bool

    @property
    def set_up(self) -> str:
        """Model and cluster: rows of one set-up share what is wrong with either."""
        cluster = self.scenario.cluster
        return " on ".join((self.scenario.workload.name, f"{cluster.gpu.name}, {cluster.network.name}"))


def has_times(measured: Measured | None) -> bool:
    """Whether `measured:` says more than its source."""
    return measured is not None and measured != Measured(source=measured.source)


def measured_rows(scenarios: Sequence[Scenario], fit_to: Sequence[str] = ()) -> list[MeasuredRow]:
    """Every measured time above 0. Fitted are those marked `used_in_fit`, or the quantities of `fit_to` if given.

    A mark without names of quantities is for whole iterations, and for the phases where no whole one was measured.
    """
    made = []
    for scenario in scenarios:
        measured = scenario.measured
        for quantity in QUANTITIES if measured is not None else ():
            seconds = getattr(measured, quantity)
            if measured is not None and seconds:
                chosen = quantity in fit_to if fit_to else _is_marked(measured, quantity)
                made.append(MeasuredRow(scenario, quantity, float(seconds), chosen))
    return made


def _is_marked(measured: Measured, quantity: str) -> bool:
    """A mark of the whole scenario is for its iteration, which is the sum of its phases."""
    if measured.used_in_fit is True and measured.iteration_time and quantity != "iteration_time":
        return False
    return is_used_in_fit(measured, quantity)


def is_used_in_fit(measured: Measured, quantity: str) -> bool:
    """Whether a constant was fitted to this time."""
    return measured.used_in_fit if isinstance(measured.used_in_fit, bool) else quantity in measured.used_in_fit


def predicted_time(quantity: str, prediction: Prediction) -> float:
    """Seconds that a prediction gives for a measured quantity."""
    breakdown = prediction.document["breakdown_s"]
    if quantity == "iteration_time":
        return float(prediction.document["iteration_time_s"])
    if quantity == "communication":
        # A timer around a collective includes waiting for the slowest worker.
        return float(breakdown["communication_exposed"] + breakdown["idle"] - prediction.plan.work.input_time)
    return float(breakdown[quantity])
