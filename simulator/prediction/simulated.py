"""A scenario, simulated: its plan, and the figures of its counted iterations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import NamedTuple, TypeVar

from simulator.engine.clock.numbers import Draws
from simulator.engine.clock.run_points import run_in_a_row, run_inside, run_points, times_of
from simulator.engine.plan.plan import Plan, plan_jobs
from simulator.engine.plan.setup import Setup, seat_jobs
from simulator.engine.plan.work.division import price_together
from simulator.engine.plan.work.work import Work, prepare_work
from simulator.engine.refusals import as_input_error
from simulator.errors import InputError, unless_refused
from simulator.models.timeline import Iteration
from simulator.prediction.data_loading import with_loading
from simulator.prediction.draws import draw_differences
from simulator.prediction.figures import IterationFigures
from simulator.prediction.job_setup import job_setups
from simulator.prediction.memory.memory import Memory, memory_of
from simulator.prediction.network_use import NetworkUse, network_uses
from simulator.prediction.recorded_inputs import RecordedInputs, recorded_inputs
from simulator.prediction.refusals import refuse_overfull_links
from simulator.records import Record, replace
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

    @cached_property
    def network_uses(self) -> list[NetworkUse]:
        """The networks that carry its exchanges, that of the workers first."""
        return network_uses(self.plan)

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
    return unless_refused(simulate_batch([scenario], keep_iterations)[0])


class _Draft(Record):
    """A scenario whose jobs have places on the network, its own first and then the others; and the work of each, which
    is made once gradients are divided."""

    scenario: Scenario
    setups: list[Setup]
    recorded: RecordedInputs
    work: tuple[Work, ...] = ()

    @property
    def where(self) -> str:
        """What errors call it."""
        return f"scenario '{self.scenario.name}'"


class _Begun(NamedTuple):
    """A draft with its plan, and the figures of its iterations but for those that are `left`, which run with those of
    other scenarios."""

    draft: _Draft
    plan: Plan
    figures: IterationFigures
    left: list[Draws]


_FEW_DRAWS = 2**14
"""Iterations of a scenario times its workers that are simulated together with those of others."""
S = TypeVar("S")
T = TypeVar("T")


def try_each(items: Iterable[S | InputError], make: Callable[[S], T]) -> list[T | InputError]:
    """What is made of each item; an error in the place of one that fails, or is an error already."""
    made: list[T | InputError] = []
    for item in items:
        try:
            made.append(item if isinstance(item, InputError) else make(item))
        except InputError as error:
            made.append(error)
    return made


def simulate_batch(
    scenarios: Sequence[Scenario | InputError], keep_iterations: bool = False, *, terms: bool = True
) -> list[Simulated | InputError]:
    """Many scenarios in one evaluation; an error in the place of each that cannot be simulated, or is one already.

    The same as `simulate_scenario` for each by itself. Exchanges that are sent alike are priced together, and
    iterations of the same form run together, so that hundreds of scenarios at once are faster than a few. Without
    `terms`, the figures of most are their times alone, which is faster again.
    """
    seated = try_each(scenarios, _seat)
    with suppress(InputError), as_input_error("scenarios"):  # which one has no price is found below
        price_together([each.setups[0] for each in seated if isinstance(each, _Draft)])
    drafts = try_each(seated, _draft)
    plans = iter(_finish([each for each in drafts if isinstance(each, _Draft)]))
    begun = try_each(drafts, lambda draft: _begin(draft, next(plans), keep_iterations))
    left = [(each, draws) for each in begun if isinstance(each, _Begun) for draws in each.left]
    points = [(each.plan, draws) for each, draws in left]
    ran: Sequence[Iteration | float] = run_points(points) if terms else times_of(points)
    for (each, _), iteration in zip(left, ran, strict=True):
        each.figures.add(iteration)
    return try_each(begun, _checked)


def _seat(scenario: Scenario) -> _Draft:
    """The scenario up to the division of its gradients."""
    with as_input_error(f"scenario '{scenario.name}'"):
        setup, *others = seat_jobs(job_setups(scenario))
        recorded = recorded_inputs(scenario, setup)
        return _Draft(scenario, [recorded.applied_to(setup), *others], recorded)


def _draft(seated: _Draft) -> _Draft:
    """The scenario up to the prices of its exchanges."""
    with as_input_error(seated.where):
        return replace(seated, work=tuple(map(prepare_work, seated.setups)))


def _begin(draft: _Draft, plans: Sequence[Plan] | InputError, keep_iterations: bool) -> _Begun:
    """The scenario with its plan, and the iterations that do not run with those of other scenarios."""
    if isinstance(plans, InputError):
        raise plans
    scenario = draft.scenario
    with as_input_error(draft.where):
        own, *others = plans
        plan = with_loading(run_inside(own), scenario)
        consecutive = bool(others) or plan.remembers
        draws, figures = draw_differences(scenario, plan, consecutive), IterationFigures(plan.steps)
        few = scenario.iterations * scenario.cluster.workers <= _FEW_DRAWS
        if (
            (few or isinstance(draws, list))
            and not (plan.live or consecutive or keep_iterations)
            and (not plan.period or len(draws := list(draws)) == 1)
        ):
            return _Begun(draft, plan, figures, list(draws))
        if others:
            from simulator.prediction.run_cost import refuse_many_turns

            refuse_many_turns(plan, others, scenario.warmup + scenario.iterations)
        iterations = run_in_a_row(plan, draws, others, keep=keep_iterations)
        for iteration in islice(iterations, scenario.warmup if consecutive else 0, None):
            figures.add(iteration, keep_iterations)
        return _Begun(draft, plan, figures, [])


def _checked(begun: _Begun) -> Simulated:
    """What was simulated. Raises InputError where it cannot be, because an asked-for fold is not valid."""
    draft, plan, figures, _ = begun
    refuse_overfull_links(draft.scenario, plan, float(figures.times.mean()))
    return Simulated(draft.scenario, plan, figures, draft.recorded)


def _finish(drafts: Sequence[_Draft]) -> list[list[Plan] | InputError]:
    """The plans of each scenario; where something is refused, halves are tried until it is alone."""
    if not drafts:
        return []
    try:
        with as_input_error(drafts[0].where):
            jobs = [job for draft in drafts for job in zip(draft.setups, draft.work, strict=True)]
            plans = iter(plan_jobs(jobs))
            return [[next(plans) for _ in draft.setups] for draft in drafts]
    except InputError as error:
        if len(drafts) == 1:
            return [error]
    half = len(drafts) // 2
    return [*_finish(drafts[:half]), *_finish(drafts[half:])]
