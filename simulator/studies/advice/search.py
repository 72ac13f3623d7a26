"""Search for the fastest combination: all of them where they are few, in stages where they are many."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import partial
from itertools import product
from typing import Literal

from simulator.errors import InputError
from simulator.prediction.doubts.spread import Ratio, Spread, compare_spreads
from simulator.prediction.iterations_to_target import Iterations
from simulator.prediction.memory import memory_of
from simulator.prediction.result_parts import Densities
from simulator.prediction.run import Prediction, plan_of, time_batch
from simulator.progress import Watch
from simulator.records import Struct, field, replace
from simulator.reporting.answers.advised import RankedRow
from simulator.scenario.changes import with_value, without_randomness
from simulator.scenario.scenario import Scenario
from simulator.studies.advice.availability import CODE, availability_of, entries_of
from simulator.studies.advice.candidates import Candidate, Change, Grid, density_of
from simulator.studies.processes.executors import map_in_processes
from simulator.studies.variants.crossing import evaluate
from simulator.studies.variants.names import method_with_rounding, schedule_name, topology_name

DENSE = "dense"
Key = Literal["iteration_time", "time_to_target"]
TO_TARGET: Key = "time_to_target"
"""The field of a row by which it is ranked where iterations to the target are known."""
EXHAUSTIVE = 300
"""Grids with at most this many combinations are searched completely."""
DEEP, DEEP_LIVE = 8, 3
"""Methods that are tried with every schedule in a search in stages; the second where exchanges share links."""
NEAR, NEAREST = 1.1, 4
"""Schedules within this factor of a method's best are tried on every topology, so many of them, fastest first."""
OFFERED_LIVE = 2
"""Methods, and schedules of each, that are tried because a framework offers them, where exchanges share links."""
SLACK = 0.05
"""By this share the work of a method may be cheaper with another schedule than with the scenario's own."""


class Combination(Struct):
    """A combination that can run; its row, and so its times, are without random differences until it is ranked.

    `spread`: that of its time, to first order; `exact`: where its responses were simulated. `iterations`: how many it
    needs to the target; None where that is not known. `calls`: how many it makes in an iteration. `heavy`: its messages
    share links, which takes long to simulate; `live`: so do its exchanges. `kernels`: those that it uses.
    """

    candidate: Candidate
    row: RankedRow
    spread: Spread
    densities: Densities
    calls: float
    heavy: bool
    live: bool
    kernels: frozenset[str] = frozenset()
    iterations: Iterations | None = None
    exact: Spread | None = None

    @property
    def name(self) -> str:
        """Its method, schedule and topology."""
        return f"{self.row.method} ({self.row.schedule}, {self.row.topology})"

    @property
    def status(self) -> str:
        """Whether the scenario's framework offers it (`availability.Status`)."""
        return self.row.availability.status

    @property
    def time(self) -> float:
        """Seconds of an iteration."""
        return self.row.iteration_time

    @property
    def floor(self) -> float:
        """Seconds that are left on a perfect network."""
        return self.time - self.row.breakdown["communication_exposed"]

    @property
    def rounded(self) -> bool:
        """Whether gradients, or what groups of a sharded model exchange, are rounded more than in the scenario."""
        candidate = self.candidate
        return bool(candidate.precision) or (candidate.scheduler is not None and "with " in self.row.method)

    def seconds(self, key: Key) -> float | None:
        """What it is ranked by: a field of its row, in seconds; None where it is not known."""
        return self.row.time_to_target if key == TO_TARGET else self.time

    def over(self, other: Combination, key: Key) -> Ratio | None:
        """How many times faster it is than another, by a key of their rows; None where that is not known of both."""
        mine, theirs = self.seconds(key), other.seconds(key)
        if mine is None or theirs is None:
            return None
        exact = self.exact is not None and other.exact is not None
        ratio = compare_spreads(*(item._spread_of(key, exact) for item in (self, other)))
        return replace(ratio, log=math.log(theirs / mine)) if mine and theirs else ratio

    def _spread_of(self, key: Key, exact: bool) -> Spread:
        """The spread of what it is ranked by: with the error of the iterations, for the time to the target."""
        spread = self.exact if exact and self.exact is not None else self.spread
        return self.iterations.spread(spread) if key == TO_TARGET and self.iterations is not None else spread


