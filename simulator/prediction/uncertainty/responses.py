"""How the time of an iteration responds to each of its uncertain inputs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from simulator.engine.plan.plan import Plan
from simulator.errors import InputError
from simulator.prediction.simulated import steady_time
from simulator.prediction.uncertainty.inputs import UncertainInput
from simulator.scenario.scenario import Scenario

_MANY_LINKS, _MANY_FLOWS = 2**14, 2**9
"""Links from which on one simulation takes about a second: in any case, and where messages are followed."""
_SMALL = 1e-3
"""Inputs that change the iteration by no more than this share are not looked at more closely."""
_LEAST = 0.05
"""An iteration is never shortened to less than this share of its time."""


@dataclass(frozen=True, slots=True)
class Response:
    """Inputs that are wrong the same way, and the logarithm of the iteration's time over the predicted one where they
    have their lower and their upper ends. `exact`: both ends were simulated."""

    key: tuple[str, str]
    inputs: tuple[UncertainInput, ...]
    low: float
    high: float
    exact: bool = False


def respond_linearly(inputs: Iterable[UncertainInput], time: float) -> list[Response]:
    """Responses to first order: the seconds that each input decides, and no other simulation."""
    return [_first_order(group, time) for group in group_shared(inputs)]


def respond(scenario: Scenario, plan: Plan, inputs: Iterable[UncertainInput], time: float) -> list[Response]:
    """Responses by simulating the scenario with both ends of each input.

    Exchanges that share links, and very large networks, take long to simulate, and are left at first order.
    """
    base = None if plan.live or is_heavy(plan) else steady_time(scenario)
    made = []
    for group in group_shared(inputs):
        linear = _first_order(group, time)
        changes = [item.change for item in group if item.change is not None]
        unknown = any(item.change is not None and not item.more for item in group)
        if base is None or not changes or not (unknown or max(-linear.low, linear.high) > _SMALL):
            made.append(linear)
            continue
        low, high = (_changed(scenario, group, end, base, time) for end in (-1.0, 1.0))
        made.append(Response(linear.key, linear.inputs, low, high, exact=True))
    return made


def is_heavy(plan: Plan) -> bool:
    """Whether one simulation takes so long that dozens of them are too many: very many links, or messages that are
    followed one by one over many."""
    links = len(plan.wiring.names)
    return links > _MANY_LINKS or (plan.prices.flowed > 0 and links > _MANY_FLOWS)


def group_shared(inputs: Iterable[UncertainInput]) -> list[tuple[UncertainInput, ...]]:
    """Inputs that are wrong the same way together, in order of first appearance."""
    groups: dict[tuple[str, str], list[UncertainInput]] = defaultdict(list)
    for item in inputs:
        groups[item.response_key].append(item)
    return [tuple(group) for group in groups.values()]


def _first_order(group: tuple[UncertainInput, ...], time: float) -> Response:
    less, more = (math.fsum(getattr(item, name) for item in group) for name in ("less", "more"))
    if not time:
        return Response(group[0].response_key, group, 0.0, 0.0)
    return Response(group[0].response_key, group, math.log(max(_LEAST, 1 - less / time)), math.log(1 + more / time))


def _changed(scenario: Scenario, group: tuple[UncertainInput, ...], end: float, base: float, time: float) -> float:
    """ln of the time with the inputs at one end over the predicted time; what differs at random is left as it is."""
    changed = scenario
    for item in group:
        if item.change is not None:
            changed = item.change(changed, end)
    try:
        difference = steady_time(changed) - base
    except InputError:  # the parts no longer fit together, such as a schedule that needs a curve
        return 0.0
    return math.log(max(_LEAST, 1 + difference / time))


def by_key(responses: Iterable[Response]) -> Mapping[tuple[str, str], Response]:
    """Responses by what they respond to."""
    return {item.key: item for item in responses}
