"""Run a scenario: plan it, simulate it, and describe the outcome in the result document that scripts rely on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from simulator.engine.clock.iterations import simulate_all
from simulator.engine.plan.plan import OtherJobPlan, Plan, plan_jobs
from simulator.engine.plan.seating import seat_jobs
from simulator.models.curves import Floats
from simulator.models.timeline import Iteration
from simulator.prediction.data_loading import with_loading
from simulator.prediction.draws import draw_differences
from simulator.prediction.evidence import Evidence, collect_evidence
from simulator.prediction.job_setup import job_setup
from simulator.prediction.recorded_inputs import recorded_inputs
from simulator.prediction.refusals import as_input_error
from simulator.prediction.result import IterationFigures, result_document
from simulator.scenario.scenario import Scenario


@dataclass(slots=True)
class Prediction:
    """A scenario's outcome: the result document, the last iteration and, where they were asked for, all counted ones.

    Where all workers are alike, one iteration stands for all.
    """

    scenario: Scenario
    document: dict[str, Any]
    iteration: Iteration
    plan: Plan = field(repr=False)
    times: Floats = field(repr=False)
    evidence: list[Evidence] = field(repr=False)
    iterations: tuple[Iteration, ...] = field(default=(), repr=False)


def run(scenario: Scenario, keep_iterations: bool = False) -> Prediction:
    """Predict one scenario; `keep_iterations`: with every iteration's spans, for a timeline.

    A scenario in which all workers are alike repeats itself, so one iteration stands for all; with random differences
    between workers `warmup` draws are discarded and `iterations` are averaged.

    Raises InputError where the parts of the scenario cannot work together.
    """
    with as_input_error(scenario):
        setup, other_jobs = job_setup(scenario)
        seating = seat_jobs(setup, other_jobs)
        recorded = recorded_inputs(scenario, setup, seating.network)
        plan, other_plans = plan_jobs(recorded.applied_to(setup), seating, other_jobs)
        plan = with_loading(plan, scenario)
        figures = _simulate(scenario, plan, other_plans, keep_iterations)
    evidence = collect_evidence(scenario, plan, figures.breakdown)
    document = result_document(scenario, plan, figures, evidence, recorded)
    return Prediction(scenario, document, figures.last, plan, figures.times, evidence, tuple(figures.kept))


def plan_of(scenario: Scenario) -> Plan:
    """The plan of one iteration, with selections in closed form. Raises InputError where parts cannot work together."""
    return plans_of(scenario)[0]


def plans_of(scenario: Scenario) -> tuple[Plan, list[OtherJobPlan]]:
    """The same, with the plans of other jobs."""
    with as_input_error(scenario):
        setup, other_jobs = job_setup(scenario)
        plan, other_plans = plan_jobs(setup, seat_jobs(setup, other_jobs), other_jobs)
        return with_loading(plan, scenario), other_plans


def _simulate(scenario: Scenario, plan: Plan, other_plans: Sequence[OtherJobPlan], keep: bool) -> IterationFigures:
    """The figures of every counted iteration."""
    figures, consecutive = IterationFigures(), bool(other_plans) or plan.remembers
    iterations = simulate_all(plan, draw_differences(scenario, plan, consecutive), other_plans, keep)
    for iteration in islice(iterations, scenario.warmup if consecutive else 0, None):
        figures.add(iteration, keep)
    return figures
