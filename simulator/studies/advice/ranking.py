"""Combinations ranked by time, each with its ratio to dense at its best: how sure it is, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

from simulator.errors import unless_refused
from simulator.prediction.doubts.spread import Ratio, Spread, compare_spreads
from simulator.prediction.iterations_to_target import Iterations, IterationsOf
from simulator.prediction.result import RunResult
from simulator.progress import Watch
from simulator.records import Record, Struct, replace
from simulator.reporting.answers.advised import AgainstOffered, Availability, RankedRow, Status
from simulator.scenario.scenario import Scenario
from simulator.studies.advice.availability import availability_of
from simulator.studies.advice.candidates import Candidate
from simulator.studies.advice.reasons import find_unmeasured
from simulator.studies.advice.search import DENSE, SearchResult, TimedCombination
from simulator.studies.processes.executors import map_in_processes, map_watched
from simulator.studies.variants.crossing import Intervals, evaluate
from simulator.studies.variants.names import mesh_of, sharded_part

Key = Literal["iteration_time", "time_to_target"]
TO_TARGET: Key = "time_to_target"
"""The field of a row by which it is ranked where iterations to the target are known."""
LISTED = 20
"""Combinations in the ranking, besides the best of every method."""
CLOSE_OFFERED = 3
"""Methods of the framework, fastest first, whose responses are simulated, too."""
CLOSE = 10
"""Methods, fastest first, whose responses are simulated; those of the others are taken to first order."""


class Ranked(Struct):
    """A row of the ranking, with the spread of its time to first order and, where it was simulated, `exact`.

    `outcome`: what the search knows of it. `iterations`: how many it needs to the target; None where that is not known.
    """

    row: RankedRow
    outcome: TimedCombination
    rough: Spread
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

    def seconds(self, key: Key) -> float | None:
        """What it is ranked by: a field of its row, in seconds; None where it is not known."""
        return self.row.time_to_target if key == TO_TARGET else self.row.iteration_time

    def spread(self, key: Key, exact: bool) -> Spread:
        """The spread of what it is ranked by: with the error of the iterations, for the time to the target."""
        spread = self.exact if exact and self.exact is not None else self.rough
        return self.iterations.spread(spread) if key == TO_TARGET and self.iterations is not None else spread

    def over(self, other: Ranked, key: Key) -> Ratio | None:
        """How many times faster it is than another, by a key of their rows; None where that is not known of both."""
        mine, theirs = self.seconds(key), other.seconds(key)
        if mine is None or theirs is None:
            return None
        exact = self.exact is not None and other.exact is not None
        ratio = compare_spreads(*(item.spread(key, exact) for item in (self, other)))
        return replace(ratio, log=math.log(theirs / mine)) if mine and theirs else ratio


class Ranking(Record):
    """Combinations in the order of `key`: seconds per iteration, or to the target.

    `least_added`: seconds that every method but dense adds at least, to read all gradients once. `alone`: there is one
    worker, so that all is dense.
    """

    ranked: tuple[Ranked, ...]
    key: Key
    least_added: float = 0.0
    alone: bool = False

    @property
    def offered(self) -> Ranking:
        """Those that the scenario's framework offers (any released framework, where it names none)."""
        return replace(self, ranked=tuple(item for item in self.ranked if item.status == "offered"))

    @property
    def at_hand(self) -> Ranking:
        """Those that are offered, and the scenario's own method, or none, with settings of its own schedule."""
        own = next((item.outcome for item in self.ranked if not item.row.overrides), None)
        kept = [item for item in self.ranked if item.status == "offered" or (own and _only_sets(item.outcome, own))]
        return replace(self, ranked=tuple(kept))

    @property
    def yours(self) -> Ranked | None:
        """The scenario as it is; None where it was not tried, or its place is not known."""
        return next((item for item in self.known if not item.row.overrides), None)

    @property
    def dense(self) -> Ranked | None:
        """Dense at its best; None where it was not tried, or its time to the target is not known."""
        return next((item for item in self.known if self.alone or item.row.method == DENSE), None)

    @property
    def known(self) -> list[Ranked]:
        """Those whose place is known."""
        return [item for item in self.ranked if item.seconds(self.key) is not None]

    @property
    def others(self) -> list[Ranked]:
        """The best of every other method whose place is known."""
        best: dict[str, Ranked] = {}
        for item in self.known:
            best.setdefault(item.row.method, item)
        return [] if self.alone else [item for method, item in best.items() if method != DENSE]


