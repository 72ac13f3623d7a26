"""What was measured of a scenario, in seconds or shares, and what a simulation gives for it."""

from __future__ import annotations

from collections.abc import Mapping

from simulator.prediction.simulated import Simulated
from simulator.scenario.scenario import NO_SECONDS, Measured, Scenario

ITERATION, THROUGHPUT = "iteration_time", "throughput"
WHOLE = (ITERATION, THROUGHPUT)
"""Quantities that say how long a whole iteration takes."""


def measured_values(scenario: Scenario) -> dict[str, float]:
    """The measured quantities above 0: shares, and times in seconds; a throughput as the time of an iteration.

    Seconds are the samples of all copies over the throughput. Where the iteration time is stated too, it alone counts.
    """
    values = {} if scenario.measured is None else _values(scenario.measured, scenario)
    return {name: value for name, value in values.items() if value > 0}


def _values(measured: Measured, scenario: Scenario) -> dict[str, float]:
    stated = measured.stated
    throughput = stated.pop(THROUGHPUT, None)
    if throughput is not None and ITERATION not in stated:
        stated = {THROUGHPUT: seconds_of(scenario, throughput)} | stated
    return stated


def conditioning_values(measured: Measured, at: Scenario) -> dict[str, float]:
    """The seconds that a measurement says of the scenario that it was taken of, which its doubts are narrowed by.

    A phase of 0 says that all of it is hidden, within a noise that is a share of the whole iteration. Nothing where
    constants were fitted to it: what it says is in them already.
    """
    values = _values(measured, at)
    return {key: each for key, each in values.items() if key not in NO_SECONDS and not is_used_in_fit(measured, key)}


def is_used_in_fit(measured: Measured, quantity: str) -> bool:
    """Whether a constant was fitted to this quantity; iteration time and throughput are the same measurement."""
    if isinstance(measured.used_in_fit, bool):
        return measured.used_in_fit
    return any(name in measured.used_in_fit for name in (WHOLE if quantity in WHOLE else (quantity,)))


def seconds_of(scenario: Scenario, throughput: float) -> float:
    """Seconds of an iteration: the samples of all copies of the model over samples per second."""
    return scenario.samples / throughput


def simulated_seconds(quantity: str, made: Simulated) -> float:
    """What a simulation gives for a measured time of an iteration or of a phase of it."""
    figures = made.figures
    if quantity in WHOLE:
        return float(figures.times.mean())
    breakdown: Mapping[str, float] = figures.timed  # so does a measured phase have what slows it down
    # A timer around a collective includes waiting for the slowest worker.
    waiting = breakdown["idle"] - made.plan.work.input_time
    if quantity == "communication":
        return figures.mean("communication_total") + waiting
    if quantity == "exposed_communication":
        return breakdown["communication_exposed"] + waiting
    return breakdown[quantity]
