"""A scenario, simulated: its plan, and the figures of its counted iterations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from simulator.engine.clock.iterations import simulate_all
from simulator.engine.plan.plan import OtherJobPlan, Plan, plan_jobs
from simulator.engine.plan.seating import seat_jobs
from simulator.prediction.data_loading import with_loading
from simulator.prediction.draws import draw_differences
from simulator.prediction.figures import IterationFigures
from simulator.prediction.job_setup import job_setup
from simulator.prediction.memory.memory import Memory, memory_of
from simulator.prediction.recorded_inputs import RecordedInputs, recorded_inputs
from simulator.prediction.refusals import as_input_error
from simulator.scenario.changes import without_randomness
from simulator.scenario.scenario import Scenario


@dataclass(frozen=True)
class Simulated:
    """A scenario with its plan, the figures of its counted iterations, and what its trace gave."""

    scenario: Scenario
    plan: Plan
    figures: IterationFigures
    recorded: RecordedInputs

    @cached_property
    def memory(self) -> Memory:
        """The memory of a worker."""
        return memory_of(self.scenario, self.plan)


def simulate_scenario(scenario: Scenario, keep_iterations: bool = False) -> Simulated:
    """Plan and simulate a scenario. Raises InputError where its parts cannot work together."""
    with as_input_error(f"scenario '{scenario.name}'"):
        setup, other_jobs = job_setup(scenario)
        seating = seat_jobs(setup, other_jobs)
        recorded = recorded_inputs(scenario, setup, seating.network)
        plan, other_plans = plan_jobs(recorded.applied_to(setup), seating, other_jobs)
        plan = with_loading(plan, scenario)
        figures = _simulate(scenario, plan, other_plans, keep_iterations)
        return Simulated(scenario, plan, figures, recorded)


def steady_time(scenario: Scenario) -> float:
    """Seconds of one iteration without random differences. Raises InputError as `simulate_scenario` does."""
    return float(simulate_scenario(without_randomness(scenario)).figures.times.mean())


def _simulate(
    scenario: Scenario, plan: Plan, other_plans: Sequence[OtherJobPlan], keep_iterations: bool
) -> IterationFigures:
    """The figures of every counted iteration."""
    figures, consecutive = IterationFigures(), bool(other_plans) or plan.remembers
    iterations = simulate_all(plan, draw_differences(scenario, plan, consecutive), other_plans, keep_iterations)
    for iteration in islice(iterations, scenario.warmup if consecutive else 0, None):
        figures.add(iteration, keep_iterations)
    return figures
