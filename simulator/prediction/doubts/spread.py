"""How the time of an iteration responds to its doubts, and the spread that follows, of it and of a ratio of two."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import NormalDist
from typing import NamedTuple

from simulator.engine.plan.plan import Plan
from simulator.errors import InputError, unless_refused
from simulator.models.widths import NORMAL_95
from simulator.prediction.doubts.doubt import Doubt
from simulator.prediction.result import SHARES
from simulator.prediction.result_parts import Word
from simulator.prediction.simulated import Simulated, simulate_batch
from simulator.records import Record, field, replace
from simulator.scenario.changes import without_randomness
from simulator.scenario.scenario import Scenario

_MANY_LINKS, _MANY_FLOWS = 2**14, 2**9
"""Links from which on one simulation takes about a second: in any case, and where messages are followed."""
_SMALL = 1e-3
"""Doubts that change the iteration by no more than this share are not looked at more closely."""
SURE = 0.95
"""Probability from which a question is decided."""
ALIKE = 0.02
"""A ratio that is within this of 1, with its whole 90 % interval, makes no difference."""
_LEAST = 0.05
"""An iteration is never shortened to less than this share of its time."""


Gains = tuple[tuple[float, float], ...]


class Response(NamedTuple):
    """Doubts that are wrong the same way, and the logarithm of the iteration's time over the predicted one where they
    have their lower and their upper ends. `exact`: both ends were simulated. `gains`: what each measured
    quantity says of its doubts, about the lower and the upper end (`simulator.prediction.doubts.posterior`).
    `as_stated`: it is no further off in the ratio of two predictions than in one."""

    key: tuple[str, str]
    doubts: tuple[Doubt, ...]
    low: float
    high: float
    exact: bool = False
    gains: Gains = ()
    as_stated: bool = False

    def towards(self, sign: float) -> float:
        """By how much its value moves the logarithm up (1) or down (-1), by the end that does; 0 where none does."""
        sign = math.copysign(1.0, sign)
        best = max(sign * self.high, sign * self.low, 0.0)
        return 0.0 if not best else sign * (best if sign * self.high == best else -best)


def respond_linearly(doubts: Iterable[Doubt], time: float) -> list[Response]:
    """Responses to first order: the seconds that each doubt decides, and no other simulation."""
    return [_first_order(group, time) for group in group_shared(doubts)]


class Asked(NamedTuple):
    """A simulated scenario, its doubts, and its predicted seconds, whose responses are asked for. `means`: where
    its figures were moved to by a measurement."""

    simulated: Simulated
    doubts: Sequence[Doubt]
    time: float
    means: Mapping[tuple[str, str], float] = {}


def respond(asked: Sequence[Asked]) -> list[tuple[Response, ...]]:
    """Responses by simulating each scenario with both ends of each of its doubts, all in one batch.

    Exchanges that share links, and very large networks, take long to simulate, and are left at first order.
    """
    linear = [respond_linearly(each.doubts, each.time) for each in asked]
    closer = [_look_closer(*both) for both in zip(asked, linear, strict=True)]
    steady = [without_randomness(each.simulated.scenario) for each in asked]
    random = [base is not each.simulated.scenario for base, each in zip(steady, asked, strict=True)]
    changed = list[Scenario]()
    for each, chosen, base, anew in zip(asked, closer, steady, random, strict=True):
        means = ((response, each.means.get(response.key)) for response in chosen)
        changed += [base] if chosen and anew else []
        changed += [_at_end(base, response, end, mean) for response, mean in means for end in (-1.0, 1.0)]
    simulated = iter(simulate_batch(changed, terms=False))
    made = []
    for each, responses, chosen, anew in zip(asked, linear, closer, random, strict=True):
        again, exact = unless_refused(next(simulated) if chosen and anew else each.simulated), {}
        time = float(again.figures.times.mean())
        for response in chosen:
            low, high = (_logarithm(next(simulated), time, each.time) for _ in range(2))
            exact[response.key] = response._replace(low=low, high=high, exact=True)
        made.append(tuple(exact.get(response.key, response) for response in responses))
    return made


def _look_closer(asked: Asked, linear: Sequence[Response]) -> list[Response]:
    """The responses to simulate: of doubts that can be changed, and that matter to first order, or may.

    So are all that a measurement moved, since what it says of them was simulated too.
    """
    plan = asked.simulated.plan
    if plan.live or is_heavy(plan) or not asked.time:
        return []
    changeable = [(it, [item for item in it.doubts if item.change is not None]) for it in linear]
    return [
        response
        for response, items in changeable
        if response.key in asked.means
        or (items and (max(-response.low, response.high) > _SMALL or not all(item.more for item in items)))
    ]


def _at_end(scenario: Scenario, response: Response, end: float, mean: float | None) -> Scenario:
    """The scenario with the figures at one end, which is that much from where a measurement moved their mean, if any
    did."""
    for item in response.doubts:
        change = item.change if mean is None else item.change or item.shift
        if change is not None:
            scenario = change(scenario, end + (mean or 0.0) if item.absolute else end)
    return scenario


def moved(scenario: Scenario, groups: Sequence[Sequence[Doubt]], ends: Mapping[tuple[str, str], float]) -> Scenario:
    """The scenario with the figures of doubts at so many of their upper ends, by the key of their response."""
    for group in groups:
        if end := ends.get(group[0].response_key):
            for item in group:
                change = item.change or item.shift
                scenario = scenario if change is None else change(scenario, end)
    return scenario


def _logarithm(changed: Simulated | InputError, base: float, time: float) -> float:
    """ln of the time at one end over the predicted time; what differs at random is left as it is."""
    if isinstance(changed, InputError):  # the parts no longer fit together, such as a schedule that needs a curve
        return 0.0
    return math.log(max(_LEAST, 1 + (float(changed.figures.times.mean()) - base) / time))


def is_heavy(plan: Plan) -> bool:
    """Whether one simulation takes so long that dozens of them are too many: very many links, or messages that are
    followed one by one over many."""
    links = len(plan.wiring.names)
    return links > _MANY_LINKS or (plan.prices.flowed > 0 and links > _MANY_FLOWS)


def group_shared(doubts: Iterable[Doubt]) -> list[tuple[Doubt, ...]]:
    """Doubts that are wrong the same way together, in order of first appearance."""
    groups: dict[tuple[str, str], list[Doubt]] = defaultdict(list)
    for item in doubts:
        groups[item.response_key].append(item)
    return [tuple(group) for group in groups.values()]


def _first_order(group: tuple[Doubt, ...], time: float) -> Response:
    first = group[0]
    less, more = first.less, first.more
    if len(group) > 1:
        less, more = math.fsum([item.less for item in group]), math.fsum([item.more for item in group])
    if not time:
        return Response(first.response_key, group, 0.0, 0.0)
    return Response(first.response_key, group, math.log(max(_LEAST, 1 - less / time)), math.log(1 + more / time))


_NORMAL = {percent: NormalDist().inv_cdf(0.5 + percent / 200) / NORMAL_95 for percent in SHARES}


class Tails(Record):
    """The half-width of an interval over the half-width that the ends of all doubts give, by per cent of cases.

    The ends of a doubt are those of nine cases in ten, so that 1 at 90 % says that the doubts are right about
    themselves. The default is the normal distribution; measured rows have more small and more large errors than it has
    (`simulator.studies.validate.model_error` fits them). `speed_ups`: how many times as far the ratio of two
    predictions may be off, since what they share is not equally wrong in both.
    """

    stretch: Mapping[int, float] = field(default_factory=lambda: _NORMAL)
    speed_ups: float = 1.0

    @property
    def of_ratios(self) -> Tails:
        """Those of the ratio of two predictions."""
        return Tails({percent: self.speed_ups * each for percent, each in self.stretch.items()})

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
        # By what inputs give, stretched as measured errors are distributed, and by what single iterations differ.
        inputs, rest = widths_of(self.responses), half_widths([self.iterations])
        stretch, normal = self.tails.stretch[percent], _NORMAL[percent]
        below, above = (math.hypot(stretch * each, normal * end) for each, end in zip(inputs, rest, strict=True))
        return self.time * math.exp(-below), self.time * math.exp(above)

    def intervals(self) -> dict[int, tuple[float, float]]:
        """The intervals by the per cent of cases that they hold."""
        return {percent: self.interval(percent) for percent in SHARES}

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
        below, above = widths_of(self.responses)
        stretch = self.tails.stretch[percent]
        return math.exp(self.log - stretch * below), math.exp(self.log + stretch * above)

    def probability(self) -> float:
        """That it is above 1: the probability that the first is faster."""
        below, above = widths_of(self.responses)
        half = below if self.log > 0 else above
        if not half:
            return 0.5 if not self.log else float(self.log > 0)
        slower = self.tails.beyond(self.log / half) / 2
        return 1 - slower if self.log > 0 else slower

    @property
    def word(self) -> Word:
        """`yes`: faster with a probability of at least 95 %; `no`: slower; `alike`: surely no difference."""
        low, high = self.interval()
        if low >= 1 - ALIKE and high <= 1 + ALIKE:
            return "alike"
        probability = self.probability()
        return "yes" if probability >= SURE else "no" if probability <= 1 - SURE else "undecided"


_NONE = Response(("", ""), (), 0.0, 0.0)


def compare_spreads(first: Spread, second: Spread) -> Ratio:
    """How many times faster the first is. A doubt that both share has one value, so that its effects are subtracted.

    The ratio of a prediction to itself is 1, with an interval of width 0; where one of them takes for ever it is 0, or
    infinite.
    """
    mine, others = ({item.key: item for item in each.responses} for each in (first, second))
    if first.measurement != second.measurement:
        mine, others = _apart(mine, others)
    made = []
    for key in dict.fromkeys([*mine, *others]):
        a, b = (side.get(key, _NONE) for side in (mine, others))
        either, doubts = mine.get(key, b), {item.key: item for side in (b, a) for item in side.doubts}
        further = first.tails.speed_ups if either.as_stated else 1.0
        ends = (b.low - a.low) / further, (b.high - a.high) / further
        made.append(either._replace(key=key, doubts=tuple(doubts.values()), low=ends[0], high=ends[1], exact=False))
    made.sort(key=lambda item: -max(abs(item.low), abs(item.high)))
    log = 0.0
    if first.time and second.time and first.time != second.time:
        log = math.log(second.time / first.time) if first.time < math.inf else -math.inf
    return Ratio(log, tuple(made), first.tails.of_ratios)


_ByKey = dict[tuple[str, str], Response]


def _apart(mine: _ByKey, others: _ByKey) -> tuple[_ByKey, _ByKey]:
    """Responses of two sides that were narrowed by different measurements, and share nothing any more."""
    lengths = (max((len(item.gains) for item in side.values()), default=0) for side in (mine, others))
    before, after = (length * ((0.0, 0.0),) for length in lengths)
    first = {(f"{what}, first", name): item for (what, name), item in mine.items()}
    first = {key: item._replace(gains=item.gains + after) if item.gains else item for key, item in first.items()}
    second = {key: item._replace(gains=before + item.gains) if item.gains else item for key, item in others.items()}
    return first, second


def widths_of(responses: Sequence[Response]) -> tuple[float, float]:
    """How far below and above a logarithm may be by these responses, after what was measured."""
    known = [item for item in responses if item.gains]
    rest = half_widths([(item.low, item.high) for item in responses if not item.gains])
    if not known:
        return rest
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
