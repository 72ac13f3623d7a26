"""How the time of an iteration responds to each of its doubts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from simulator.engine.plan.plan import Plan
from simulator.errors import InputError, unless_refused
from simulator.prediction.doubts.doubt import Doubt
from simulator.prediction.simulated import Simulated, simulate_batch
from simulator.scenario.changes import without_randomness
from simulator.scenario.scenario import Scenario

_MANY_LINKS, _MANY_FLOWS = 2**14, 2**9
"""Links from which on one simulation takes about a second: in any case, and where messages are followed."""
_SMALL = 1e-3
"""Doubts that change the iteration by no more than this share are not looked at more closely."""
_LEAST = 0.05
"""An iteration is never shortened to less than this share of its time."""


Gains = tuple[tuple[float, float], ...]


class Response(NamedTuple):
    """Doubts that are wrong the same way, and the logarithm of the iteration's time over the predicted one where they
    have their lower and their upper ends. `exact`: both ends were simulated. `gains`: what each measured
    quantity says of its doubts, about the lower and the upper end (`simulator.prediction.doubts.posterior`)."""

    key: tuple[str, str]
    doubts: tuple[Doubt, ...]
    low: float
    high: float
    exact: bool = False
    gains: Gains = ()

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
        means = ((response, each.means.get(response.key, 0.0)) for response in chosen)
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
    """The responses to simulate: of doubts that can be changed, and that matter to first order, or may."""
    plan = asked.simulated.plan
    if plan.live or is_heavy(plan) or not asked.time:
        return []
    changeable = [(it, [item for item in it.doubts if item.change is not None]) for it in linear]
    return [
        response
        for response, items in changeable
        if items and (max(-response.low, response.high) > _SMALL or not all(item.more for item in items))
    ]


def _at_end(scenario: Scenario, response: Response, end: float, mean: float) -> Scenario:
    """The scenario with the figures at one end, which is that much from their mean."""
    for item in response.doubts:
        scenario = scenario if item.change is None else item.change(scenario, end + mean if item.absolute else end)
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
