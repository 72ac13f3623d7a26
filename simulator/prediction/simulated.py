"""A scenario, simulated: its plan, and the figures of its counted iterations."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from statistics import fmean
from typing import TypeVar

import numpy as np

from simulator.component import expected
from simulator.engine.clock.graphs import graph_of
from simulator.engine.clock.numbers import Draws
from simulator.engine.clock.run_points import run_in_a_row, run_inside, run_point, run_points, times_of
from simulator.engine.plan.plan import Plan, plan_jobs
from simulator.engine.plan.setup import Setup, seat_jobs
from simulator.engine.plan.work.work import Work, prepare_work
from simulator.engine.refusals import as_input_error
from simulator.errors import InputError, unless_refused
from simulator.models.curves import Floats
from simulator.models.limits import MAX_OTHER_TURNS
from simulator.models.sharding import AXES
from simulator.models.timeline import BREAKDOWN, Iteration
from simulator.prediction.draws import draw_differences
from simulator.prediction.job_setup import NOTHING_RECORDED, RecordedInputs, job_setups, with_loading
from simulator.prediction.memory import memory_of
from simulator.prediction.network_use import NetworkUse, network_uses, refuse_overfull_links
from simulator.prediction.result_parts import MemoryUse
from simulator.records import Record, replace
from simulator.scenario.scenario import Scenario
from simulator.units import show_time

_FIGURES = ("communication_total", "communication_added_up", "waiting", "held_back")
_SLOWED = {term: f"slowed {term}" for term in BREAKDOWN}
_NAMES = (*_FIGURES, *BREAKDOWN, *_SLOWED.values(), *AXES)


class IterationFigures:
    """Times and terms of the counted iterations, and the last iteration; all of them where they are kept.

    `steps`: local steps that each of them holds; the figures are those of one step. `times` and `breakdown` are read
    after the last iteration was added. Where nothing but times is added, there are no terms.
    """

    def __init__(self, steps: int = 1) -> None:
        self.seconds, self.rows, self.steps = array("d"), array("d"), steps
        self.last: Iteration
        self.kept: list[Iteration] = []

    def add(self, item: Iteration | float, keep: bool = False) -> None:
        """Count one more, or one of which only its seconds are known."""
        self.seconds.append((item if isinstance(item, float) else item.time) / self.steps)
        if isinstance(item, float):
            return
        self.rows.extend(getattr(item, name) / self.steps for name in _FIGURES)
        self.rows.extend(item.breakdown[term] / self.steps for term in BREAKDOWN)
        self.rows.extend(item.slowed.get(term, 0.0) / self.steps for term in _SLOWED)
        self.rows.extend(item.exposed.get(axis, 0.0) / self.steps for axis in AXES)
        self.last = item
        if keep:
            self.kept.append(item)

    @cached_property
    def _means(self) -> dict[str, float]:
        return {name: fmean(self.rows[place :: len(_NAMES)]) for place, name in enumerate(_NAMES)}

    def mean(self, name: str) -> float:
        """Mean over the counted iterations."""
        return self._means[name]

    @cached_property
    def times(self) -> Floats:
        """Seconds of each counted iteration."""
        return np.array(self.seconds)

    @cached_property
    def breakdown(self) -> dict[str, float]:
        """Mean seconds of each term."""
        return {term: self.mean(term) for term in BREAKDOWN}

    @cached_property
    def slowed(self) -> dict[str, float]:
        """Mean seconds by which exchanges slow the tasks of each term down; together they are `slowdown`."""
        return {term: seconds for term, name in _SLOWED.items() if (seconds := self.mean(name))}

    @cached_property
    def timed(self) -> dict[str, float]:
        """Mean seconds of each term as a timer around its tasks measures them, and no `slowdown`."""
        with_slowdown = {term: self.breakdown[term] + seconds for term, seconds in self.slowed.items()}
        return self.breakdown | with_slowdown | {"slowdown": 0.0}


class Simulated(Record, dict=True):
    """A scenario with its plan, the figures of its counted iterations, and what its trace gave."""

    scenario: Scenario
    plan: Plan
    figures: IterationFigures
    recorded: RecordedInputs

    @cached_property
    def memory(self) -> MemoryUse:
        """The memory of a worker."""
        return memory_of(self.scenario, self.plan)

    @cached_property
    def network_uses(self) -> list[NetworkUse]:
        """The networks that carry its exchanges, that of the workers first."""
        return network_uses(self.plan)

    @property
    def sent_per_worker(self) -> float:
        """Bytes that a worker sends in an iteration, mean over all, on all networks."""
        uses = ((use.traffic.sent, use.wiring.layout.workers) for use in self.network_uses)
        return math.fsum(float(sent[:workers].sum()) / workers for sent, workers in uses)

    @property
    def is_steady(self) -> bool:
        """Whether it is one iteration, by itself, in which all workers keep to their mean."""
        scenario, plan = self.scenario, self.plan
        stragglers, spread = scenario.cluster.stragglers, bool(plan.work.selection_spread.any())
        return not (stragglers.jitter > 0 or spread or stragglers.slow or scenario.other_jobs or plan.remembers)


def simulate_scenario(scenario: Scenario, keep_iterations: bool = False) -> Simulated:
    """Plan and simulate a scenario. Raises InputError where its parts cannot work together."""
    return unless_refused(simulate_batch([scenario], keep_iterations)[0])


class _Draft(Record):
    """A scenario whose jobs have places on the network, its own first and then the others, each with its work."""

    scenario: Scenario
    jobs: list[tuple[Setup, Work]]
    recorded: RecordedInputs


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
    drafts = try_each(scenarios, _draft)
    plans = iter(_finish([each for each in drafts if isinstance(each, _Draft)]))
    begun = try_each(drafts, lambda draft: _begin(draft, next(plans), keep_iterations))
    left = [(each[0], draws) for each in begun if not isinstance(each, InputError) for draws in each[1]]
    points = [(made.plan, draws) for made, draws in left]
    ran: Sequence[Iteration | float] = run_points(points) if terms else times_of(points)
    for (made, _), iteration in zip(left, ran, strict=True):
        made.figures.add(iteration)
    return try_each(begun, _checked)


def _draft(scenario: Scenario) -> _Draft:
    """The scenario up to the prices of its exchanges."""
    with as_input_error(f"scenario '{scenario.name}'"):
        setup, *others = seat_jobs(job_setups(scenario))
        recorded = NOTHING_RECORDED
        if scenario.workload.gradients and scenario.cluster.workers > 1:
            from simulator.prediction.recorded_inputs import recorded_inputs  # only where there is a trace to replay

            recorded = recorded_inputs(scenario, setup)
        setup = setup if recorded.selections is None else replace(setup, selections=recorded.selections)
        return _Draft(scenario, [(job, prepare_work(job)) for job in (setup, *others)], recorded)


def _begin(draft: _Draft, plans: Sequence[Plan] | InputError, keep_iterations: bool) -> tuple[Simulated, list[Draws]]:
    """A scenario with its iterations, but for those that are left, which run with those of other scenarios."""
    scenario, (own, *others) = draft.scenario, unless_refused(plans)
    with as_input_error(f"scenario '{scenario.name}'"):
        plan = with_loading(run_inside(own), scenario)
        graph_of(plan)  # what a scheduler gets wrong is refused here, and not together with other scenarios
        consecutive = bool(others) or plan.remembers
        draws, figures = draw_differences(scenario, plan, consecutive), IterationFigures(plan.steps)
        made = Simulated(scenario, plan, figures, draft.recorded)
        few = scenario.iterations * scenario.cluster.workers <= _FEW_DRAWS
        if (
            (few or isinstance(draws, list))
            and not (plan.live or consecutive or keep_iterations)
            and (not plan.period or len(draws := list(draws)) == 1)
        ):
            return made, list(draws)
        if others:
            refuse_many_turns(plan, others, scenario.warmup + scenario.iterations)
        for iteration in iterate(scenario, plan, draws, others, keep=keep_iterations):
            figures.add(iteration, keep_iterations)
        return made, []


def iterate(
    scenario: Scenario, plan: Plan, draws: Iterable[Draws], others: Sequence[Plan], *, keep: bool = False
) -> Iterator[Iteration]:
    """The counted iterations of a scenario in a row, one for each of `draws`, without the warm-up of those that depend
    on the ones before them."""
    consecutive = bool(others) or plan.remembers
    return islice(run_in_a_row(plan, draws, others, keep=keep), scenario.warmup if consecutive else 0, None)


def _checked(begun: tuple[Simulated, list[Draws]]) -> Simulated:
    """What was simulated. Raises InputError where it cannot be, because an asked-for fold is not valid."""
    made, _ = begun
    refuse_overfull_links(made.scenario, made.plan, float(made.figures.times.mean()))
    return made


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


def refuse_many_turns(plan: Plan, other_plans: Sequence[Plan], iterations: int) -> None:
    """Raise an expected-error where other jobs exchange more often than can be followed while this one iterates.

    Exchanges = sum over other jobs of buckets * time of this job / time of one iteration of the other, each job's time
    found by simulating one iteration of it by itself. Other jobs that slow each other down exchange less often.
    """
    from simulator.engine.clock.simulation import time_alone  # brings SimPy

    for item in other_plans:
        _refuse(len(item.exchanges[0]), 1.0, 0.0, 0.0)
    whole = iterations * run_point(plan).time if other_plans else 0.0
    turns = 0.0
    for item in other_plans:
        time = time_alone(plan, item)
        # A job whose iterations take no time iterates once.
        rounds = max(1.0, (whole - item.setup.start) / time) if time > 0 else 1.0
        turns += rounds * max(1, len(item.exchanges[0]))
        _refuse(turns, rounds, time, whole)


def _refuse(turns: float, rounds: float, time: float, whole: float) -> None:
    if turns <= MAX_OTHER_TURNS:
        return
    why = (
        f": {math.ceil(rounds):,} iterations of {show_time(time)} each in {show_time(whole)} of this job"
        if whole
        else ""
    )
    hint = "fewer iterations of this job or shorter ones (`input_time`, `warmup`), or another job with longer ones"
    what = f"at most {MAX_OTHER_TURNS:,} exchanges of other jobs during this one"
    raise expected(what, f"about {math.ceil(turns):,}{why}", hint)
