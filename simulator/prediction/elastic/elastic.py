"""What a result says of a cluster whose machines come and go: progress, participation, and whether it ever ends."""

from __future__ import annotations

import math

import numpy as np

from simulator.engine.plan.plan import Plan
from simulator.models.sampling import Purpose, random_stream
from simulator.prediction.draws import factors
from simulator.prediction.elastic.follow import follow, random_events
from simulator.prediction.elastic.renewal import (
    best_interval,
    checkpoint_goodput,
    continued_goodput,
    present_nodes,
)
from simulator.prediction.result_parts import Goodput
from simulator.records import replace
from simulator.scenario.membership import Membership
from simulator.scenario.scenario import Scenario
from simulator.units import show_time

_FAILURES = 4000
"""Failures that are followed."""
_DRAWS = 256
"""Steps whose slowest workers are drawn for a deadline."""
_ENDS = 0.01
"""Goodput below which a training is said never to finish: it would take a hundred times as long."""


def goodput_of(scenario: Scenario, plan: Plan, time: float) -> Goodput | None:
    """Progress where machines come and go: an iteration takes `time` seconds as long as nothing happens."""
    membership = scenario.cluster.membership
    if membership is None:
        return None
    saved, participation = _of_deadline(scenario, plan, membership)
    period = plan.steps * max(time - saved, 0.0)
    nodes, mtbf = scenario.cluster.nodes, membership.mean_time_between_failures
    made = Goodput(
        failures_per_hour=0.0 if mtbf is None else 3600 * nodes / mtbf,
        goodput=1.0,
        participation=1.0,
        finishes=True,
        cause="",
        iteration_time=time,
    )
    if membership.policy == "checkpoint":
        made = _with_checkpoints(made, membership, nodes)
    else:
        made = _of_those_who_go_on(made, scenario, membership, period)
    starved = _starvation(plan, membership)
    goodput = 0.0 if starved else made.goodput
    goodput *= (time / (time - saved) if time > saved else 1.0) * participation
    finishes = goodput >= _ENDS
    return replace(
        made,
        goodput=goodput,
        participation=made.participation * participation,
        finishes=finishes,
        cause="" if finishes else starved or _cause(made, membership, nodes, period),
        iteration_time=time / goodput if finishes else None,
    )


def _least(membership: Membership, nodes: int) -> int:
    return max(1, math.ceil(membership.quorum * nodes - 1e-9))


def _down_time(membership: Membership) -> float:
    """Seconds for which a node that failed is away, or for which all recover."""
    return membership.healing_time + membership.detection_time


def _of_those_who_go_on(made: Goodput, scenario: Scenario, membership: Membership, period: float) -> Goodput:
    """The progress of nodes that go on with fewer, followed over thousands of failures, or over recorded changes."""
    nodes, mtbf = scenario.cluster.nodes, membership.mean_time_between_failures
    least, detection = _least(membership, nodes), membership.detection_time
    closed = None
    if mtbf is None:
        changes = [
            (item.time + membership.healing_time * (item.what == "joins"), item.node, item.what == "joins")
            for item in membership.events
        ]
        last = max((time + detection * (not joins) for time, _, joins in changes), default=0.0)
        seconds, events = membership.duration or (last + period), iter(sorted(changes))
    else:
        down = _down_time(membership)
        seconds = _FAILURES / nodes * (mtbf + down)
        events = random_events(nodes, mtbf, down, random_stream(scenario.seed, Purpose.FAILURES, 0))
        healing = membership.healing_time
        closed = continued_goodput(nodes, period, mtbf=mtbf, healing=healing, detection=detection, least=least)
    seen = follow(nodes, period, events, detection=detection, least=least, seconds=seconds)
    whole = seen.seconds / period * nodes
    return replace(
        made,
        goodput=seen.progress / whole,
        goodput_error=seen.error / whole,
        lost_share=seen.lost / seen.seconds,
        waiting_for_quorum_share=seen.waited / seen.seconds,
        failures_followed=seen.failures,
        goodput_in_closed_form=closed,
        participation=seen.present,
    )


