"""Combinations ranked by time, each with its ratio to dense at its best: how sure it is, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from simulator.errors import unless_refused
from simulator.prediction.doubts.doubt import Doubt
from simulator.prediction.doubts.own_error import MODEL
from simulator.prediction.doubts.spread import Ratio, Response, Spread
from simulator.prediction.doubts.verdict import weightiest
from simulator.prediction.iterations_to_target import IterationsOf
from simulator.progress import Watch
from simulator.records import Record, replace
from simulator.reporting.answers.advised import AgainstOffered, Unmeasured
from simulator.scenario.scenario import Scenario
from simulator.studies.advice.candidates import Candidate
from simulator.studies.advice.search import DENSE, TO_TARGET, Combination, Key, SearchResult, best_of_each, timed
from simulator.studies.processes.executors import map_in_processes, map_watched
from simulator.studies.variants.crossing import evaluate
from simulator.studies.variants.names import mesh_of, sharded_part
from simulator.units import join_words

LISTED = 20
"""Combinations in the ranking, besides the best of every method."""
CLOSE_OFFERED = 3
"""Methods of the framework, fastest first, whose responses are simulated, too."""
SAME = 0.01
"""Differences up to this share are too small to matter."""
_UNMEASURED = 5
"""Inputs that were not measured, in a list of them."""
CLOSE = 10
"""Methods, fastest first, whose responses are simulated; those of the others are taken to first order."""


class Ranking(Record):
    """Combinations in the order of `key`: seconds per iteration, or to the target.

    `least_added`: seconds that every method but dense adds at least, to read all gradients once. `alone`: there is one
    worker, so that all is dense. `scheduler`: the kind of the scenario's own.
    """

    ranked: tuple[Combination, ...]
    key: Key
    least_added: float = 0.0
    alone: bool = False
    scheduler: str = ""

    @property
    def offered(self) -> Ranking:
        """Those that the scenario's framework offers (any released framework, where it names none)."""
        return replace(self, ranked=tuple(item for item in self.ranked if item.status == "offered"))

    @property
    def at_hand(self) -> Ranking:
        """Those that are offered, and the scenario's own method, or none, with settings of its own schedule."""
        own = next((item.row.method for item in self.ranked if not item.row.overrides), None)
        kept = list[Combination]()
        for item in self.ranked:
            # It needs no code that the scenario does not have: dense, or its method, on its schedule.
            scheduler, topology = item.candidate.scheduler, item.candidate.topology
            alike = topology is None and (scheduler is None or scheduler["kind"] == self.scheduler)
            if item.status == "offered" or (own and alike and item.row.method in (DENSE, own)):
                kept.append(item)
        return replace(self, ranked=tuple(kept))

    @property
    def yours(self) -> Combination | None:
        """The scenario as it is; None where it was not tried, or its place is not known."""
        return next((item for item in self.known if not item.row.overrides), None)

    @property
    def dense(self) -> Combination | None:
        """Dense at its best; None where it was not tried, or its time to the target is not known."""
        return next((item for item in self.known if self.alone or item.row.method == DENSE), None)

    @property
    def known(self) -> list[Combination]:
        """Those whose place is known."""
        return [item for item in self.ranked if item.seconds(self.key) is not None]

    @property
    def others(self) -> list[Combination]:
        """The best of every other method whose place is known."""
        best = best_of_each(self.known)
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
    best = {(item.row.method, item.status): item for item in reversed(found.outcomes)}
    listed = {item.candidate for item in (*found.outcomes[:LISTED], *best.values())} | {Candidate()}
    shown: dict[Candidate, Combination | str] = {it.candidate: it for it in found.outcomes if it.candidate in listed}
    noisy = {name for name, curve in scenario.cluster.gpu.kernels.items() if curve.spread}
    varies = scenario.cluster.stragglers.jitter > 0 or bool(scenario.cluster.other_gpus)
    again = [it.candidate for it in found.outcomes if it.candidate in listed and (varies or noisy & it.kernels)]
    again = [] if watch.interrupted else again
    shown |= {again[at]: it for at, it in map_in_processes(partial(timed, scenario), again, processes)}
    made: list[Combination] = []
    for item in (it for it in shown.values() if not isinstance(it, str)):
        # What rounding costs in iterations is known of the scenario's own schedule at the most.
        iterations = None if targets is None or item.rounded else targets.of(item.candidate.of(scenario))
        row = item.row
        if iterations is not None:
            row = replace(
                row,
                iterations_to_target=iterations.value,
                iterations_to_target_interval=iterations.interval,
                time_to_target=iterations.value * item.time,
            )
        made.append(replace(item, row=row, iterations=iterations))
    key: Key = TO_TARGET if targets else "iteration_time"
    made.sort(key=lambda item: (math.inf if (known := item.seconds(key)) is None else known, item.time))
    alone = scenario.cluster.workers == 1
    ranks = Ranking(tuple(made), key, _seconds_to_read(scenario), alone, scenario.scheduler.kind)
    yours = next((item for item in ranks.ranked if not item.row.overrides), None)
    dense, offered = ranks.dense, ranks.offered
    close = {id(item) for item in (dense, yours, offered.dense)}
    close |= {id(item) for item in (*ranks.others[:CLOSE], *offered.others[:CLOSE_OFFERED])}
    _simulate_responses(scenario, [item for item in ranks.ranked if id(item) in close], watch, processes)
    first = best_of_each(ranks.ranked)
    for place, ranked in enumerate(ranks.ranked):
        yours_ratio = yours and ranked.over(yours, key)
        ranked.row = replace(
            ranked.row,
            rank=place + 1,
            best_of_method=ranked is first[ranked.row.method],
            **_against_dense(ranked, dense, key),
            against_offered_dense=_against_offered(ranked, offered.dense, key),
            speed_up_over_yours=yours_ratio and yours_ratio.value,
        )
    return ranks


