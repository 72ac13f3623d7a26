"""Answers that a prediction refuses to give, as an input error that names the scenario."""

from __future__ import annotations

import numpy as np

from simulator.engine.plan.plan import Plan
from simulator.errors import InputError, Problem
from simulator.scenario.scenario import Scenario

_MOST_BUSY = 1 + 1e-9


def refuse_overfull_links(scenario: Scenario, plan: Plan, time: float) -> None:
    """Raise an InputError where the fold was asked for and a link would carry more than it can in an iteration's time.

    Where messages of different workers meet on a link, the fold lets them pass at the same time.
    """
    if scenario.fidelity != "fold" or not (plan.live or plan.prices.obstacles):
        return
    wiring, carried = plan.wiring, plan.prices.traffic.links
    held = 0.0 if wiring.burst is None else wiring.burst
    busy = np.maximum(carried - held, 0.0) / wiring.capacity
    link = int(busy.argmax())
    if float(busy[link]) <= _MOST_BUSY * time:
        return
    raise InputError(
        Problem(
            f"scenario '{scenario.name}': fidelity",
            "`auto` or `flows`",
            f"`fold`, by which {wiring.names[link]} would be {100 * float(busy[link]) / time:.0f} % busy",
            "the fold is not exact here: messages of different workers share this link; use `fidelity: auto`",
        )
    )
