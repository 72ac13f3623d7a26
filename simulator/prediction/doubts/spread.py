"""The spread of a prediction: intervals of its time, and of its ratio to another prediction."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from simulator.prediction.doubts.responses import Response
from simulator.prediction.doubts.tails import NORMAL, SHARES, Tails
from simulator.records import Record, replace


class Spread(Record):
    """What is known of a predicted time: its responses to doubts, how errors are distributed, and how much
    single iterations differ, as the logarithms of their 5th and 95th percentiles over the mean."""

    time: float
    responses: tuple[Response, ...]
    iterations: tuple[float, float] = (0.0, 0.0)
    tails: Tails = NORMAL

    def interval(self, percent: int = 90) -> tuple[float, float]:
        """The seconds between which the time lies in so many per cent of cases.

        Inputs are wrong independently of each other, so that the logarithms of their effects add in squares.
        """
        return self._between(self._half_widths, percent)

    def intervals(self) -> dict[int, tuple[float, float]]:
        """The intervals by the per cent of cases that they hold."""
        widths = self._half_widths
        return {percent: self._between(widths, percent) for percent in SHARES}

    def interval_of(self, responses: Iterable[Response]) -> tuple[float, float]:
        """The 90 % interval if no figures but those of these doubts were wrong."""
        return self._between(half_widths([*((item.low, item.high) for item in responses), (0.0, 0.0)]), 90)

    @property
    def _half_widths(self) -> tuple[float, float]:
        return half_widths([*((item.low, item.high) for item in self.responses), self.iterations])

    def _between(self, half_widths: tuple[float, float], percent: int) -> tuple[float, float]:
        stretch = self.tails.stretch[percent]
        below, above = (stretch * each for each in half_widths)
        return self.time * math.exp(-below), self.time * math.exp(above)

    def settled(self) -> Spread:
        """Without what changes a figure and what is said of it, so that another process can be given it."""

        def bare(item: Response) -> Response:
            return item._replace(doubts=tuple(each._replace(change=None, said=()) for each in item.doubts))

        return replace(self, responses=tuple(map(bare, self.responses)))

    @property
    def half_width(self) -> float:
        """Half of the 90 % interval over the time."""
        low, high = self.interval()
        return (high - low) / 2 / self.time if self.time else 0.0


class Ratio(Record):
    """How many times faster one prediction is than another, `log` being the logarithm; what they share cancels.

    `responses`: of that logarithm, largest first.
    """

    log: float
    responses: tuple[Response, ...]
    tails: Tails = NORMAL

    @property
    def value(self) -> float:
        """The speed-up, as predicted."""
        return math.exp(self.log)

    def interval(self, percent: int = 90) -> tuple[float, float]:
        """Between what it lies in so many per cent of cases."""
        below, above = self.half_widths
        stretch = self.tails.stretch[percent]
        return math.exp(self.log - stretch * below), math.exp(self.log + stretch * above)

    def probability(self) -> float:
        """That it is above 1: the probability that the first is faster."""
        below, above = self.half_widths
        half = below if self.log > 0 else above
        if not half:
            return 0.5 if not self.log else float(self.log > 0)
        slower = self.tails.beyond(self.log / half) / 2
        return 1 - slower if self.log > 0 else slower

    @property
    def half_widths(self) -> tuple[float, float]:
        """How far below and above the logarithm is at the ends of all doubts."""
        return half_widths([(item.low, item.high) for item in self.responses])


def compare_spreads(first: Spread, second: Spread) -> Ratio:
    """How many times faster the first is. A doubt that both share has one value, so that its effects are subtracted.

    The ratio of a prediction to itself is 1, with an interval of width 0.
    """
    mine, others = ({item.key: item for item in each.responses} for each in (first, second))
    made = []
    for key in dict.fromkeys([*mine, *others]):
        a, b = mine.get(key), others.get(key)
        doubts = tuple({item.key: item for side in (b, a) if side for item in side.doubts}.values())
        low = (b.low if b else 0.0) - (a.low if a else 0.0)
        high = (b.high if b else 0.0) - (a.high if a else 0.0)
        made.append(Response(key, doubts, low, high))
    made.sort(key=lambda item: -max(abs(item.low), abs(item.high)))
    log = math.log(second.time / first.time) if first.time and second.time else 0.0
    return Ratio(log, tuple(made), first.tails)


def half_widths(ends: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """How far below and above a logarithm may be: the effects of both ends of every doubt, added in squares."""
    below = math.hypot(*[max(0.0, -low, -high) for low, high in ends])
    above = math.hypot(*[max(0.0, low, high) for low, high in ends])
    return below, above
