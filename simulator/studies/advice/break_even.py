"""Where along an axis (bandwidth or number of workers) one method is faster than another."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence
from typing import NamedTuple, TypeVar

from simulator.prediction.doubts.spread import Ratio, Spread, compare_spreads
from simulator.records import Record
from simulator.scenario.scenario import Scenario
from simulator.studies.advice.axes import VariedKey
from simulator.studies.advice.sign_changes import Gap, Search, find_change, find_whole_change

_TIGHT, _ROUGH, _WHOLE_ROUGH = 1e-3, 2e-2, 1 / 8
_EXACT = 1e-12
"""A logarithm that is smaller than this is 0 but for rounding."""

_Made = TypeVar("_Made")
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


class Race:
    """Compares methods with one other method along an axis, and remembers the times of that other method.

    Without `intervals` the borders are rough and have no intervals, for methods that take long to simulate.
    """

    def __init__(self, axis: VariedKey, against: Scenario, intervals: bool = True) -> None:
        self.axis, self.against, self.intervals = axis, against, intervals
        self.times: dict[float, float | None] = {}
        self.spreads: dict[tuple[float, bool], Spread] = {}


class NeededTimes(NamedTuple):
    """What a duel needs before its next step: the times of both methods at values, or their spreads at a border."""

    values: Sequence[float] = ()
    border: float | None = None


class Duel:
    """A method in a race.

    Intervals follow from spreads to first order, or with `simulated` from responses that take longer.
    """

    def __init__(self, race: Race, method: Scenario, simulated: bool = True) -> None:
        self.race, self.method, self.simulated = race, method, simulated
        self.times: dict[float, float | None] = {}
        self.spreads: dict[tuple[float, bool], Spread] = {}

    def gap(self, value: float) -> float | None:
        """Logarithm of the method's time over that of the other, at a value at which both are known."""
        a, b = self.times[value], self.race.times[value]
        return None if a is None or b is None else math.log(a / b) if a and b else a - b

    def search(self) -> Generator[NeededTimes, None, Wins]:
        """The stretches on which the method is faster, in steps, each of which hands out what it needs."""
        tried = self.race.axis.tried
        yield NeededTimes(tried)
        places = [value for value in tried if self.gap(value) is not None]
        if not places:
            return Wins((), None)
        found = yield from _wanting(self._stretches(places))
        made = []
        for start, stop in found:
            first = yield from self._interval(start, places, stop=False)
            made.append(Win(start, stop, first, (yield from self._interval(stop, places, stop=True))))
        return Wins(tuple(made), (places[0], places[-1]))

    def _stretches(self, places: Sequence[float]) -> Search[list[Stretch]]:
        """The stretches on which the method is faster."""
        made: list[Stretch] = []
        start: float | None = None
        winning = False
        for place, value in enumerate(places):
            wins = (self.gap(value) or 0.0) < 0
            if wins == winning:
                continue
            edge = None
            if place:
                edge = yield from self._border(self.gap, places[place - 1], value, self.race.intervals)
            if wins:
                start = edge
            else:
                made.append((start, edge))
            winning = wins
        return [*made, (start, None)] if winning else made

    def _interval(
        self, border: float | None, places: Sequence[float], *, stop: bool
    ) -> Generator[NeededTimes, None, Stretch | None]:
        """The interval of a border; None where there is none, or none is asked for."""
        if border is None or not self.race.intervals:
            return None
        yield NeededTimes((border,))
        if self.gap(border) is None:
            return None
        yield NeededTimes(border=border)
        key = border, self.simulated
        ratio = compare_spreads(self.spreads[key], self.race.spreads[key])
        return (yield from _wanting(self._ends(ratio, border, places, stop)))

    def _ends(self, ratio: Ratio, border: float, places: Sequence[float], stop: bool) -> Search[Stretch]:
        """The ends of the interval of a border, behind which the method is slower (`stop`) or faster.

        The spread of the ratio is taken to be near the border as it is there.
        """
        worst, best = (math.log(end) - ratio.log for end in ratio.interval())
        before, after = [x for x in reversed(places) if x < border], [x for x in places if x > border]
        low, high = (worst, best) if stop else (best, worst)
        first = yield from self._end(low, border, before, not stop)
        return first, (yield from self._end(high, border, after, stop))

    def _end(self, error: float, border: float, places: Iterable[float], wins: bool) -> Search[float | None]:
        """Where the method's advantage is lost if the logarithm of the ratio is wrong by an error.

        From the border on, over places in one direction, as long as the method `wins`, or does not.
        """

        def shifted(value: float) -> float | None:
            made = self.gap(value)
            return None if made is None else made - error

        if abs(error) < _EXACT or ((shifted(border) or 0.0) < 0) != wins:
            return border
        last = border
        for value in places:
            if ((shifted(value) or 0.0) < 0) != wins:
                return (yield from self._border(shifted, min(last, value), max(last, value), False))
            last = value
        return None

    def _border(self, gap: Gap, low: float, high: float, tight: bool) -> Search[float]:
        """The value between two others at which the sign changes; of whole numbers, the last one that is faster."""
        if self.race.axis.whole:
            return find_whole_change(gap, low, high, 0.0 if tight else _WHOLE_ROUGH)
        return find_change(gap, low, high, _TIGHT if tight else _ROUGH)


def _wanting(search: Search[_Made]) -> Generator[NeededTimes, None, _Made]:
    """A search along the axis as part of a duel."""
    while True:
        try:
            value = next(search)
        except StopIteration as ended:
            made: _Made = ended.value
            return made
        yield NeededTimes((value,))