def _with_checkpoints(made: Goodput, membership: Membership, nodes: int) -> Goodput:
    """The progress where all go back to the last checkpoint, and that with the best interval."""
    rate = nodes / membership.mean_time_between_failures if membership.mean_time_between_failures else 0.0
    interval, cost = membership.checkpoint_interval or 1.0, membership.checkpoint_time
    recovery, best = _down_time(membership), best_interval(cost, rate)
    exists = 0 < best < math.inf
    return replace(
        made,
        goodput=checkpoint_goodput(interval, cost, recovery, rate),
        best_checkpoint_interval=best if exists else None,
        best_goodput=checkpoint_goodput(best, cost, recovery, rate) if exists else None,
    )


def _of_deadline(scenario: Scenario, plan: Plan, membership: Membership) -> tuple[float, float]:
    """Seconds of a step that a deadline saves, and the mean share of workers that are ready by then."""
    stragglers, p = scenario.cluster.stragglers, scenario.cluster.workers
    if membership.deadline is None or p == 1:
        return 0.0, 1.0
    fixed = np.ones(p)
    for item in stragglers.slow:
        fixed[item.worker] *= item.factor
    spread = stragglers.model_copy(update={"jitter": stragglers.jitter / math.sqrt(plan.steps)})
    normal = random_stream(scenario.seed, Purpose.FAILURES, 1).standard_normal((_DRAWS, p))
    seconds = plan.steps * plan.work.compute_alone * fixed * factors(spread, normal)
    limit = seconds.min(axis=1) + membership.deadline
    late = np.maximum(seconds.max(axis=1) - limit, 0.0)
    return float(late.mean()) / plan.steps, float((seconds <= limit[:, None]).mean())


def _starvation(plan: Plan, membership: Membership) -> str:
    """Why control traffic does not pass while an exchange lasts; empty where it does."""
    heartbeat = membership.heartbeat
    if heartbeat is None or not plan.prices.traffic.links.any():
        return ""
    slowest = int(np.argmax(plan.prices.traffic.links / plan.wiring.capacity))
    rate = float(plan.wiring.capacity[slowest])
    behind, busy = heartbeat.queue / rate, plan.steps * float(plan.prices.traffic.links[slowest]) / rate
    if min(behind, busy) <= heartbeat.timeout:
        return ""
    return (
        f"control traffic is starved: a heartbeat on {plan.wiring.names[slowest]} waits {show_time(behind)} behind the "
        f"data of an exchange of {show_time(busy)}, longer than its timeout of {show_time(heartbeat.timeout)}, so that "
        "nodes that work are taken for failed in every exchange; give it a queue of its own, or a longer timeout"
    )


def _cause(made: Goodput, membership: Membership, nodes: int, period: float) -> str:
    mtbf = membership.mean_time_between_failures
    least = _least(membership, nodes)
    if mtbf is None:
        if (made.waiting_for_quorum_share or 0.0) > (made.lost_share or 0.0):
            return f"fewer than {least} of {nodes} nodes are there between the recorded changes, most of the time"
        return f"a period of {show_time(period)} is hardly ever completed in the time of the recorded changes"
    rate = nodes / mtbf
    if membership.policy == "checkpoint":
        length = (membership.checkpoint_interval or 0.0) + membership.checkpoint_time
        recovery = show_time(_down_time(membership))
        return (
            f"the cluster fails every {show_time(1 / rate)}, and the work up to a checkpoint takes "
            f"{show_time(length)}, with a recovery of {recovery} after each failure"
        )
    present = present_nodes(nodes, mtbf, _down_time(membership))
    if float(present[least:].sum()) < 0.5:
        mean = nodes * mtbf / (mtbf + _down_time(membership))
        return f"the quorum is lost: {mean:.1f} of {nodes} nodes are there on average, and {least} are needed"
    return f"a period of {show_time(period)} is hardly ever completed: a node fails every {show_time(1 / rate)}"
