"""The fastest of many combinations: all of them where they are few, in stages where they are many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from simulator.errors import InputError
from simulator.prediction.run import Prediction, run
from simulator.scenario.scenario import Scenario
from simulator.studies.advice.candidates import Candidate, Change, Grid
from simulator.studies.explain.variation import calm

EXHAUSTIVE = 300
"""Grids up to so many points are looked at whole."""
DEEP, DEEP_LIVE = 8, 3
"""Methods whose schedules are all looked at, in stages; where exchanges share links, which takes long to simulate."""
NEAR = 1.1
"""Schedules within this factor of a method's best are tried on every topology."""
SLACK = 0.05
"""How much less than on the scenario's own schedule a method's work may cost on another."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A combination that works together: its seconds without random differences, and what no network takes from it.

    `floor`: seconds that would be left on a perfect network. `heavy`: its messages meet on the links, which takes long
    to simulate; `live`: so do its exchanges. `kernels`: those that it uses.
    """

    candidate: Candidate
    time: float
    floor: float
    document: dict[str, Any]
    heavy: bool
    live: bool
    kernels: frozenset[str]


@dataclass(slots=True)
class Found:
    """What was looked at: outcomes, fastest first; refusals with their reasons; combinations not looked at."""

    outcomes: list[Outcome] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    unseen: int = 0

    @property
    def best(self) -> Outcome:
        """The fastest."""
        return self.outcomes[0]


def search(scenario: Scenario, grid: Grid, exhaustive: int = EXHAUSTIVE) -> Found:
    """Look for the fastest combinations, random differences left out.

    Up to `exhaustive` points all of them. Beyond, in stages: every method on the scenario's own schedule and topology;
    then, fastest first, all schedules of at most `DEEP` methods; last, all topologies for the schedules that come near
    a method's best. A stage passes by what cannot be faster than the fastest found, even with nothing left to wait for.
    """
    seeker = _Seeker(calm(scenario))
    if grid.points <= exhaustive:
        for method in grid.methods:
            for scheduler in grid.schedulers:
                for topology in grid.topologies:
                    seeker.look(replace(method, scheduler=scheduler, topology=topology))
    else:
        _staged(seeker, grid)
    outcomes = sorted(seeker.seen.values(), key=lambda item: item.time)
    unseen = grid.points - len(seeker.seen) - len(seeker.refused)
    return Found(outcomes, Counter(seeker.refused.values()), unseen)


def _staged(seeker: _Seeker, grid: Grid) -> None:
    first = [made for method in grid.methods if (made := _somewhere(seeker, method, grid)) is not None]
    deep: list[Outcome] = []
    for start in sorted(first, key=lambda item: item.time):
        if len(deep) < (DEEP_LIVE if start.live else DEEP) and start.floor * (1 - SLACK) < seeker.best:
            deep.append(start)
            seeker.look_at(replace(start.candidate, scheduler=scheduler) for scheduler in grid.schedulers)
    # The fastest method first, so that what cannot win is seen to be so early.
    for start in sorted(deep, key=lambda item: seeker.fastest(item.candidate)):
        limit = NEAR * seeker.fastest(start.candidate)
        for item in sorted(seeker.of(start.candidate), key=lambda item: item.time):
            if item.time <= limit and item.floor < seeker.best:
                for topology in grid.topologies:
                    seeker.look_if_fast(replace(item.candidate, topology=topology))


def _somewhere(seeker: _Seeker, method: Candidate, grid: Grid) -> Outcome | None:
    """The method as the scenario stands; where it refuses, on the first schedule and topology that it takes."""
    plain: list[Change] = [item for item in grid.schedulers if item and item["kind"] == "sequential"]
    schedulers = [grid.schedulers[0], *plain, *(item for item in grid.schedulers[1:] if item not in plain)]
    for topology in grid.topologies:
        for scheduler in schedulers:
            made = seeker.look(replace(method, scheduler=scheduler, topology=topology))
            if made is not None:
                return made
    return None


class _Seeker:
    """Runs candidates once each. `best`: seconds of the fastest so far."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.seen: dict[tuple[str, ...], Outcome] = {}
        self.refused: dict[tuple[str, ...], str] = {}
        self.best = float("inf")

    def look(self, candidate: Candidate) -> Outcome | None:
        """The outcome of a candidate; None where its parts refuse to work together."""
        key = candidate.key
        if key in self.refused:
            return None
        if key not in self.seen:
            try:
                made = _outcome(candidate, run(candidate.of(self.scenario)))
            except InputError as error:
                self.refused[key] = reason(error)
                return None
            self.seen[key] = made
            self.best = min(self.best, made.time)
        return self.seen[key]

    def look_at(self, several: Iterable[Candidate]) -> None:
        """Look at several."""
        for candidate in several:
            self.look(candidate)

    def look_if_fast(self, candidate: Candidate) -> None:
        """Look at a candidate, unless it would not be its method's fastest even if its messages never met on a link.

        That bound is cheap; to follow messages that meet is not.
        """
        scenario = candidate.of(self.scenario)
        if scenario.fidelity == "auto" and not (scenario.other_jobs or scenario.cluster.background):
            try:
                bound = run(scenario.model_copy(update={"fidelity": "fold"})).document["iteration_time_s"]
            except InputError:
                bound = 0.0
            if bound >= self.fastest(candidate):
                return
        self.look(candidate)

    def of(self, candidate: Candidate) -> list[Outcome]:
        """What was seen of a candidate's method."""
        return [item for item in self.seen.values() if item.candidate.method == candidate.method]

    def fastest(self, candidate: Candidate) -> float:
        """Seconds of the best that was seen of a candidate's method."""
        return min(item.time for item in self.of(candidate))


def _outcome(candidate: Candidate, prediction: Prediction) -> Outcome:
    document = prediction.document
    time = float(document["iteration_time_s"])
    floor = time - float(document["breakdown_s"]["communication_exposed"])
    plan = prediction.plan
    return Outcome(candidate, time, floor, document, plan.prices.flowed > 0, plan.live, frozenset(plan.work.kernels))


def reason(error: InputError) -> str:
    """Why parts refuse to work together, in a few words."""
    problem = error.problems[0]
    return f"{problem.got}, where {problem.expected} is needed" if problem.got else problem.expected