def best_of_each(combinations: Iterable[Combination]) -> dict[str, Combination]:
    """The first combination with every method."""
    best: dict[str, Combination] = {}
    for item in combinations:
        best.setdefault(item.row.method, item)
    return best


class SearchResult(Struct):
    """Outcomes, fastest first; how many combinations cannot run, by reason; how many were not tried."""

    outcomes: list[Combination] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    unseen: int = 0

    @property
    def own(self) -> Combination | None:
        """The scenario's own combination."""
        return next((item for item in self.outcomes if item.candidate == Candidate()), None)


_TOO_LARGE = "more memory is expected to be needed than a GPU has"


def search(
    scenario: Scenario,
    grid: Grid,
    exhaustive: int = EXHAUSTIVE,
    *,
    watch: Watch | None = None,
    processes: int | None = None,
) -> SearchResult:
    """Search for the fastest combinations, without random differences.

    Grids of up to `exhaustive` combinations are searched completely. Larger ones are searched in stages: every method
    with the scenario's own schedule and topology; then all schedules of dense, with which all are compared,
    and of the fastest other methods, `DEEP` in all; last, all topologies for the schedules that are close to their
    method's best. A stage leaves out what could not be the fastest even without any exposed communication. What
    the scenario's framework has is tried in any case.

    An interruption ends the search with what was found, once there is something. `processes`: how many predict.
    """
    watch = watch or Watch()
    seeker = _Seeker(without_randomness(scenario), watch, processes)
    with watch.part("the search"):
        if grid.points <= exhaustive:
            watch.expect(grid.points)
            combined = product(grid.methods, grid.schedulers, grid.topologies)
            whole = [replace(method, scheduler=each, topology=topology) for method, each, topology in combined]
            seeker.try_all([*whole, *grid.dense_only])
        else:
            _search_in_stages(seeker, grid)
            _search_offered(seeker, grid)
    if watch.interrupted:
        seeker.tried |= seeker.prepared  # known, though its turn had not come
        if not seeker.seen:
            raise KeyboardInterrupt
    return seeker.result(grid.points)


def is_offered(scenario: Scenario, candidate: Candidate) -> bool:
    """Whether the scenario's framework has a combination (any released framework, where it names none)."""
    return availability_of(candidate.of(scenario), scenario.topology.kind).status == "offered"


def _is_released(scenario: Scenario) -> bool:
    """Whether the scenario's framework has its method (any framework, where it names none): of most it does not."""
    own = scenario.cluster.runtime.framework
    places = entries_of(scenario.sparsifier) or ()
    return any(place.framework != CODE and own in (place.framework, "none") for place in places)


def replayed(scenario: Scenario, found: SearchResult, most: int, processes: int | None = None) -> SearchResult:
    """What was found by laws, priced as `run` does by replaying the scenario's trace: the fastest `most`, the best of
    every method, also of what is offered, and the scenario's own. What its trace cannot be replayed with is refused."""
    every, own = found.outcomes, [found.own] if found.own else []
    offered = [item for item in every if item.status == "offered"]
    chosen = [*every[:most], *best_of_each(every).values(), *best_of_each(offered).values(), *own]
    seeker = _Seeker(without_randomness(scenario), Watch(), processes)
    seeker.try_all([item.candidate for item in chosen])
    return seeker.result(len(seeker.tried))


