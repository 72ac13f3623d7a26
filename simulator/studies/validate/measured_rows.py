"""Measured quantities of scenarios: whole iterations, phases and densities, and what a prediction says of each."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.errors import InputError, Problem
from simulator.prediction.result import RunResult
from simulator.prediction.run import Prediction
from simulator.records import Record
from simulator.scenario.scenario import Measured, Scenario
from simulator.units import count_of, show_time

ITERATION, THROUGHPUT = "iteration_time", "throughput"
WHOLE = (ITERATION, THROUGHPUT)
"""Quantities that say how long a whole iteration takes."""
DENSITIES = {"density_selected": "selected", "density_aggregated": "aggregated"}
"""Quantities that are shares of the elements, and their keys in the density of a result."""
PERIODS = ("synchronisation", "first_synchronisation")
"""Quantities of a period of local steps."""
TIMES = tuple(name for name in Measured.model_fields if name not in (THROUGHPUT, *DENSITIES, "source", "used_in_fit"))
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


def measured_values(scenario: Scenario) -> dict[str, float]:
    """The measured quantities above 0: shares, and times in seconds; a throughput as the time of an iteration.

    Seconds are the samples of all copies over the throughput. Where the iteration time is stated too, it alone counts.
    """
    stated = dict(scenario.measured.stated) if scenario.measured is not None else {}
    throughput = stated.pop(THROUGHPUT, None)
    if throughput is not None and ITERATION not in stated:
        stated = {THROUGHPUT: _seconds_of(scenario, throughput)} | stated
    return {name: value for name, value in stated.items() if value > 0}


def refuse_contradiction(scenario: Scenario, where: str = "measured") -> None:
    """Raise InputError where a throughput and an iteration time are stated that do not say the same."""
    stated = scenario.measured.stated if scenario.measured is not None else {}
    if not set(WHOLE) <= set(stated):
        return
    seconds = _seconds_of(scenario, stated[THROUGHPUT])
    if abs(seconds / stated[ITERATION] - 1) > TOLERANCE:
        batch = scenario.workload.batch_size
        samples, workers = count_of(batch, "sample"), count_of(scenario.samples // batch, "worker")
        what = f"an iteration time within {100 * TOLERANCE:g} % of {show_time(seconds)}"
        hint = f"{stated[THROUGHPUT]:g} samples/s are {samples} on each of {workers} in that time"
        raise InputError(Problem(where, what, show_time(stated[ITERATION]), hint))


def _seconds_of(scenario: Scenario, throughput: float) -> float:
    """Seconds of an iteration: the samples of all copies of the model over samples per second."""
    return scenario.samples / throughput


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


def is_used_in_fit(measured: Measured, quantity: str) -> bool:
    """Whether a constant was fitted to this quantity; iteration time and throughput are the same measurement."""
    if isinstance(measured.used_in_fit, bool):
        return measured.used_in_fit
    return any(name in measured.used_in_fit for name in (WHOLE if quantity in WHOLE else (quantity,)))


def _of_period(quantity: str, result: RunResult) -> float:
    value = None if result.period is None else getattr(result.period, quantity)
    if value is None:
        what = f"a scenario whose result has period.{quantity}_s"
        hint = "the scheduler needs local steps, and the network a transport that states its `set_up`"
        raise InputError(Problem("measured", what, f"'{result.name}'", hint))
    return float(value)


def predicted_value(quantity: str, prediction: Prediction) -> float:
    """What a prediction gives for a measured quantity: seconds, or a share."""
    result = prediction.result
    if quantity in WHOLE:
        return result.iteration_time
    if quantity in DENSITIES:
        return float(getattr(result.density, DENSITIES[quantity]))
    if quantity in PERIODS:
        return _of_period(quantity, result)
    breakdown = prediction.simulated.figures.timed  # so does a measured phase have what slows it down
    # A timer around a collective includes waiting for the slowest worker.
    waiting = breakdown["idle"] - prediction.plan.work.input_time
    if quantity == "communication":
        return result.communication_total + waiting
    if quantity == "exposed_communication":
        return float(breakdown["communication_exposed"] + waiting)
    return float(breakdown[quantity])
