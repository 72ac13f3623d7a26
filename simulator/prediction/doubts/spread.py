"""The spread of a prediction: intervals of its time and of its ratio to another prediction, and how errors are
distributed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import NormalDist

from simulator.models.widths import NORMAL_95
from simulator.prediction.doubts.responses import Response
from simulator.prediction.result import SHARES
from simulator.records import Record, field, replace

_NORMAL = {percent: NormalDist().inv_cdf(0.5 + percent / 200) / NORMAL_95 for percent in SHARES}


class Tails(Record):
    """The half-width of an interval over the half-width that the ends of all doubts give, by per cent of cases.

    The ends of a doubt are those of nine cases in ten, so that 1 at 90 % says that the doubts are right about
    themselves. The default is the normal distribution; measured rows have more small and more large errors than it has
    (`simulator.studies.validate.model_error` fits them).
    """

    stretch: Mapping[int, float] = field(default_factory=lambda: _NORMAL)

    def beyond(self, distance: float) -> float:
        """The probability that an error is larger than `distance`, in units of what the doubts give.

        By straight lines between the shares that are known, in the logarithm of the probability, and beyond the last
        one by its last slope.
        """
        distance = abs(distance)
        known = [(0.0, 0.0), *((self.stretch[percent], math.log(1 - percent / 100)) for percent in SHARES)]
        for (start, above), (end, below) in pairwise(known):
            slope = (below - above) / (end - start) if end > start else -math.inf
            if distance <= end:
                return math.exp(above + slope * (distance - start)) if distance > start else math.exp(above)
        return math.exp(below + slope * (distance - end))


NORMAL = Tails()


class Spread(Record):
    """What is known of a predicted time: its responses to doubts, how errors are distributed, and how much
    single iterations differ, as the logarithms of their 5th and 95th percentiles over the mean. `measurement`: what its
    doubts were narrowed by; those of two measurements are not the same any more."""

    time: float
    responses: tuple[Response, ...]
    iterations: tuple[float, float] = (0.0, 0.0)
    tails: Tails = NORMAL
    measurement: str = ""

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
        return self._between(widths_of([*responses], (0.0, 0.0)), 90)

    @property
    def _half_widths(self) -> tuple[float, float]:
        return widths_of(self.responses, self.iterations)

    def _between(self, half_widths: tuple[float, float], percent: int) -> tuple[float, float]:
        stretch = self.tails.stretch[percent]
        below, above = (stretch * each for each in half_widths)
        return self.time * math.exp(-below), self.time * math.exp(above)

    def settled(self) -> Spread:
        """Without what changes a figure and what is said of it, so that another process can be given it."""

        def bare(item: Response) -> Response:
            return item._replace(doubts=tuple(each._replace(change=None, shift=None, said=()) for each in item.doubts))

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
        return widths_of(self.responses)


def compare_spreads(first: Spread, second: Spread) -> Ratio:
    """How many times faster the first is. A doubt that both share has one value, so that its effects are subtracted.

    The ratio of a prediction to itself is 1, with an interval of width 0.
    """
    mine, others = ({item.key: item for item in each.responses} for each in (first, second))
    if first.measurement != second.measurement:
        mine, others = _apart(mine, others)
    made = []
    for key in dict.fromkeys([*mine, *others]):
        a, b = mine.get(key), others.get(key)
        doubts = tuple({item.key: item for side in (b, a) if side for item in side.doubts}.values())
        low = (b.low if b else 0.0) - (a.low if a else 0.0)
        high = (b.high if b else 0.0) - (a.high if a else 0.0)
        made.append(Response(key, doubts, low, high, gains=a.gains if a else b.gains if b else ()))
    made.sort(key=lambda item: -max(abs(item.low), abs(item.high)))
    log = math.log(second.time / first.time) if first.time and second.time else 0.0
    return Ratio(log, tuple(made), first.tails)


_ByKey = dict[tuple[str, str], Response]


def _apart(mine: _ByKey, others: _ByKey) -> tuple[_ByKey, _ByKey]:
    """Responses of two sides that were narrowed by different measurements, and share nothing any more."""
    lengths = (max((len(item.gains) for item in side.values()), default=0) for side in (mine, others))
    before, after = (length * ((0.0, 0.0),) for length in lengths)
    first = {(f"{what}, first", name): item for (what, name), item in mine.items()}
    first = {key: item._replace(gains=item.gains + after) if item.gains else item for key, item in first.items()}
    second = {key: item._replace(gains=before + item.gains) if item.gains else item for key, item in others.items()}
    return first, second


def widths_of(responses: Sequence[Response], *others: tuple[float, float]) -> tuple[float, float]:
    """How far below and above a logarithm may be by these responses and by other ends, after what was measured."""
    ends = [(item.low, item.high) for item in responses]
    known = [item for item in responses if item.gains]
    if not known:
        return half_widths([*ends, *others])
    rest = half_widths([*((item.low, item.high) for item in responses if not item.gains), *others, (0.0, 0.0)])
    return math.hypot(_left(known, 0), rest[0]), math.hypot(_left(known, 1), rest[1])


def _left(known: Sequence[Response], side: int) -> float:
    """The half-width of responses together that measurements left, below (0) or above (1).

    Before, the squares of their slopes r add up; a measured quantity with the gains g leaves (r . g)^2 less.
    """
    slopes = [item.towards((-1.0, 1.0)[side]) for item in known]
    rows = zip(*(item.gains for item in known), strict=True)
    each = (math.fsum(r * g[side] for r, g in zip(slopes, row, strict=True)) for row in rows)
    return math.sqrt(max(0.0, math.fsum(r**2 for r in slopes) - math.fsum(gone**2 for gone in each)))


def alone(item: Response) -> Response:
    """A response by itself, with the ends that measurements left."""
    if not item.gains:
        return item
    before, left = half_widths([(item.low, item.high)]), widths_of([item])
    below, above = (new / old if old else 1.0 for old, new in zip(before, left, strict=True))
    low, high = (end * (below if end < 0 else above) for end in (item.low, item.high))
    return item._replace(low=low, high=high, gains=())


def half_widths(ends: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """How far below and above a logarithm may be: the effects of both ends of every doubt, added in squares."""
    below = math.hypot(*[max(0.0, -low, -high) for low, high in ends])
    above = math.hypot(*[max(0.0, low, high) for low, high in ends])
    return below, above
