"""Where along an axis (bandwidth or number of workers) one method is faster than another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from simulator.prediction.doubts.spread import Ratio, Spread, compare_spreads
from simulator.prediction.run import Prediction
from simulator.records import Record
from simulator.scenario.scenario import Scenario
from simulator.studies.variants.crossing import (
    Along,
    AskedPoint,
    Gap,
    Search,
    VariedKey,
    changes_of,
    find_change,
    known_gaps,
    search_together,
)
from simulator.studies.variants.evaluation import Intervals

_TIGHT, _ROUGH, _WHOLE_ROUGH = 1e-3, 2e-2, 1 / 8
_EXACT = 1e-12
"""A logarithm that is smaller than this is 0 but for rounding."""

Stretch = tuple[float | None, float | None]
"""From and to; None: up to the end of what was tried."""


class Win(Record):
    """A stretch of an axis on which a method is faster, and the intervals of its two borders.

    On an axis of whole numbers, the borders are inside the stretch. A border's 90 % interval follows from that of the
    ratio of the two times at the border, in which the errors that both share cancel: it reaches from where the method
    is predicted to be faster by as much as it may lose, to where it is predicted to be slower by as much as it may
    gain. An end that no value tried reaches is None.
    """

    start: float | None
    stop: float | None
    start_interval: Stretch | None
    stop_interval: Stretch | None


class Wins(Record):
    """Where a method is faster; `tried`: the smallest and largest value that could be run (None: no value could)."""

    wins: tuple[Win, ...]
    tried: tuple[float, float] | None

    @property
    def everywhere(self) -> bool:
        """Whether the method is faster at every value tried."""
        return len(self.wins) == 1 and self.wins[0].start is None and self.wins[0].stop is None


class TimedPoint(NamedTuple):
    """The spread of a predicted time; `followed`: messages share links, which takes long to simulate."""

    spread: Spread
    followed: bool


def timed_along(axis: VariedKey, scenario: Scenario) -> Along[TimedPoint]:
    """A scenario along an axis, of which times are kept."""
    return Along(axis, scenario, _read)


def _read(prediction: Prediction) -> TimedPoint:
    return TimedPoint(prediction.spread, prediction.plan.prices.flowed > 0)


class Duel(Record):
    """A method and another one that it is compared with, along the same axis.

    Without `intervals` the borders are rough and have no intervals, for methods that take long to simulate. Intervals
    follow from spreads to first order, or with `simulated` from responses that take longer.
    """

    method: Along[TimedPoint]
    against: Along[TimedPoint]
    intervals: bool = True
    simulated: bool = True

    def search(self) -> Search[Wins]:
        """The stretches on which the method is faster, and the intervals of their borders."""
        tried = self.method.axis.tried
        yield [AskedPoint(along, value) for value in tried for along in (self.method, self.against)]
        gaps = yield from known_gaps(self._gap, tried)
        if not gaps:
            return Wins((), None)
        places = [*gaps]
        edges: list[float | None] = [None] if gaps[places[0]] < 0 else []
        for low, high in changes_of(places, lambda value: gaps[value] < 0):
            edges.append((yield from self._border(self._gap, low, high, self.intervals)))
        edges += [None] * (len(edges) % 2)
        made = []
        for start, stop in zip(edges[::2], edges[1::2], strict=True):
            first = yield from self._interval(start, places, stop=False)
            made.append(Win(start, stop, first, (yield from self._interval(stop, places, stop=True))))
        return Wins(tuple(made), (places[0], places[-1]))

    def _gap(self, value: float) -> Search[float | None]:
        """Logarithm of the method's time over that of the other; None where one of them is refused."""
        yield [AskedPoint(self.method, value), AskedPoint(self.against, value)]
        one, other = self.method.at(value), self.against.at(value)
        if one is None or other is None:
            return None
        a, b = one.spread.time, other.spread.time
        return math.log(a / b) if a and b else a - b

    def _interval(self, border: float | None, places: Sequence[float], *, stop: bool) -> Search[Stretch | None]:
        """The interval of a border; None where there is none, or none is asked for."""
        if border is None or not self.intervals or (yield from self._gap(border)) is None:
            return None
        points = [AskedPoint(along, border, self._intervals_of(along, border)) for along in (self.method, self.against)]
        yield points
        ratio = compare_spreads(*(point.along.evaluated(border, point.intervals).spread for point in points))
        return (yield from self._ends(ratio, border, places, stop))

    def _intervals_of(self, along: Along[TimedPoint], border: float) -> Intervals:
        """How the interval at a border is made: without simulating where messages share links."""
        return "full" if self.simulated and not along.evaluated(border).followed else "first_order"

    def _ends(self, ratio: Ratio, border: float, places: Sequence[float], stop: bool) -> Search[Stretch]:
        """The ends of the interval of a border, behind which the method is slower (`stop`) or faster.

        The spread of the ratio is taken to be near the border as it is there.
        """
        worst, best = (math.log(end) - ratio.log for end in ratio.interval())
        before, after = [x for x in reversed(places) if x < border], [x for x in places if x > border]
        low, high = (worst, best) if stop else (best, worst)
        first = yield from self._end(low, border, before, not stop)
        return first, (yield from self._end(high, border, after, stop))

    def _end(self, error: float, border: float, places: Sequence[float], wins: bool) -> Search[float | None]:
        """Where the method's advantage is lost if the logarithm of the ratio is wrong by an error.

        From the border on, over places in one direction, as long as the method `wins`, or does not.
        """

        def shifted(value: float) -> Search[float | None]:
            made = yield from self._gap(value)
            return None if made is None else made - error

        if abs(error) < _EXACT or (((yield from shifted(border)) or 0.0) < 0) != wins:
            return border
        for last, value in pairwise((border, *places)):
            if (((yield from shifted(value)) or 0.0) < 0) != wins:
                return (yield from self._border(shifted, min(last, value), max(last, value), False))
        return None

    def _border(self, gap: Gap, low: float, high: float, tight: bool) -> Search[float]:
        """The value between two others at which the sign changes; of whole numbers, the last one that is faster."""
        ends = (low, high) if ((yield from gap(low)) or 0.0) < 0 else (high, low)
        whole = self.method.axis.whole
        precision = (0.0 if whole else _TIGHT) if tight else _WHOLE_ROUGH if whole else _ROUGH
        won, lost = yield from find_change(gap, *ends, precision, whole=whole)
        return won if whole else math.sqrt(won * lost)


def find_wins(duels: Sequence[Duel]) -> list[Wins]:
    """The stretches of each duel on which its method is faster; what all of them need next is simulated together."""
    return search_together([duel.search() for duel in duels])
