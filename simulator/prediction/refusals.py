"""What the engine refuses, as an input error that names the scenario."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from pydantic_core import PydanticCustomError

from simulator.engine.plan.plan import Plan
from simulator.engine.rounds.disturbances import Stalled, TooManyMessages
from simulator.errors import InputError, Problem
from simulator.scenario.scenario import Scenario

_MOST_BUSY = 1 + 1e-9


@contextmanager
def as_input_error(where: str) -> Iterator[None]:
    """Turn what the engine refuses into an InputError with place, expectation and hint."""
    try:
        yield
        return
    except PydanticCustomError as error:
        context = error.context or {}
        problem = (context["what"], context["got"], context["hint"])
    except Stalled as error:
        links = ", ".join(error.args[0]) or "its links"
        hint = "a link that is down for good blocks the exchange: give it an `until`, or a `factor` above 0"
        problem = ("every exchange to end", f"workers that wait for {links} for ever", hint)
    except TooManyMessages as error:
        hint = "fewer workers, a topology with fewer rounds, or `fidelity: fold`"
        problem = ("an exchange that flows can follow", f"{error.args[0]:,} messages", hint)
    raise InputError(Problem(where, *problem))


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
