"""A cluster whose machines come and go: progress, participation and whether it ends, followed and in closed form."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import NamedTuple

import numpy as np

from simulator.models.curves import Floats
from simulator.models.sampling import Purpose, random_stream
from simulator.prediction.lateness import are_apart, find_starvation, within_deadline
from simulator.prediction.result_parts import Goodput
from simulator.prediction.simulated import Simulated
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


def events_of_copies(events: Iterable[Event], each: int) -> Iterator[Event]:
    """Events of copies of the model, on `each` nodes that follow each other: one is there while all its nodes are."""
    away = defaultdict[int, set[int]](set)
    for time, node, joins in events:
        missing = away[node // each]
        before = bool(missing)
        (missing.discard if joins else missing.add)(node)
        if bool(missing) != before:
            yield time, node // each, joins


def follow(
    nodes: int,
    step: float,
    events: Iterable[Event],
    *,
    detection: float,
    least: int,
    seconds: float,
    apart: bool = False,
    parts: int = 20,
) -> Followed:
    """Follow nodes that take steps together up to the end of `seconds`.

    A failure loses the step under way, and the others do nothing for `detection` seconds; a node that is back takes
    part from the next step on. With fewer than `least` nodes all wait. A step that the end cuts off counts in part.
    `apart`: nodes do not wait for each other, so that a failure loses the step of its own node and nothing else. The
    error is that of the mean over `parts` equal parts of the time.
    """
    there = [True] * nodes
    clock = worked = seen = lost = waited = present = 0.0
    failures, count = 0, nodes
    spans = list[tuple[float, float, float]]()  # of time, and the steps of nodes that last of it
    # Up to which seconds of work steps were counted, and when that was: of all together, or of each node.
    counted = [(0.0, 0.0)] * (nodes if apart else 1)

    def count_steps(place: int, those: int, whole: bool = True) -> None:
        since, before = counted[place]
        done = (worked - since) / step
        done = math.floor(done + 1e-9) if whole else done  # a step that ends with the time counts, rounded or not
        if done:
            spans.append((before, clock, done * those))
        counted[place] = since + done * step, clock

    for time, node, joins in chain(events, [(math.inf, 0, True)]):  # after the last event, all go on
        until = min(time, seconds)
        present += count * max(0.0, until - seen)
        seen = max(seen, until)
        if until > clock:
            worked += (until - clock) * (count >= least)
            waited += (until - clock) * (count < least)
            clock = until
        if time >= seconds:
            break
        if joins == there[node]:
            continue
        place = node if apart else 0
        if not (apart and joins):
            count_steps(place, 1 if apart else count)
        there[node] = joins
        count += 1 if joins else -1
        if not joins:
            failures += 1
            noticed = clock if apart else max(clock, min(time + detection, seconds))
            lost += (worked - counted[place][0]) / (nodes if apart else 1) + noticed - clock
            clock = noticed
        if apart or not joins:  # what was under way is lost, or begins
            counted[place] = worked, clock
    for place in [node for node in range(nodes) if there[node]] if apart else [0]:
        count_steps(place, 1 if apart else count, whole=False)
    first, end, steps = np.array(spans or [(0.0, 1.0, 0.0)]).T[:, :, None]
    edges = np.arange(parts + 1) * (seconds / parts)
    covered = np.maximum(np.minimum(end, edges[1:]) - np.maximum(first, edges[:-1]), 0.0)
    progress = (steps * covered / (end - first)).sum(axis=0)
    error = float(progress.std(ddof=1) * np.sqrt(parts))
    return Followed(seconds, float(progress.sum()), float(lost), waited, present / (seconds * nodes), failures, error)


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
    nodes: int,
    step: float,
    *,
    mtbf: float,
    healing: float,
    detection: float,
    least: int = 1,
    apart: bool = False,
) -> float:
    """Share of the undisturbed progress of nodes that go on with fewer after a failure, which loses one step.

    sum over n >= `least` of (P(n) - D P(n + 1) (n + 1) / M) (n / N) t / C(n), with P of `present_nodes`, whose nodes
    are away for D + `healing` seconds. The subtrahend is the share of the time in which n nodes do nothing, since a
    failure is not noticed for D seconds (`detection`). C is the `completion_time` of a step of t seconds at the rate
    n / M, with M the `mtbf` of a node. `apart`: nodes do not wait for each other, so that none does nothing, and each
    loses its own steps, at the rate 1 / M.
    """
    present = np.append(present_nodes(nodes, mtbf, healing + detection), 0.0).tolist()
    total = 0.0
    for count in range(max(1, least), nodes + 1):
        unnoticed = 0.0 if apart else detection * present[count + 1] * (count + 1) / mtbf
        lasts = step / completion_time(step, (1 if apart else count) / mtbf, 0.0)
        total += max(0.0, present[count] - unnoticed) * count / nodes * lasts
    return total


_FAILURES = 4000
"""Failures that are followed."""
_ENDS = 0.01
"""Goodput below which a training is said never to finish: it would take a hundred times as long."""


def goodput_of(simulated: Simulated) -> Goodput | None:
    """Progress where machines come and go, over that of the simulated iterations, in which nothing happens; else None.

    Several nodes that hold one copy of the model together come and go together.
    """
    scenario, plan, time = simulated.scenario, simulated.plan, float(simulated.figures.times.mean())
    membership, nodes = scenario.cluster.membership, scenario.cluster.nodes
    if membership is None or not time:
        return None
    shorter, participation = within_deadline(simulated, membership, time)
    period, mtbf = plan.steps * shorter, membership.mean_time_between_failures
    copies = min(nodes, plan.setup.workers)
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
        made = _of_those_who_go_on(made, scenario, membership, period, copies, apart=are_apart(plan))
    starved = find_starvation(simulated, membership, time)
    goodput = 0.0 if starved else made.goodput
    goodput *= time / shorter * participation
    finishes = goodput >= _ENDS
    return replace(
        made,
        goodput=goodput,
        participation=made.participation * participation,
        finishes=finishes,
        cause="" if finishes else starved or _cause(made, membership, nodes, period, copies),
        iteration_time=time / goodput if finishes else None,
    )


def _least(membership: Membership, copies: int) -> int:
    return max(1, math.ceil(membership.quorum * copies - 1e-9))


def _down_time(membership: Membership) -> float:
    """Seconds for which a node that failed is away, or for which all recover."""
    return membership.healing_time + membership.detection_time


def _up_and_down(mtbf: float, down: float, each: int) -> tuple[float, float]:
    """Mean seconds for which a copy of the model on `each` nodes is there, and is away because any of them is."""
    return mtbf / each, mtbf / each * math.expm1(min(_MOST, each * math.log1p(down / mtbf)))


def _of_those_who_go_on(
    made: Goodput, scenario: Scenario, membership: Membership, period: float, copies: int, *, apart: bool
) -> Goodput:
    """The progress of those who go on with fewer, followed over thousands of failures, or over recorded changes."""
    nodes, mtbf = scenario.cluster.nodes, membership.mean_time_between_failures
    least, detection, each = _least(membership, copies), membership.detection_time, nodes // copies
    closed = None
    events: Iterator[Event]
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
        up, away = _up_and_down(mtbf, down, each)
        alike = {"mtbf": up, "healing": away - detection, "detection": detection}
        closed = continued_goodput(copies, period, **alike, least=least, apart=apart)
    changing = events_of_copies(events, each)
    seen = follow(copies, period, changing, detection=detection, least=least, seconds=seconds, apart=apart)
    whole = seen.seconds / period * copies
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


def _cause(made: Goodput, membership: Membership, nodes: int, period: float, copies: int) -> str:
    mtbf, least = membership.mean_time_between_failures, _least(membership, copies)
    named = f"{copies} {'nodes' if copies == nodes else 'copies of the model'} are there"
    if mtbf is None:
        if (made.waiting_for_quorum_share or 0.0) > (made.lost_share or 0.0):
            return f"fewer than {least} of {named} between the recorded changes, most of the time"
        return f"a period of {show_time(period)} is hardly ever completed in the time of the recorded changes"
    rate = nodes / mtbf
    if membership.policy == "checkpoint":
        length = (membership.checkpoint_interval or 0.0) + membership.checkpoint_time
        recovery = show_time(_down_time(membership))
        return (
            f"the cluster fails every {show_time(1 / rate)}, and the work up to a checkpoint takes "
            f"{show_time(length)}, with a recovery of {recovery} after each failure"
        )
    up, away = _up_and_down(mtbf, _down_time(membership), nodes // copies)
    if float(present_nodes(copies, up, away)[least:].sum()) < 0.5:
        return f"the quorum is lost: {copies * up / (up + away):.1f} of {named} on average, and {least} are needed"
    return f"a period of {show_time(period)} is hardly ever completed: a node fails every {show_time(1 / rate)}"
