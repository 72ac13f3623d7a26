"""Where along an axis (bandwidth or number of workers) one method is faster than another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simulator.errors import InputError
from simulator.prediction.run import run, with_responses
from simulator.prediction.simulated import simulate_batch
from simulator.prediction.uncertainty.spread import Ratio, Spread, compare_spreads
from simulator.scenario.changes import without_randomness
from simulator.scenario.scenario import Scenario
from simulator.studies.advice.axes import Axis
from simulator.studies.advice.sign_changes import Gap, find_change

_TIGHT, _ROUGH, _PARTS = 1e-3, 2e-2, 8
_EXACT = 1e-12
"""A logarithm that is smaller than this is 0 but for rounding."""

Stretch = tuple[float | None, float | None]
"""From and to; None: up to the end of what was tried."""


@dataclass(frozen=True, slots=True)
class Win:
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


@dataclass(frozen=True, slots=True)
class Wins:
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

    def __init__(self, axis: Axis, against: Scenario, intervals: bool = True) -> None:
        self.axis, self.against, self.intervals = axis, against, intervals
        self.theirs: dict[float, float | None] = {}
        self.their_spread: dict[tuple[float, bool], Spread] = {}

    def wins(self, method: Scenario, simulated: bool = True) -> Wins:
        """The stretches on which `method` is faster.

        Intervals follow from spreads to first order, or with `simulated` from responses that take longer.
        """
        mine: dict[float, float | None] = {}

        def simulate(values: Sequence[float]) -> None:
            for scenario, times in ((method, mine), (self.against, self.theirs)):
                new = [value for value in values if value not in times]
                if new:
                    times |= dict(zip(new, _times([self.axis.at(scenario, value) for value in new]), strict=True))

        def gap(value: float) -> float | None:
            """Logarithm of the method's time over that of the other."""
            simulate([value])
            a, b = mine[value], self.theirs[value]
            return None if a is None or b is None else math.log(a / b) if a and b else a - b

        simulate(self.axis.tried)
        places = [value for value in self.axis.tried if gap(value) is not None]
        if not places:
            return Wins((), None)
        found = self._stretches(gap, places)
        if not self.intervals:
            return Wins(tuple(Win(*one, None, None) for one in found), (places[0], places[-1]))

        def interval(border: float | None, stop: bool) -> Stretch | None:
            if border is None or gap(border) is None:
                return None
            return self._ends(gap, self._ratio(method, border, simulated), border, places, stop)

        made = tuple(Win(start, stop, interval(start, False), interval(stop, True)) for start, stop in found)
        return Wins(made, (places[0], places[-1]))

    def _stretches(self, gap: Gap, places: Sequence[float]) -> list[Stretch]:
        """The stretches on which a gap is below 0."""
        made: list[Stretch] = []
        start: float | None = None
        winning = False
        for place, value in enumerate(places):
            wins = (gap(value) or 0.0) < 0
            if wins == winning:
                continue
            edge = None if place == 0 else self._border(gap, places[place - 1], value, self.intervals)
            if wins:
                start = edge
            else:
                made.append((start, edge))
            winning = wins
        return [*made, (start, None)] if winning else made

    def _ratio(self, method: Scenario, border: float, simulated: bool) -> Ratio:
        """The ratio of both at a border."""
        if (border, simulated) not in self.their_spread:
            self.their_spread[border, simulated] = _spread(self.axis.at(self.against, border), simulated)
        mine = _spread(self.axis.at(method, border), simulated)
        return compare_spreads(mine, self.their_spread[border, simulated])

    def _ends(self, gap: Gap, ratio: Ratio, border: float, places: Sequence[float], stop: bool) -> Stretch:
        """The ends of the interval of a border, behind which the method is slower (`stop`) or faster.

        The spread of the ratio is taken to be near the border as it is there.
        """
        worst, best = (math.log(end) - ratio.log for end in ratio.interval())
        before, after = [x for x in reversed(places) if x < border], [x for x in places if x > border]
        low, high = (worst, best) if stop else (best, worst)
        return self._end(gap, low, border, before, not stop), self._end(gap, high, border, after, stop)

    def _end(self, gap: Gap, error: float, border: float, places: Iterable[float], wins: bool) -> float | None:
        """Where the method's advantage is lost if the logarithm of the ratio is wrong by an error.

        From the border on, over places in one direction, as long as the method `wins`, or does not.
        """

        def shifted(value: float) -> float | None:
            made = gap(value)
            return None if made is None else made - error

        if abs(error) < _EXACT or ((shifted(border) or 0.0) < 0) != wins:
            return border
        last = border
        for value in places:
            if ((shifted(value) or 0.0) < 0) != wins:
                return self._border(shifted, min(last, value), max(last, value), False)
            last = value
        return None

    def _border(self, gap: Gap, low: float, high: float, tight: bool) -> float:
        """The value between two others at which the sign changes; of whole numbers, the last one that is faster."""
        if self.axis.whole:
            return self._whole_border(gap, low, high, tight)
        return find_change(gap, low, high, _TIGHT if tight else _ROUGH)

    def _whole_border(self, gap: Gap, low: float, high: float, tight: bool) -> float:
        rising = (gap(low) or 0.0) < 0
        while high - low > (1 if tight else max(1, low / _PARTS)):
            middle = float((low + high) // 2)
            value = gap(middle)
            if value is None or (value < 0) != rising:
                high = middle
            else:
                low = middle
        return low if rising else high


def _times(scenarios: Sequence[Scenario]) -> list[float | None]:
    """Seconds of an iteration of each scenario; None where its parts do not fit together."""
    made = simulate_batch([without_randomness(scenario) for scenario in scenarios])
    return [None if isinstance(each, InputError) else float(each.figures.times.mean()) for each in made]


def _spread(scenario: Scenario, simulated: bool) -> Spread:
    """The spread of a prediction, with responses where they are asked for and simulating takes little."""
    made = run(scenario)
    return with_responses(made).spread if simulated and not made.plan.prices.flowed else made.spread
