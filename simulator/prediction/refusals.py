"""Answers that a prediction refuses to give, as an input error that names the scenario."""

from __future__ import annotations

import numpy as np

from simulator.engine.plan.plan import Plan
from simulator.errors import InputError, Problem
from simulator.prediction.network_use import NetworkUse, network_uses
from simulator.scenario.scenario import Scenario

_MOST_BUSY = 1 + 1e-9


def refuse_overfull_links(scenario: Scenario, plan: Plan, time: float) -> None:
    """Raise an InputError where the fold was asked for and a link would carry more than it can in an iteration's time.

    Where messages of different workers meet on a link, the fold lets them pass at the same time.
    """
    priced = [plan.prices, *(each.prices for each in plan.shards)]
    if scenario.fidelity != "fold" or not (plan.live or any(each.obstacles for each in priced)):
        return
    name, seconds = max(map(_busiest, network_uses(plan)), key=lambda found: found[1])
    if seconds <= _MOST_BUSY * time:
        return
    raise InputError(
        Problem(
            f"scenario '{scenario.name}': fidelity",
            "`auto` or `flows`",
            f"`fold`, by which {name} would be {100 * seconds / time:.0f} % busy",
            "the fold is not exact here: messages of different workers share this link; use `fidelity: auto`",
        )
    )


def _busiest(use: NetworkUse) -> tuple[str, float]:
    """The busiest link of a network, and the seconds for which it carries bytes beyond its token bucket."""
    held = 0.0 if use.wiring.burst is None else use.wiring.burst
    busy = np.maximum(use.traffic.links - held, 0.0) / use.wiring.capacity
    link = int(busy.argmax())
    return use.wiring.names[link], float(busy[link])