def _search_offered(seeker: _Seeker, grid: Grid) -> None:
    """Every schedule that is offered with a method, on the first topology; the fastest on the other topologies."""
    scenario = seeker.scenario
    released = [item for item in grid.methods if _is_released(replace(item, precision=None).of(scenario))]
    live = any(item.live for item in seeker.seen)
    most = OFFERED_LIVE if live else len(grid.schedulers)
    tried = 0
    for method in sorted(released, key=lambda item: item.of(scenario).sparsifier.kind != DENSE):
        if live and tried >= OFFERED_LIVE:
            return
        for topology in grid.topologies:
            some = (replace(method, scheduler=scheduler, topology=topology) for scheduler in grid.schedulers)
            offered = [item for item in some if is_offered(scenario, item)]
            made = seeker.try_all(offered[:most])
            if not made:
                continue
            tried += 1
            best = min(made, key=lambda item: item.time)
            for other in grid.topologies:
                changed = replace(best.candidate, topology=other)
                if other != topology and is_offered(scenario, changed):
                    seeker.try_if_fast(changed, best.time)
            break


def _search_in_stages(seeker: _Seeker, grid: Grid) -> None:
    seeker.watch.expect(len(grid.methods) + 4 * len(grid.schedulers))
    plain = [replace(item, scheduler=grid.schedulers[0], topology=grid.topologies[0]) for item in grid.methods]
    seeker.try_all([*grid.dense_only, *plain])
    first = [made for method in grid.methods if (made := _first_that_runs(seeker, method, grid)) is not None]
    deep: list[Combination] = []
    ordered = sorted(first, key=lambda item: (item.row.method != DENSE, item.time))
    promising = [item for item in ordered if not item.live and item.floor * (1 - SLACK) < seeker.best][:DEEP]
    seeker.prepare([replace(item.candidate, scheduler=each) for item in promising for each in grid.schedulers])
    for start in ordered:
        most = DEEP_LIVE if start.live else DEEP
        own = bool(grid.dense_only) and start.candidate.sparsifier is None  # of a sharded job: its meshes are settings
        if own or start.row.method == DENSE or (len(deep) < most and start.floor * (1 - SLACK) < seeker.best):
            deep.append(start)
            seeker.try_all([replace(start.candidate, scheduler=each) for each in grid.schedulers])
    # The fastest method first, so that later ones are left out early.
    deep.sort(key=lambda item: seeker.of_method(item.candidate)[0].time)
    for start in deep:
        outcomes = seeker.of_method(start.candidate)
        for item in outcomes[:NEAREST]:
            if item.time <= NEAR * outcomes[0].time and item.floor < seeker.best:
                for topology in grid.topologies:
                    seeker.try_if_fast(replace(item.candidate, topology=topology))


def _first_that_runs(seeker: _Seeker, method: Candidate, grid: Grid) -> Combination | None:
    """The method with the scenario's schedule and topology, or with the first ones that it can run with."""
    plain: list[Change] = [item for item in grid.schedulers if item and item["kind"] == "sequential"]
    schedulers = [grid.schedulers[0], *plain, *(item for item in grid.schedulers[1:] if item not in plain)]
    tried = (
        replace(method, scheduler=each, topology=topology) for topology, each in product(grid.topologies, schedulers)
    )
    return next((made for candidate in tried for made in seeker.try_all([candidate])), None)


