"""The breakdown of an iteration, read from the intervals of its tasks: the only place that assigns terms.

All seconds of a worker's compute stream count to a term: those of a task to its own, but `slowdown` has those that
exchanges beside it cost; those of a gap to what the next task waited for. Up to when the slowest worker has computed,
all wait for it; then for communication, as far as a kernel inside an exchange (which counts as combine) or a collective
is under way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from simulator.engine.clock.intervals import Intervals
from simulator.engine.clock.numbers import Seconds, describe, front_of, latest, sum_in_order
from simulator.models.curves import Floats
from simulator.models.graph import Graph
from simulator.models.sharding import REPLICA, SITE
from simulator.models.terms import BREAKDOWN
from simulator.models.timeline import Iteration, covered_time, merge_intervals


class Gap(NamedTuple):
    """A gap of the compute stream before a task: its start, when the worker waits no longer for the slowest one but for
    communication, and its end; each per worker."""

    task: int
    start: Seconds
    alone: Seconds
    end: Seconds


def find_gaps(ran: Intervals) -> Iterator[Gap]:
    """Every place of the compute stream where some worker may wait."""
    now, known, left_out = ran.began, dict[int, Seconds](), ran.left_out
    tasks, starts, ends, later, earlier = ran.graph.tasks, ran.start, ran.end, ran.numbers.later, ran.numbers.earlier
    for place in ran.graph.compute:
        if place in left_out:
            continue
        task, start = tasks[place], starts[place]
        if start is now:  # nobody waits
            pass
        elif task.after or task.earlier:
            if task.ready not in known:
                known[task.ready] = front_of(ends[task.ready])
            alone = later(now, earlier(start, known[task.ready])) if task.ready >= 0 else now
            yield Gap(place, now, alone, start)
        elif task.meets:
            yield Gap(place, now, start, start)
        now = ends[place]


def account(ran: Intervals) -> list[Iteration]:
    """The iterations that ran, each with its seconds, its breakdown and its communication; without spans."""
    graph, numbers, gaps = ran.graph, ran.numbers, [*find_gaps(ran)]
    each: dict[str, Seconds] = dict.fromkeys((*BREAKDOWN, "waited"), 0.0)
    tasks, starts, ends = graph.tasks, ran.start, ran.end
    for place in graph.compute:
        if place not in ran.left_out:
            term = tasks[place].term
            each[term] = each[term] + (ends[place] - starts[place])
    slowed: dict[str, Seconds] = {tasks[place].term: 0.0 for place in ran.alone}
    for place in ran.alone:
        slowed[tasks[place].term] = slowed[tasks[place].term] + ran.slowed(place)
    for term, seconds in slowed.items():
        each[term], each["slowdown"] = each[term] - seconds, each["slowdown"] + seconds
    for _, begin, alone, stop in gaps:
        each["idle"] = each["idle"] + (alone - begin)
        each["waited"] = each["waited"] + (stop - alone)
    each["communication_exposed"] = each["communication_exposed"] + each["waited"]
    each |= {f"slowed {term}": seconds for term, seconds in slowed.items()}
    of_axis = _by_axis(graph, gaps)
    for axis, own in of_axis.items():
        each[axis] = sum((gap.end - gap.alone for gap in own), start=np.zeros(1))
    terms = {term: numbers.mean(seconds) for term, seconds in each.items()}
    spent = ran.end[graph.compute[-1]] - ran.began
    if not graph.periodic:
        time = front_of(spent)
        terms["idle"] = terms["idle"] + (time - numbers.mean(spent))
    elif graph.together or not np.all(spent):
        time = numbers.mean(spent)
    else:  # workers by themselves: together they take as many steps as their rates add up to
        time, mean = 1 / numbers.mean(1 / np.asarray(spent)), numbers.mean(spent)
        terms = {term: seconds * time / mean for term, seconds in terms.items()}
    rows = zip(*(describe(values, len(numbers.points)) for values in terms.values()), strict=True)
    times, waits = (describe(values, len(numbers.points)) for values in (time, _waiting(ran)))
    made = []
    for number, row in enumerate(rows):
        breakdown = dict(zip(terms, row, strict=True))
        by_term = {term: breakdown.pop(f"slowed {term}") for term in slowed}
        for term in ("idle", "slowdown"):
            breakdown[term] = max(0.0, breakdown[term])  # a mean may be above the latest by a rounding
        total, added_up, kernels = _communication(ran, number)
        by_axis = {axis: (own, breakdown.pop(axis)) for axis, own in of_axis.items()}
        held, inside = _other_waits(ran, gaps, number, kernels, breakdown.pop("waited"))
        breakdown["communication_exposed"] -= held + inside
        breakdown["idle"] += held
        breakdown["combine"] += inside
        held = held if may_hold_back(ran, number) else 0.0
        exposed = {
            axis: max(0.0, seconds - sum(_other_waits(ran, own, number, kernels, seconds)))
            for axis, (own, seconds) in by_axis.items()
        }
        if (site := (plan := numbers.points[number][0]).inside) is not None:
            step, gathers = site.step, math.fsum(site.gathers.seconds)
            within = step.exposed or {REPLICA: step.breakdown["communication_exposed"]}
            exposed = {axis: plan.steps * seconds for axis, seconds in within.items()}
            exposed[REPLICA] = exposed.get(REPLICA, 0.0) + gathers
            exposed[SITE] = max(0.0, breakdown["communication_exposed"] - math.fsum(exposed.values()))
            total += plan.steps * step.communication_total + gathers
            added_up += plan.steps * step.communication_added_up + gathers
            held += plan.steps * step.held_back
        made.append(Iteration(times[number], breakdown, total, added_up, waits[number], held, by_term, exposed))
    return made


def _by_axis(graph: Graph, gaps: Sequence[Gap]) -> dict[str, list[Gap]]:
    """The gaps of a sharded job by the axis whose communicator runs what compute waits for."""
    made: dict[str, list[Gap]] = {queue.axis: [] for queue in graph.queues} if graph.overlaps else {}
    for gap in gaps if made else ():
        if after := graph.tasks[gap.task].after:
            made[graph.queues[graph.tasks[after[-1]].queue].axis].append(gap)
    return made


def _other_waits(
    ran: Intervals, gaps: Sequence[Gap], number: int, kernels: bool, exposed: float
) -> tuple[float, float]:
    """Of `exposed` seconds of these gaps those in which no exchange is under way, and those of its kernels."""
    holds = may_wait_for_none(ran, number)
    if not (gaps and (holds or kernels)):
        return 0.0, 0.0
    waits = [(ran.of_point(gap.alone, number), ran.of_point(gap.end, number)) for gap in gaps]
    weights, worker = np.ones(1) if ran.numbers.workers is None else ran.numbers.workers.weights[number], 0
    if _are_apart(ran) and ran.busy is None:  # each has exchanges of its own: those of who waits longest stand for all
        worker = int(np.argmax(sum(high - low for low, high in waits)))
        waits = [(low.take([worker], mode="clip"), high.take([worker], mode="clip")) for low, high in waits]
    waited = _waited(waits, weights)
    if not waited:
        return 0.0, 0.0
    parts = [*ran.earlier(worker), *ran.parts(number, worker)]
    under_way = _waited(waits, weights, [(part.start, part.end) for part in parts]) if holds else waited
    inside = _waited(waits, weights, [(part.start, part.end) for part in parts if not part.collective])
    held = exposed * max(0.0, 1.0 - under_way / waited)
    return held, min(exposed * inside / waited, exposed - held)


def _waited(
    waits: Sequence[tuple[Floats, Floats]], weights: Floats, during: Sequence[tuple[float, float]] | None = None
) -> float:
    """Seconds of waits, mean over workers; those `during` intervals of time where these are given."""
    edges = np.ravel(merge_intervals(during or ()))
    covered = np.cumsum(np.diff(edges, prepend=edges[:1]) * (np.arange(len(edges)) % 2))
    made = 0.0
    for low, high in waits:
        spent = high - low
        if during is not None:
            spent = np.interp(high, edges, covered) - np.interp(low, edges, covered) if len(edges) else np.zeros(1)
        made += float(spent[0] if len(spent) == 1 else (spent * weights).sum())
    return made


def may_wait_for_none(ran: Intervals, number: int) -> bool:
    """Whether compute may wait for an exchange while none is under way.

    Workers by themselves whose exchanges share links wait for the slowest of them, too.
    """
    return (_are_apart(ran) and ran.busy is not None) or may_hold_back(ran, number)


def _are_apart(ran: Intervals) -> bool:
    """Whether workers go through periods by themselves."""
    return ran.graph.periodic and not ran.graph.together


def may_hold_back(ran: Intervals, number: int) -> bool:
    """Whether the host may not have started an exchange that compute waits for (its cycle, its launches), or be in a
    hook."""
    runtime = ran.numbers.points[number][0].setup.runtime
    return bool(runtime.cycle_time or runtime.collective_launch or ran.graph.hooks)


def computed_at(ran: Intervals) -> Floats:
    """When each worker has computed all gradients, or has ended its period, in seconds from the start, (w,)."""
    graph = ran.graph
    last = graph.compute[-1] if graph.periodic else graph.ready_tasks[-1]
    return np.ravel(ran.end[last]) - latest(ran.began)


def _waiting(ran: Intervals) -> Seconds:
    """Seconds for which exchanges waited for the slowest worker, those that compute hides, too: mean over workers."""
    ready = [ran.end[place] for place in dict.fromkeys(ran.graph.ready_tasks)]
    if ran.numbers.workers is None or ran.numbers.plan.own_pace or not ran.graph.together:
        return 0.0
    ends = np.array(np.broadcast_arrays(*ready))  # (b, n, w)
    waits = np.maximum(ends.max(axis=2, keepdims=True) - ran.numbers.mean(ends), 0.0)
    return sum_in_order(waits[:, :, 0].T)[:, None]


def _communication(ran: Intervals, number: int) -> tuple[float, float, bool]:
    """Seconds in which any collective is under way, the seconds of all, and whether there are kernels of exchanges."""
    if not ran.graph.overlaps and ran.busy is None and ran.numbers.collective[number] == ran.numbers.exchanging[number]:
        added_up = float(ran.numbers.collective[number])
        return added_up, added_up, False
    parts = ran.parts(number)
    busy = [(part.start, part.end) for part in parts if part.collective]
    kernels = not all(part.collective for part in (*ran.earlier(), *parts))
    added_up = math.fsum(end - start for start, end in busy)
    total = covered_time(busy, -math.inf, math.inf) if ran.numbers.plan.streams > 1 or ran.graph.overlaps else added_up
    return total, added_up, kernels
