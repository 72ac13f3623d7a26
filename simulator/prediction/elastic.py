"""A cluster whose machines come and go: progress, participation and whether it ends, followed and in closed form."""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import NamedTuple

import numpy as np

from simulator.engine.plan.plan import Plan
from simulator.models.curves import Floats
from simulator.models.sampling import Purpose, random_stream
from simulator.prediction.draws import factors
from simulator.prediction.result_parts import Goodput
from simulator.records import replace
from simulator.scenario.cluster import Membership
from simulator.scenario.scenario import Scenario
from simulator.units import show_time

Event = tuple[float, int, bool]
"""A time, a node, and whether it is there from then on."""


class Followed(NamedTuple):
    """What was seen in `seconds`: steps times nodes that last (`progress`), seconds in which work was lost, or all
    waited for the quorum; the mean share of nodes that were there; failures; and the standard error of the progress."""

    seconds: float
    progress: float
    lost: float
    waited: float
    present: float
    failures: int
    error: float


def random_events(nodes: int, up: float, down: float, random: np.random.Generator) -> Iterator[Event]:
    """Failures of each node after exponential times, and its return after `down` seconds, in order, without end."""
    queue: list[Event] = [(float(random.exponential(up)), node, False) for node in range(nodes)]
    heapify(queue)
    while True:
        time, node, there = heappop(queue)
        yield time, node, there
        wait = down if not there else float(random.exponential(up))
        heappush(queue, (time + wait, node, not there))


def follow(
    nodes: int, step: float, events: Iterator[Event], *, detection: float, least: int, seconds: float, parts: int = 20
) -> Followed:
    """Follow nodes that take steps together up to the end of `seconds`.

    A failure loses the step under way, and the others do nothing for `detection` seconds; a node that is back takes
    part from the next step on. With fewer than `least` nodes all wait. The error is that of the mean over `parts` equal
    parts of the time.
    """
    there = np.ones(nodes, dtype=bool)
    clock = began = lost = waited = present = 0.0
    failures, count = 0, nodes
    progress, edges = np.zeros(parts), np.arange(parts + 1) * (seconds / parts)
    for time, node, joins in chain(events, [(math.inf, 0, True)]):  # after the last event, all go on
        until = min(time, seconds)
        if until > clock:
            if count >= least:
                done = int((until - clock) / step + 1e-9)  # a step that ends with the time counts, rounded or not
                if done:  # spread evenly over the parts of the time that it took
                    covered = np.minimum(clock + done * step, edges[1:]) - np.maximum(clock, edges[:-1])
                    progress += done * count * np.maximum(covered, 0.0) / (done * step)
                rest = max(0.0, until - clock - done * step)
                # What is left of a step is lost if a node fails in it, and goes on where one joins.
                if time < seconds and not joins:
                    lost += rest
                    clock = until
                else:
                    clock = until - rest
            else:
                waited += until - clock
                clock = until
        present += count * max(0.0, until - began)
        began = max(began, until)
        if time >= seconds:
            break
        if joins != bool(there[node]):
            there[node] = joins
            count += 1 if joins else -1
            if not joins:
                failures += 1
                noticed = min(time + detection, seconds)
                lost += max(0.0, noticed - clock)
                clock = max(clock, noticed)
    error = float(progress.std(ddof=1) * np.sqrt(parts))
    return Followed(seconds, float(progress.sum()), lost, waited, present / (seconds * nodes), failures, error)


_MOST = 700.0
"""Exponents beyond which nothing is ever completed."""


def completion_time(seconds: float, rate: float, lost: float) -> float:
    """Mean seconds until work of so many seconds is completed, if it begins anew after each failure.

    (e^(rate t) - 1) (1 / rate + lost) for failures at a constant `rate`, each of which costs `lost` seconds more: the
    renewal argument of Young (CACM 17, 1974) and Daly (FGCS 22, 2006). Infinite where it never ends.
    """
    if not rate:
        return seconds
    return math.expm1(rate * seconds) * (1 / rate + lost) if rate * seconds < _MOST else math.inf


def checkpoint_goodput(interval: float, cost: float, recovery: float, rate: float) -> float:
    """Share of the time that is work which lasts, with a checkpoint of `cost` seconds after each `interval`.

    Failures of the whole cluster come at `rate`; each is followed by a `recovery`, which failures begin anew, too:
    tau / (M e^(R/M) (e^((tau + delta)/M) - 1)) with M = 1 / rate (Daly 2006, equation 20).
    """
    if not rate:
        return interval / (interval + cost)
    if rate * (recovery + interval + cost) > _MOST:
        return 0.0
    return interval * rate / (math.exp(rate * recovery) * math.expm1(rate * (interval + cost)))


def best_interval(cost: float, rate: float) -> float:
    """The checkpoint interval with the largest goodput, to Daly's order (2006, equation 37), in seconds.

    sqrt(2 delta M) (1 + sqrt(delta / 2M) / 3 + (delta / 2M) / 9) - delta for delta < 2 M, otherwise M; the first factor
    is Young's (1974). Infinite without failures.
    """
    if not rate:
        return math.inf
    mean = 1 / rate
    if cost >= 2 * mean:
        return mean
    share = cost / (2 * mean)
    return math.sqrt(2 * cost * mean) * (1 + math.sqrt(share) / 3 + share / 9) - cost


def present_nodes(nodes: int, up: float, down: float) -> Floats:
    """Probabilities (nodes + 1,) of how many nodes are there, each up for a mean of `up` seconds and down for `down`.

    Binomial, whatever the distributions of the two (Engset's formula; insensitivity of the repair model).
    """
    if up / (up + down) == 1:
        certain: Floats = np.eye(nodes + 1)[nodes]
        return certain
    there = up / (up + down)
    count = np.arange(nodes + 1)
    log = [math.lgamma(nodes + 1) - math.lgamma(k + 1) - math.lgamma(nodes - k + 1) for k in count.tolist()]
    made: Floats = np.exp(np.array(log) + count * math.log(there) + (nodes - count) * math.log1p(-there))
    return made


def continued_goodput(
    nodes: int, step: float, *, mtbf: float, healing: float, detection: float, least: int = 1
) -> float:
    """Share of the undisturbed progress of nodes that go on with fewer after a failure, which loses one step.

    sum over n >= `least` of (P(n) - D P(n + 1) (n + 1) / M) (n / N) t / C(n), with P of `present_nodes`, whose nodes
    are away for D + `healing` seconds. The subtrahend is the share of the time in which n nodes do nothing, since a
    failure is not noticed for D seconds (`detection`). C is the `completion_time` of a step of t seconds at the rate
    n / M, with M the `mtbf` of a node.
    """
    present = np.append(present_nodes(nodes, mtbf, healing + detection), 0.0).tolist()
    total = 0.0
    for count in range(max(1, least), nodes + 1):
        working = max(0.0, present[count] - detection * present[count + 1] * (count + 1) / mtbf)
        total += working * count / nodes * step / completion_time(step, count / mtbf, 0.0)
    return total


_FAILURES = 4000
"""Failures that are followed."""
_DRAWS = 256
"""Steps whose slowest workers are drawn for a deadline."""
_ENDS = 0.01
"""Goodput below which a training is said never to finish: it would take a hundred times as long."""


def goodput_of(scenario: Scenario, plan: Plan, time: float) -> Goodput | None:
    """Progress where machines come and go: an iteration takes `time` seconds as long as nothing happens; else None."""
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