def _seconds_to_read(scenario: Scenario) -> float:
    """The least time in which a GPU can read its gradients, at the bandwidth of its memory; 0 where none is stated."""
    workload, gpu = scenario.workload, scenario.cluster.gpu
    nbytes = sum(layer.numel for layer in workload.layers) * workload.precision.gradient_bytes
    share = 1 if (part := sharded_part(scenario.scheduler)) is None else mesh_of(scenario, part).size
    return 0.0 if gpu.ideal or not gpu.memory_bandwidth else nbytes / share / gpu.memory_bandwidth


def _simulate_responses(scenario: Scenario, close: Sequence[Combination], watch: Watch, processes: int | None) -> None:
    """Simulate the responses of those that are close, unless their messages share links."""
    if watch.interrupted:
        return
    chosen = [item for item in close if not (item.heavy or item.live)]
    wanted = [item.candidate for item in chosen]
    part = "the intervals of the ranking"
    made = map_watched(partial(_respond, scenario), wanted, watch, part, processes)
    for place, spread in made.items():
        chosen[place].exact = spread
        chosen[place].row = replace(chosen[place].row, interval=spread.interval())


def _respond(scenario: Scenario, candidates: Sequence[Candidate]) -> list[Spread]:
    """The spread of each candidate, with simulated responses. Raises InputError where one cannot run."""
    made = evaluate([candidate.of(scenario) for candidate in candidates], "full")
    return [item.spread.settled() for item in map(unless_refused, made)]


def _against_offered(item: Combination, dense: Combination | None, key: Key) -> AgainstOffered | None:
    """How many times faster than the best dense combination that is offered; None for what is not offered itself."""
    ratio = item.over(dense, key) if dense and item.status == "offered" else None
    if ratio is None:
        return None
    return AgainstOffered(ratio.value, ratio.interval(), None if item is dense else ratio.probability())


def _against_dense(item: Combination, dense: Combination | None, key: Key) -> Mapping[str, Any]:
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


def find_unmeasured(ratio: Ratio) -> list[Unmeasured]:
    """Inputs that were not measured here and may make a speed-up smaller by more than 1 %, the worst one first.

    The model's own error is no input that can be measured.
    """
    worst = [(min(item.low, item.high), item) for item in ratio.responses]
    rows = [
        _describe_unmeasured(item, math.exp(ratio.log + effect), turns=ratio.log > 0 > ratio.log + effect)
        for effect, item in sorted(worst, key=lambda pair: pair[0])
        if effect < -SAME and _not_measured(item)
    ]
    return rows[:_UNMEASURED]


def _not_measured(item: Response) -> list[Doubt]:
    """The inputs of a response that were not measured, those that matter most first."""
    return weightiest(each for each in item.doubts if each.level != "measured" and each.what != MODEL)


def _describe_unmeasured(item: Response, at_worst: float, *, turns: bool) -> Unmeasured:
    inputs = _not_measured(item)
    names = dict.fromkeys(each.measurement.what if each.measurement else f"{each.what} of {each.id}" for each in inputs)
    return Unmeasured(
        input=join_words(list(names)),
        what=inputs[0].what,
        id=[each.id for each in inputs],
        level=inputs[0].level,
        width=max(each.width for each in inputs),
        speed_up_at_worst=at_worst,
        turns=turns,
    )
