"""Scenarios of a study are predicted together; searches for where an answer changes hand out the points they need."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, Self, TypeVar

from simulator.errors import InputError, map_unless_refused, unless_refused
from simulator.prediction.doubts.spread import Spread
from simulator.prediction.result import RunResult
from simulator.prediction.run import Prediction, run_batch, with_responses_of
from simulator.records import Record
from simulator.scenario.changes import with_value
from simulator.scenario.scenario import Scenario

Intervals = Literal["full", "first_order", "none"]
"""From simulating both ends of each input; from the seconds that each input decides; not at all."""


def evaluate(scenarios: Sequence[Scenario], intervals: Intervals = "first_order") -> list[Prediction | InputError]:
    """The prediction of each scenario in order, or why its parts cannot work together.

    Scenarios that share work are priced and simulated together, so that a batch is faster than one by one; each
    prediction is that of the scenario by itself.
    """
    made = run_batch(scenarios, intervals=intervals != "none")
    return map_unless_refused(with_responses_of, made) if intervals == "full" else made


def evaluate_all(scenarios: Sequence[Scenario], intervals: Intervals = "first_order") -> list[Prediction]:
    """The prediction of each scenario in order. Raises the InputError of the first one that is refused."""
    return [unless_refused(item) for item in evaluate(scenarios, intervals)]


Found = TypeVar("Found")


class VariedKey(Record):
    """What varies: its key (empty: nothing) and the values to try first, ascending. `whole`: whole numbers only."""

    key: str
    tried: tuple[float, ...]
    whole: bool = False

    def at(self, scenario: Scenario, value: float) -> Scenario:
        """The scenario with that value. Raises InputError where it does not fit the others."""
        return with_value(scenario, self.key, round(value) if self.whole else value) if self.key else scenario


class PointAnswer(NamedTuple):
    """What is kept of the prediction of a point; `followed`: messages share links, which takes long to simulate."""

    result: RunResult
    spread: Spread
    followed: bool

    @classmethod
    def of(cls, prediction: Prediction) -> Self:
        """That of a prediction."""
        return cls(prediction.result_without_lists, prediction.spread, prediction.plan.prices.flowed > 0)


class Along:
    """A scenario along an axis, and what is `known` of its points, or why one is refused."""

    def __init__(self, axis: VariedKey, scenario: Scenario) -> None:
        self.axis, self.scenario = axis, scenario
        self.known: dict[tuple[float, Intervals], PointAnswer | InputError] = {}

    def at(self, value: float, intervals: Intervals = "none") -> PointAnswer | None:
        """What is known of a point that was evaluated; None where it is refused."""
        made = self.known[value, intervals]
        return None if isinstance(made, InputError) else made

    def evaluated(self, value: float, intervals: Intervals = "none") -> PointAnswer:
        """What is known of a point that was evaluated. Raises the InputError of one that is refused."""
        return unless_refused(self.known[value, intervals])


class AskedPoint(NamedTuple):
    """A value along a scenario's axis, and how the intervals of its prediction are made."""

    along: Along
    value: float
    intervals: Intervals = "none"


Search = Generator[Sequence[AskedPoint], None, Found]
"""A search in steps: it hands out the points that it needs next, and returns what it found."""
Gap = Callable[[float], Search[float | None]]
"""A number whose sign changes along an axis; None where it is not known because a point is refused."""


def search_together(searches: Sequence[Search[Found]]) -> list[Found]:
    """What searches find; the points that all of them need next are evaluated together."""
    found: dict[int, Found] = {}
    wanted: dict[int, Sequence[AskedPoint]] = dict.fromkeys(range(len(searches)), ())
    while wanted:
        _evaluate_points([point for points in wanted.values() for point in points])
        for number in list(wanted):
            try:
                wanted[number] = next(searches[number])
            except StopIteration as ended:
                found[number] = ended.value
                del wanted[number]
    return [found[number] for number in range(len(searches))]


def _evaluate_points(points: Sequence[AskedPoint]) -> None:
    """Add what is not known yet to what is known along the axes of points."""
    new: dict[Intervals, dict[tuple[int, float], tuple[AskedPoint, Scenario]]] = {}
    for point in points:
        along, value, intervals = point
        if (value, intervals) not in along.known:
            try:
                new.setdefault(intervals, {})[id(along), value] = point, along.axis.at(along.scenario, value)
            except InputError as error:
                along.known[value, intervals] = error
    for intervals, asked in new.items():
        made = evaluate([scenario for _, scenario in asked.values()], intervals)
        for ((along, value, _), _), item in zip(asked.values(), made, strict=True):
            along.known[value, intervals] = item if isinstance(item, InputError) else PointAnswer.of(item)


def gaps_and_changes(gap: Gap, values: Sequence[float]) -> Search[tuple[dict[float, float], list[tuple[float, float]]]]:
    """The gaps at those values where they are known, and the neighbours of which one is below 0 and the other not."""
    known: dict[float, float] = {}
    for value in values:
        found = yield from gap(value)
        if found is not None:
            known[value] = found
    return known, [(one, other) for one, other in pairwise(known) if (known[one] < 0) != (known[other] < 0)]


def find_change(
    gap: Gap, below: float, other: float, precision: float, *, whole: bool = False, close: float = 0.0
) -> Search[tuple[float, float]]:
    """The two values that enclose where a gap changes its sign, the one `below` 0 first, from two that do so.

    They end within a share of `precision` of each other (whole numbers: as neighbours, or within that share), or
    earlier where the gap of the first is above `-close`. The gap of a refused value counts as not below 0.

    By regula falsi on the value's logarithm: each step goes to just behind the root of the straight line through both
    ends, on the side of the further end, so that both ends close in; every fourth goes to the middle, for jumps. Of
    whole numbers every step does.
    """
    step = 0
    at_below, at_other = (yield from gap(below)) or 0.0, (yield from gap(other)) or 0.0
    while True:
        step, width = step + 1, abs(math.log(other / below))
        if abs(below - other) <= max(1, precision * min(below, other)) if whole else width <= math.log1p(precision):
            return below, other
        share = 0.5
        if step % 4 and at_below != at_other:
            root, behind = at_below / (at_below - at_other), 0.4 * precision / width
            share = min(1 - behind, max(behind, root + math.copysign(behind, 0.5 - root)))
        middle = float((below + other) // 2) if whole else below * math.exp(share * math.log(other / below))
        if middle in (below, other):
            return below, other
        value = yield from gap(middle)
        if value is not None and value < 0:
            below, at_below = middle, value
            if value > -close:
                return below, other
        else:
            other, at_other = middle, at_other if value is None else value
