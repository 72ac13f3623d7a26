"""What comes too late: workers at the deadline of an exchange, and heartbeats behind its data."""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np

from simulator.engine.clock.numbers import Draws
from simulator.engine.plan.plan import Plan
from simulator.prediction.draws import draw_differences
from simulator.prediction.job_setup import plans_of
from simulator.prediction.simulated import Simulated, iterate
from simulator.scenario.cluster import Membership
from simulator.units import show_time

_NO_PAUSE = 1e-3
"""Share of the time up to which links that rest count as always busy."""


def are_apart(plan: Plan) -> bool:
    """Whether no worker waits for another one."""
    return plan.period is not None and not plan.period.together


def within_deadline(simulated: Simulated, membership: Membership, time: float) -> tuple[float, float]:
    """Seconds of a step that waits for nobody beyond the deadline, and the mean share of workers that are in time.

    The same iterations once more, in which whoever is late ends its compute at the deadline. Where workers do not wait
    for each other, a deadline changes nothing.
    """
    scenario, plan = simulated.scenario, simulated.plan
    if membership.deadline is None or are_apart(plan):
        return time, 1.0
    work, pace = plan.work, plan.work.pace
    last = (pace[:, -len(work.backward) :] * work.backward).sum(axis=1)
    compute = plan.steps * (pace[:, 0] * (work.passes.forward + work.passes.earlier_backward) + last)
    chosen, ready = work.selection.sum(axis=1), list[float]()

    def in_time(draws: Draws) -> Draws:
        seconds = compute * draws.compute + chosen
        limit = seconds.min() + membership.deadline
        late = seconds > limit * (1 + 1e-12)
        ready.append(1.0 - float(late.mean()))
        most = np.divide(np.maximum(limit - chosen, 0.0), compute, out=np.zeros_like(seconds), where=compute > 0)
        return Draws(np.where(late, most, draws.compute), np.broadcast_to(draws.selection, seconds.shape))

    others = plans_of(scenario)[1] if scenario.other_jobs else []
    drawn = [in_time(draws) for draws in draw_differences(scenario, plan, bool(others) or plan.remembers)]
    if min(ready) == 1:
        return time, 1.0
    seconds = [each.time for each in iterate(scenario, plan, drawn, others)]
    return fmean(seconds) / plan.steps, fmean(ready[-len(seconds) :])


def find_starvation(simulated: Simulated, membership: Membership, time: float) -> str:
    """Why control traffic does not pass while an exchange lasts; empty where it does."""
    heartbeat, plan = membership.heartbeat, simulated.plan
    if heartbeat is None or not plan.prices.traffic.links.any():
        return ""
    slowest = int(np.argmax(plan.prices.traffic.links / plan.wiring.capacity))
    rate = float(plan.wiring.capacity[slowest])
    behind, whole = heartbeat.queue / rate, plan.steps * float(plan.prices.traffic.links[slowest]) / rate
    # Between the exchanges of two fragments a heartbeat passes, unless one follows the other without a pause.
    pauses = simulated.figures.mean("communication_total") < time * (1 - _NO_PAUSE)
    busy = whole * plan.largest_fragment if pauses else math.inf
    if min(behind, busy) <= heartbeat.timeout:
        return ""
    data = f"an exchange of {show_time(busy)}" if pauses else "exchanges that follow each other without a pause"
    return (
        f"control traffic is starved: a heartbeat on {plan.wiring.names[slowest]} waits {show_time(behind)} behind the "
        f"data of {data}, longer than its timeout of {show_time(heartbeat.timeout)}, so that nodes that work are taken "
        "for failed in every exchange; give it a queue of its own, or a longer timeout"
    )
