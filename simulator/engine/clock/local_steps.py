"""Periods of local steps that all have a price: each goes on from where the one before it ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from simulator.engine.clock.draws import Draws
from simulator.engine.clock.evaluate import evaluate
from simulator.engine.clock.intervals import Intervals, State
from simulator.engine.clock.numbers import latest, number_tasks
from simulator.engine.clock.spans import IntervalDetails
from simulator.engine.clock.terms import account
from simulator.engine.plan.plan import Plan
from simulator.models.graph import Graph
from simulator.models.timeline import Iteration

MOST_PERIODS = 1000
"""Periods after which one is taken as it is; a queue of exchanges can grow slowly before compute waits for it."""
_SAME = 1e-12


def run_periods(graph: Graph, plan: Plan, draws: Iterable[Draws]) -> Iterator[Iteration]:
    """Periods, one for each of `draws`; the first is repeated until it repeats itself."""
    state: State | None = None
    settled = not graph.crosses
    for each in draws:
        numbers, before = number_tasks(graph, [(plan, each)]), (-1.0, 0.0)
        for _ in range(1 if settled else MOST_PERIODS):
            ran = evaluate(graph, numbers, state)
            state, made = ran.state, finished(ran)
            if same_period(before, (made.time, left_over(ran))):
                break
            before = made.time, left_over(ran)
        settled = True
        yield made


def finished(ran: Intervals) -> Iteration:
    """What has run, as an iteration."""
    (made,) = account(ran)
    made.start = latest(ran.began)
    made.details = IntervalDetails(lambda: ran)
    return made


def left_over(ran: Intervals) -> float:
    """Seconds for which exchanges go on after a period; a queue that grows shows in its length only later."""
    return 0.0 if ran.state is None else latest(np.maximum(ran.state.free, ran.state.now) - ran.state.now)


def same_period(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether two periods take as long, and leave as much over."""
    return np.allclose(one, other, _SAME, _SAME * other[0])