class _Seeker:
    """Runs each candidate once. What is `prepared` was run on all cores before, and counts only once it is tried."""

    def __init__(self, scenario: Scenario, watch: Watch, processes: int | None = None) -> None:
        self.scenario, self.watch, self.processes = scenario, watch, processes
        self.prepared: dict[Candidate, Combination | str] = {}
        self.tried: dict[Candidate, Combination | str] = {}

    @property
    def seen(self) -> list[Combination]:
        """The outcomes of what was tried and can run."""
        return [made for made in self.tried.values() if not isinstance(made, str)]

    @property
    def best(self) -> float:
        """Seconds of the fastest so far."""
        return min(item.time for item in self.seen)

    def result(self, points: int) -> SearchResult:
        """What was found so far, in a grid of so many combinations."""
        refused = Counter(made for made in self.tried.values() if isinstance(made, str))
        return SearchResult(sorted(self.seen, key=lambda item: item.time), refused, points - len(self.tried))

    def prepare(self, candidates: Sequence[Candidate]) -> None:
        """Run candidates that are likely to be tried; those on one topology share most of the work."""
        new = list(dict.fromkeys(item for item in candidates if item not in self.prepared))
        new.sort(key=lambda item: repr(item.topology))
        with closing(map_in_processes(partial(timed, self.scenario), new, self.processes)) as made:
            for place, outcome in made:
                self.prepared[new[place]] = outcome
                self.watch.step()

    def try_all(self, candidates: Sequence[Candidate]) -> list[Combination]:
        """The outcomes of those that can run."""
        self.prepare(candidates)
        self.tried |= {item: self.prepared[item] for item in candidates}
        return [made for item in candidates if not isinstance(made := self.tried[item], str)]

    def try_if_fast(self, candidate: Candidate, limit: float | None = None) -> None:
        """Try a candidate if it could be faster than a `limit`, by default its method's fastest.

        The bound is its time without messages that share links: cheap to compute, as following such messages is not.
        """
        scenario = self.scenario
        if (
            candidate not in self.prepared
            and scenario.fidelity == "auto"
            and not (scenario.other_jobs or scenario.cluster.background)
        ):
            (bound,) = time_batch([with_value(candidate.of(scenario), "fidelity", "fold")])
            if not isinstance(bound, InputError) and bound >= (
                self.of_method(candidate)[0].time if limit is None else limit
            ):
                return
        self.try_all([candidate])

    def of_method(self, candidate: Candidate) -> list[Combination]:
        """The outcomes of a candidate's method so far, fastest first."""
        outcomes = (item for item in self.seen if item.candidate.method == candidate.method)
        return sorted(outcomes, key=lambda item: item.time)


def timed(scenario: Scenario, candidates: Sequence[Candidate]) -> list[Combination | str]:
    """The outcome of each candidate, or why its parts cannot work together.

    What is expected to need more memory than a GPU has is refused, unless the scenario does so itself.
    """
    predictions = evaluate([candidate.of(scenario) for candidate in candidates])
    large = [not isinstance(made, InputError) and made.simulated.memory.exceeded for made in predictions]
    if scenario.ignore_memory or (any(large) and memory_of(scenario, plan_of(scenario)).exceeded):
        large = [False] * len(large)
    own = scenario.topology.kind
    return [
        _reason(made) if isinstance(made, InputError) else _TOO_LARGE if exceeds else _outcome(candidate, made, own)
        for candidate, made, exceeds in zip(candidates, predictions, large, strict=True)
    ]


def _outcome(candidate: Candidate, prediction: Prediction, topology: str) -> Combination:
    scenario, plan, spread = prediction.scenario, prediction.plan, prediction.spread
    row = RankedRow(
        overrides=candidate.overrides,
        method=method_with_rounding(scenario) + candidate.rounding,
        sparsifier=scenario.sparsifier.kind,
        density=density_of(scenario),
        schedule=schedule_name(scenario),
        topology=topology_name(scenario),
        iteration_time=spread.time,
        interval=spread.interval(),
        throughput=scenario.samples / spread.time if spread.time else None,
        breakdown=prediction.simulated.figures.breakdown,
        sent_per_worker=prediction.simulated.sent_per_worker,
        iterations_to_target=None,
        iterations_to_target_interval=None,
        time_to_target=None,
        availability=availability_of(scenario, topology),
    )
    calls = sum(sum(each.algorithms.values()) for each in prediction.simulated.network_uses)
    return Combination(
        candidate=candidate,
        row=row,
        spread=spread.settled(),
        densities=Densities(**plan.work.density),
        calls=calls if plan.steps == 1 else calls / plan.steps,
        heavy=plan.prices.flowed > 0,
        live=plan.live,
        kernels=frozenset(plan.work.kernels),
    )


def _reason(error: InputError) -> str:
    """Why parts cannot work together, in a few words."""
    problem = error.problems[0]
    return f"{problem.got}, where {problem.expected} is needed" if problem.got else problem.expected
