"""Run a scenario: plan it, simulate it, and describe the outcome in the result document that scripts rely on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from simulator.engine.plan.plan import OtherJobPlan, Plan, plan_jobs
from simulator.engine.plan.seating import seat_jobs
from simulator.models.curves import Floats
from simulator.models.timeline import Iteration
from simulator.prediction.data_loading import with_loading
from simulator.prediction.job_setup import job_setup
from simulator.prediction.memory.memory import refuse_what_does_not_fit
from simulator.prediction.refusals import as_input_error
from simulator.prediction.result import interval_keys, result_document
from simulator.prediction.simulated import Simulated, simulate_scenario
from simulator.prediction.uncertainty.collect import collect_inputs
from simulator.prediction.uncertainty.inputs import UncertainInput
from simulator.prediction.uncertainty.own_error import shipped_tails
from simulator.prediction.uncertainty.responses import respond, respond_linearly
from simulator.prediction.uncertainty.spread import Spread
from simulator.prediction.warnings.collect import warning_keys
from simulator.scenario.scenario import Scenario


@dataclass(slots=True)
class Prediction:
    """A scenario's outcome: the result document, the last iteration and, where they were asked for, all counted ones.

    Where all workers are alike, one iteration stands for all. `inputs`: the figures that it rests on; `spread`: how
    wrong it may be, to first order unless `with_responses` was asked. `simulated`: what all of this was made of.
    """

    scenario: Scenario
    document: dict[str, Any]
    iteration: Iteration
    plan: Plan = field(repr=False)
    times: Floats = field(repr=False)
    inputs: list[UncertainInput] = field(repr=False)
    spread: Spread = field(repr=False)
    simulated: Simulated = field(repr=False)
    iterations: tuple[Iteration, ...] = field(default=(), repr=False)


def run(scenario: Scenario, keep_iterations: bool = False, intervals: bool = True) -> Prediction:
    """Predict one scenario; `keep_iterations`: with every iteration's spans, for a timeline.

    Without `intervals` no uncertain input is looked at, and only single iterations differ.

    A scenario in which all workers are alike repeats itself, so one iteration stands for all; with random differences
    between workers `warmup` draws are discarded and `iterations` are averaged. Intervals are those of first order, as
    studies of many runs need them: `with_responses` gives better ones.

    Raises InputError where the parts of the scenario cannot work together, or do not fit into the memory of a GPU.
    """
    made = simulate_scenario(scenario, keep_iterations)
    plan, figures = made.plan, made.figures
    refuse_what_does_not_fit(scenario, made.memory, plan)
    inputs = collect_inputs(scenario, plan, figures.breakdown, made.recorded) if intervals else []
    time = float(figures.times.mean())
    spread = Spread(time, tuple(respond_linearly(inputs, time)), _single_iterations(figures.times), shipped_tails())
    document = result_document(scenario, made, inputs, spread)
    return Prediction(scenario, document, figures.last, plan, figures.times, inputs, spread, made, tuple(figures.kept))


def with_responses(prediction: Prediction) -> Prediction:
    """The prediction with what follows from simulating both ends of each uncertain input: intervals, sized warnings."""
    responses = respond(prediction.scenario, prediction.plan, prediction.inputs, prediction.spread.time)
    spread = replace(prediction.spread, responses=tuple(responses))
    sized = warning_keys(prediction.scenario, prediction.simulated, spread)
    return replace(prediction, spread=spread, document={**prediction.document, **interval_keys(spread), **sized})


def plan_of(scenario: Scenario) -> Plan:
    """The plan of one iteration, with selections in closed form. Raises InputError where parts cannot work together."""
    return plans_of(scenario)[0]


def plans_of(scenario: Scenario) -> tuple[Plan, list[OtherJobPlan]]:
    """The same, with the plans of other jobs."""
    with as_input_error(f"scenario '{scenario.name}'"):
        setup, other_jobs = job_setup(scenario)
        plan, other_plans = plan_jobs(setup, seat_jobs(setup, other_jobs), other_jobs)
        return with_loading(plan, scenario), other_plans


def _single_iterations(times: Floats) -> tuple[float, float]:
    """ln of the 5th and of the 95th percentile of single iterations over their mean."""
    if len(times) < 2 or not times.all():
        return 0.0, 0.0
    low, high = np.percentile(times, (5, 95)).tolist()
    mean = float(times.mean())
    return math.log(low / mean), math.log(high / mean)