def ranking(
    scenario: Scenario,
    found: SearchResult,
    targets: IterationsOf | None,
    watch: Watch,
    processes: int | None = None,
) -> Ranking:
    """The fastest combinations, the best of every method and the scenario's own, with random differences included.

    Each is compared with dense at its best, and what the framework offers also with the best dense combination that it
    offers; by the time to the target where iterations were given. After an interruption nothing more is simulated.
    """
    own = scenario.topology.kind
    places = {item.candidate: availability_of(item.candidate.of(scenario), own) for item in found.outcomes}
    noisy = {name for name, curve in scenario.cluster.gpu.kernels.items() if curve.spread}
    varies = scenario.cluster.stragglers.jitter > 0 or bool(scenario.cluster.other_gpus)
    best: dict[tuple[str, Status], TimedCombination] = {}
    for item in found.outcomes:
        best.setdefault((item.method, places[item.candidate].status), item)
    listed = {item.candidate for item in (*found.outcomes[:LISTED], *best.values())} | {Candidate()}
    shown = [item for item in found.outcomes if item.candidate in listed]
    random = [item.candidate for item in shown if (varies or item.kernels & noisy) and not watch.interrupted]
    predicted = map_in_processes(partial(_predict, scenario, "first_order"), random, processes)
    with_differences = {random[place]: made for place, made in predicted}
    made: list[Ranked] = []
    for item in shown:
        result, spread = with_differences.get(item.candidate, (item.result, item.spread))
        # What rounding costs in iterations is known of the scenario's own schedule at the most.
        iterations = None if targets is None or item.rounded else targets.of(item.candidate.of(scenario))
        row = _ranked_row(item, result, places[item.candidate], iterations)
        made.append(Ranked(row, item, spread, iterations))
    key: Key = TO_TARGET if targets else "iteration_time"
    made.sort(key=lambda item: (math.inf if (known := item.seconds(key)) is None else known, item.row.iteration_time))
    ranks = Ranking(tuple(made), key, _seconds_to_read(scenario), alone=scenario.cluster.workers == 1)
    yours = next((item for item in ranks.ranked if not item.row.overrides), None)
    dense, offered = ranks.dense, ranks.offered
    close = {id(item) for item in (dense, yours, offered.dense)}
    close |= {id(item) for item in (*ranks.others[:CLOSE], *offered.others[:CLOSE_OFFERED])}
    _simulate_responses(scenario, [item for item in ranks.ranked if id(item) in close], watch, processes)
    seen: set[str] = set()
    for place, ranked in enumerate(ranks.ranked):
        yours_ratio = yours and ranked.over(yours, key)
        ranked.row = replace(
            ranked.row,
            rank=place + 1,
            best_of_method=ranked.row.method not in seen,
            **_against_dense(ranked, dense, key),
            against_offered_dense=_against_offered(ranked, offered.dense, key),
            speed_up_over_yours=yours_ratio and yours_ratio.value,
        )
        seen.add(ranked.row.method)
    return ranks


def _seconds_to_read(scenario: Scenario) -> float:
    """The least time in which a GPU can read its gradients, at the bandwidth of its memory; 0 where none is stated."""
    workload, gpu = scenario.workload, scenario.cluster.gpu
    nbytes = sum(layer.numel for layer in workload.layers) * workload.precision.gradient_bytes
    share = 1 if (part := sharded_part(scenario.scheduler)) is None else mesh_of(scenario, part).size
    return 0.0 if gpu.ideal or not gpu.memory_bandwidth else nbytes / share / gpu.memory_bandwidth


def _only_sets(item: TimedCombination, own: TimedCombination) -> bool:
    """Whether a combination needs no code that the scenario does not have: dense, or its method, on its schedule."""
    scheduler, topology = item.candidate.scheduler, item.candidate.topology
    alike = scheduler is None or scheduler["kind"] == own.kind
    return alike and topology is None and item.method in (DENSE, own.method)


def _simulate_responses(scenario: Scenario, close: Sequence[Ranked], watch: Watch, processes: int | None) -> None:
    """Simulate the responses of those that are close, unless their messages share links."""
    if watch.interrupted:
        return
    chosen = [item for item in close if not (item.outcome.heavy or item.outcome.live)]
    wanted = [item.outcome.candidate for item in chosen]
    part = "the intervals of the ranking"
    made = map_watched(partial(_predict, scenario, "full"), wanted, watch, part, processes)
    for place, (_, spread) in made.items():
        chosen[place].exact = spread
        chosen[place].row = replace(chosen[place].row, interval=spread.interval())


def _predict(
    scenario: Scenario, intervals: Intervals, candidates: Sequence[Candidate]
) -> list[tuple[RunResult, Spread]]:
    """The result and the spread of each candidate. Raises InputError where one cannot run."""
    made = evaluate([candidate.of(scenario) for candidate in candidates], intervals)
    return [(item.result_without_lists, item.spread.settled()) for item in map(unless_refused, made)]


def _against_offered(item: Ranked, dense: Ranked | None, key: Key) -> AgainstOffered | None:
    """How many times faster than the best dense combination that is offered; None for what is not offered itself."""
    ratio = item.over(dense, key) if dense and item.status == "offered" else None
    if ratio is None:
        return None
    return AgainstOffered(ratio.value, ratio.interval(), None if item is dense else ratio.probability())


def _against_dense(item: Ranked, dense: Ranked | None, key: Key) -> Mapping[str, Any]:
    """The fields of a row about dense at its best; none where the two cannot be compared."""
    ratio = item.over(dense, key) if dense else None
    if ratio is None:
        return {}
    low, high = ratio.interval()
    made = {
        "speed_up_over_dense": ratio.value,
        "speed_up_over_dense_interval": (low, high),
        "risk": 1 / low if low else None,
    }
    if item is dense:
        return made
    word, rests_on = ratio.word, find_unmeasured(ratio)
    return {**made, "probability": ratio.probability(), "verdict": word, "rests_on": rests_on}


def _ranked_row(
    item: TimedCombination, result: RunResult, place: Availability, iterations: Iterations | None
) -> RankedRow:
    """One combination with its times; `iterations`: those to the target, where they are known."""
    return RankedRow(
        overrides=item.candidate.overrides,
        method=item.method,
        sparsifier=item.sparsifier,
        density=item.density,
        schedule=item.schedule,
        topology=item.topology,
        iteration_time=result.iteration_time,
        interval=result.interval,
        throughput=result.throughput,
        breakdown=result.breakdown,
        sent_per_worker=result.traffic.sent_per_worker,
        iterations_to_target=None if iterations is None else iterations.value,
        iterations_to_target_interval=None if iterations is None else iterations.interval,
        time_to_target=None if iterations is None else iterations.value * result.iteration_time,
        availability=place,
    )
