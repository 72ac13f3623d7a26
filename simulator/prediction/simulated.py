"""A scenario, simulated: its plan, and the figures of its counted iterations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice

from simulator.engine.clock.draws import Draws
from simulator.engine.clock.numbers import Point
from simulator.engine.clock.run_points import run_in_a_row, run_points
from simulator.engine.plan.plan import OtherJobPlan, Plan, plan_jobs
from simulator.engine.plan.setup import Setup, seat_jobs
from simulator.engine.plan.work.division import divide_together
from simulator.engine.plan.work.work import Work, prepare_work
from simulator.engine.refusals import as_input_error
from simulator.errors import InputError
from simulator.prediction.data_loading import with_loading
from simulator.prediction.draws import draw_differences
from simulator.prediction.figures import IterationFigures
from simulator.prediction.job_setup import job_setups
from simulator.prediction.memory.memory import Memory, memory_of
from simulator.prediction.recorded_inputs import RecordedInputs, recorded_inputs
from simulator.prediction.refusals import refuse_overfull_links
from simulator.records import Record
from simulator.scenario.scenario import Scenario


class Simulated(Record, dict=True):
    """A scenario with its plan, the figures of its counted iterations, and what its trace gave."""

    scenario: Scenario
    plan: Plan
    figures: IterationFigures
    recorded: RecordedInputs

    @cached_property
    def memory(self) -> Memory:
        """The memory of a worker."""
        return memory_of(self.scenario, self.plan)

    @property
    def is_steady(self) -> bool:
        """Whether it is one iteration, by itself, in which all workers keep to their mean."""
        scenario, plan = self.scenario, self.plan
        return not (self.is_random or scenario.cluster.stragglers.slow or scenario.other_jobs or plan.remembers)

    @property
    def is_random(self) -> bool:
        """Whether workers differ from iteration to iteration."""
        return self.scenario.cluster.stragglers.jitter > 0 or bool(self.plan.work.selection_spread.any())


def simulate_scenario(scenario: Scenario, keep_iterations: bool = False) -> Simulated:
    """Plan and simulate a scenario. Raises InputError where its parts cannot work together."""
    (made,) = _simulate_all([scenario], keep_iterations)
    if isinstance(made, InputError):
        raise made
    return made


def simulate_batch(scenarios: Sequence[Scenario]) -> list[Simulated | InputError]:
    """Many scenarios in one evaluation; an error in the place of each that cannot be simulated.

    The same as `simulate_scenario` for each by itself. Exchanges that are sent alike are priced together, and
    iterations of the same form run together, so that hundreds of scenarios at once are faster than a few.
    """
    return _simulate_all(scenarios, keep_iterations=False)


class _Draft(Record):
    """A scenario with the work of its jobs, its own first and then the others, whose exchanges have no prices yet."""

    scenario: Scenario
    jobs: list[tuple[Setup, Work]]
    recorded: RecordedInputs


class _Seated(Record):
    """A scenario whose jobs have places on the network, and no plans yet."""

    scenario: Scenario
    jobs: list[Setup]
    recorded: RecordedInputs


_FEW_DRAWS = 2**14
"""Iterations of a scenario times its workers that are simulated together with those of others."""


def _simulate_all(scenarios: Sequence[Scenario], keep_iterations: bool) -> list[Simulated | InputError]:
    made: dict[int, Simulated | InputError] = {}
    seated: dict[int, _Seated] = {}
    drafts: dict[int, _Draft] = {}
    for number, scenario in enumerate(scenarios):
        try:
            seated[number] = _seat(scenario)
        except InputError as error:
            made[number] = error
    with suppress(InputError), as_input_error("scenarios"):  # which one cannot be divided is found below
        divide_together([each.jobs[0] for each in seated.values()])
    for number, each in seated.items():
        try:
            drafts[number] = _draft(each)
        except InputError as error:
            made[number] = error
    planned: dict[int, Plan] = {}
    together = list[tuple[int, Point]]()
    for (number, draft), plans in zip(drafts.items(), _finish([*drafts.values()]), strict=True):
        try:
            if isinstance(plans, InputError):
                raise plans
            with as_input_error(f"scenario '{draft.scenario.name}'"):
                plan = with_loading(plans[0], draft.scenario)
                starts = [setup.start for setup, _ in draft.jobs[1:]]
                others = [OtherJobPlan(*item) for item in zip(plans[1:], starts, strict=True)]
                consecutive = bool(others) or plan.remembers
                draws = draw_differences(draft.scenario, plan, consecutive)
                few = draft.scenario.iterations * draft.scenario.cluster.workers <= _FEW_DRAWS
                if (
                    (few or isinstance(draws, list))
                    and not (plan.live or consecutive or keep_iterations)
                    and (not plan.period or len(draws := list(draws)) == 1)
                ):
                    planned[number] = plan
                    together += [(number, (plan, each)) for each in draws]
                    continue
                figures = _simulate(draft.scenario, plan, others, draws, keep_iterations)
            made[number] = _checked(draft, plan, figures)
        except InputError as error:
            made[number] = error
    counted = {number: IterationFigures(plan.steps) for number, plan in planned.items()}
    for (number, _), iteration in zip(together, run_points([point for _, point in together]), strict=True):
        counted[number].add(iteration)
    for number, plan in planned.items():
        try:
            made[number] = _checked(drafts[number], plan, counted[number])
        except InputError as error:
            made[number] = error
    return [made[number] for number in range(len(scenarios))]


def _seat(scenario: Scenario) -> _Seated:
    """The scenario up to the division of its gradients."""
    with as_input_error(f"scenario '{scenario.name}'"):
        setup, *others = seat_jobs(job_setups(scenario))
        recorded = recorded_inputs(scenario, setup)
        return _Seated(scenario, [recorded.applied_to(setup), *others], recorded)


def _draft(seated: _Seated) -> _Draft:
    """The scenario up to the prices of its exchanges."""
    with as_input_error(f"scenario '{seated.scenario.name}'"):
        return _Draft(seated.scenario, [(job, prepare_work(job)) for job in seated.jobs], seated.recorded)


def _checked(draft: _Draft, plan: Plan, figures: IterationFigures) -> Simulated:
    """What was simulated. Raises InputError where it cannot be, because an asked-for fold is not valid."""
    refuse_overfull_links(draft.scenario, plan, float(figures.times.mean()))
    return Simulated(draft.scenario, plan, figures, draft.recorded)


def _finish(drafts: Sequence[_Draft]) -> list[list[Plan] | InputError]:
    """The plans of each scenario; where something is refused, halves are tried until it is alone."""
    if not drafts:
        return []
    try:
        with as_input_error(f"scenario '{drafts[0].scenario.name}'"):
            plans = iter(plan_jobs([job for draft in drafts for job in draft.jobs]))
            return [[next(plans) for _ in draft.jobs] for draft in drafts]
    except InputError as error:
        if len(drafts) == 1:
            return [error]
    half = len(drafts) // 2
    return [*_finish(drafts[:half]), *_finish(drafts[half:])]


def _simulate(
    scenario: Scenario,
    plan: Plan,
    other_plans: Sequence[OtherJobPlan],
    draws: Iterable[Draws],
    keep_iterations: bool,
) -> IterationFigures:
    """The figures of every counted iteration."""
    figures, consecutive = IterationFigures(plan.steps), bool(other_plans) or plan.remembers
    if other_plans:
        from simulator.prediction.run_cost import refuse_many_turns

        refuse_many_turns(plan, other_plans, scenario.warmup + scenario.iterations)
    iterations = run_in_a_row(plan, draws, other_plans, keep=keep_iterations)
    for iteration in islice(iterations, scenario.warmup if consecutive else 0, None):
        figures.add(iteration, keep_iterations)
    return figures
