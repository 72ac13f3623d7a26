"""Measured quantities of scenarios: whole iterations, phases and densities, and what a prediction says of each."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.errors import InputError, Problem
from simulator.prediction.measured import (
    ITERATION,
    THROUGHPUT,
    WHOLE,
    is_used_in_fit,
    measured_values,
    seconds_of,
    simulated_seconds,
)
from simulator.prediction.run import Prediction
from simulator.records import Record
from simulator.scenario.scenario import DENSITIES, NO_QUANTITIES, PERIODS, Measured, Scenario
from simulator.units import count_of, show_time

TIMES = tuple(name for name in Measured.model_fields if name not in (THROUGHPUT, *DENSITIES, *NO_QUANTITIES))
"""Quantities that are seconds of an iteration or of a phase of it."""
TOLERANCE = 0.01
"""By how much a stated throughput and a stated iteration time may differ, relative to the time."""


class MeasuredRow(Record, eq=False):
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


def refuse_contradiction(scenario: Scenario, where: str = "measured") -> None:
    """Raise InputError where a throughput and an iteration time are stated that do not say the same."""
    stated = scenario.measured.stated if scenario.measured is not None else {}
    if not set(WHOLE) <= set(stated):
        return
    seconds = seconds_of(scenario, stated[THROUGHPUT])
    if abs(seconds / stated[ITERATION] - 1) > TOLERANCE:
        batch = scenario.workload.batch_size
        samples, workers = count_of(batch, "sample"), count_of(scenario.samples // batch, "worker")
        what = f"an iteration time within {100 * TOLERANCE:g} % of {show_time(seconds)}"
        hint = f"{stated[THROUGHPUT]:g} samples/s are {samples} on each of {workers} in that time"
        raise InputError(Problem(where, what, show_time(stated[ITERATION]), hint))


def measured_rows(scenarios: Sequence[Scenario], fit_to: Sequence[str] = ()) -> list[MeasuredRow]:
    """Every measured time above 0. Fitted are those marked `used_in_fit`, or the quantities of `fit_to` if given.

    A mark without names of quantities is for whole iterations, and for the phases where no whole one was measured. A
    throughput is a time of whole iterations like any other.
    """
    made = []
    for scenario in scenarios:
        values = measured_values(scenario)
        for name, value in values.items():
            if name not in DENSITIES and scenario.measured is not None:
                quantity = ITERATION if name == THROUGHPUT else name
                whole = any(item in values for item in WHOLE)
                chosen = quantity in fit_to if fit_to else _is_marked(scenario.measured, name, whole)
                made.append(MeasuredRow(scenario, quantity, value, chosen))
    return made


def _is_marked(measured: Measured, quantity: str, whole: bool) -> bool:
    """A mark of the whole scenario is for its iteration, which is the sum of its phases."""
    if measured.used_in_fit is True and whole and quantity not in WHOLE:
        return False
    return is_used_in_fit(measured, quantity)


def predicted_value(quantity: str, prediction: Prediction) -> float:
    """What a prediction gives for a measured quantity: seconds, or a share."""
    if quantity in DENSITIES:
        return float(getattr(prediction.result.density, DENSITIES[quantity]))
    if quantity in PERIODS:
        value = getattr(prediction.result.period, quantity, None)
        if value is None:
            what = f"a scenario whose result has period.{quantity}_s"
            hint = "the scheduler needs local steps, and the network a transport that states its `set_up`"
            raise InputError(Problem("measured", what, f"'{prediction.result.name}'", hint))
        return float(value)
    return simulated_seconds(quantity, prediction.simulated)
