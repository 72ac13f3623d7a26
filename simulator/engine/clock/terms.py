"""The breakdown and the spans of an iteration, read from the intervals of its tasks: nothing else makes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from simulator.engine.clock.intervals import Intervals
from simulator.engine.clock.numbers import Seconds, column_of, front_of, latest, sum_in_order
from simulator.models.curves import Floats
from simulator.models.graph import COMMUNICATION, COMPUTE, Graph
from simulator.models.sharding import REPLICA, SITE
from simulator.models.timeline import BREAKDOWN, Iteration, Span, covered_time, merge_intervals
from simulator.schedulers.step import TASKS_OF_STEPS, WAIT_DATA


class Gap(NamedTuple):
    """A gap of the compute stream before a task: its start, when the worker waits no longer for the slowest one but for
    communication, and its end; each per worker."""

    task: int
    start: Seconds
    alone: Seconds
    end: Seconds


def find_gaps(ran: Intervals) -> Iterator[Gap]:
    """Every place of the compute stream where some worker may wait."""
    now, known = ran.began, dict[int, Seconds]()
    tasks, starts, ends, later, earlier = ran.graph.tasks, ran.start, ran.end, ran.numbers.later, ran.numbers.earlier
    for place in ran.graph.compute:
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
    """The iterations that ran, each with its seconds, its breakdown and its communication; without spans.

    All seconds of a worker's compute stream count to a term: those of a task to its own, but `slowdown` has those that
    exchanges beside it cost; those of a gap to what the next task waited for. Up to when the slowest worker has
    computed, all wait for it; then for communication, as far as a kernel of an exchange (combine) or a collective runs.
    """
    graph, numbers, gaps = ran.graph, ran.numbers, [*find_gaps(ran)]
    each: dict[str, Seconds] = dict.fromkeys((*BREAKDOWN, "waited"), 0.0)
    tasks, starts, ends = graph.tasks, ran.start, ran.end
    for place in graph.compute:
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
    rows = zip(*(column_of(values, len(numbers.points)) for values in terms.values()), strict=True)
    times, waits = (column_of(values, len(numbers.points)) for values in (time, _waiting(ran)))
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
        plan = numbers.points[number][0]
        if (site := plan.inside) is not None:
            step, gathers = site.step, math.fsum(site.gathers.seconds)
            within = step.exposed or {REPLICA: step.breakdown["communication_exposed"]}
            exposed = {axis: plan.steps * seconds for axis, seconds in within.items()}
            exposed[REPLICA] = exposed.get(REPLICA, 0.0) + gathers
            exposed[SITE] = max(0.0, breakdown["communication_exposed"] - math.fsum(exposed.values()))
            total += plan.steps * step.communication_total + gathers
            added_up += plan.steps * step.communication_added_up + gathers
            held += plan.steps * step.held_back
        made.append(
            Iteration(
                times[number], breakdown, total, added_up, waits[number], held, by_term, exposed, steps=plan.steps
            )
        )
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
    ends = ([gap.alone for gap in gaps], [gap.end for gap in gaps])
    waits, worker = np.array(np.broadcast_arrays(*(ran.rows(each, number) for each in ends))), 0
    if _are_apart(ran) and ran.busy is None:  # each has exchanges of its own: those of who waits longest stand for all
        worker = int(np.argmax((waits[1] - waits[0]).sum(axis=0)))
        waits = waits[:, :, [worker]]
    workers = ran.numbers.workers
    weights = np.ones(1) if workers is None or waits.shape[2] == 1 else workers.weights[number]
    waited = _waited(waits, weights)
    if not waited:
        return 0.0, 0.0
    parts = [*ran.earlier(worker), *ran.parts(number, worker)]
    under_way = _waited(waits, weights, [(part.start, part.end) for part in parts]) if holds else waited
    inside = _waited(waits, weights, [(part.start, part.end) for part in parts if not part.collective])
    held = exposed * max(0.0, 1.0 - under_way / waited)
    return held, min(exposed * inside / waited, exposed - held)


def _waited(waits: Floats, weights: Floats, during: Sequence[tuple[float, float]] | None = None) -> float:
    """Seconds of waits, from and to (2, g, w), mean over workers; those `during` intervals where these are given."""
    if during is not None:
        edges = np.ravel(merge_intervals(during))
        if not len(edges):
            return 0.0
        covered = np.cumsum(np.diff(edges, prepend=edges[:1]) * (np.arange(len(edges)) % 2))
        waits = np.interp(waits, edges, covered)
    return sum(((waits[1] - waits[0]) * weights).sum(axis=1).tolist(), start=0.0)


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
    setup = ran.numbers.points[number][0].setup
    return bool(setup.cycle or setup.runtime.collective_launch or ran.graph.hooks)


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


WAIT_SLOWEST = "waiting for the slowest worker"
WAIT_NETWORK = "waiting for communication"
WAIT_HOST = "waiting for the host"
KERNELS = "kernels of an exchange"
_SHOWN = 32
"""Local steps in a row that are shown one by one; of more, all forward passes are one span."""


def let_tell(made: Iteration, ran: Callable[[], Intervals]) -> None:
    """Let an iteration tell its spans when it is asked, from the intervals of all workers, which `ran` has or makes.

    Spans count from the start of the iteration, and those of the exchanges come last. The seconds of each term on a
    worker's compute stream, those `slowed` counted to `slowdown`, averaged over all, are the breakdown.
    """
    made.computed_by, made.spans_by = (lambda: computed_at(ran())), (lambda worker: _spans_of(ran(), worker))


def _spans_of(ran: Intervals, worker: int | None) -> list[Span]:
    hidden = (WAIT_NETWORK, KERNELS) if worker is None else ()
    spans = [span for span in _compute_spans(ran, worker) if span.label not in hidden]
    return [*spans, *_exchange_spans(ran, worker or 0)]


def _compute_spans(ran: Intervals, worker: int | None) -> Iterator[Span]:
    """The compute stream of a worker, or of the slowest at each point (None)."""

    def clock(values: Seconds) -> float:
        each = ran.of_point(values, 0)
        return float(each.max() if worker is None else each[worker if len(each) > 1 else 0])

    def at(values: Seconds) -> float:
        return clock(values) - base

    base, last, steps = clock(ran.began), 0.0, 0
    gaps, parts = {gap.task: gap for gap in find_gaps(ran)}, (*ran.earlier(worker or 0), *ran.parts(0, worker or 0))
    inside = merge_intervals((part.start - base, part.end - base) for part in parts if not part.collective)
    busy = [(-math.inf, math.inf)]
    if may_wait_for_none(ran, 0):
        busy = merge_intervals((part.start - base, part.end - base) for part in parts)
    for place in ran.graph.compute:
        task = ran.graph.tasks[place]
        if place in gaps:
            low, alone, high = (at(values) for values in (gaps[place].start, gaps[place].alone, gaps[place].end))
            if alone > low:
                yield Span(COMPUTE, WAIT_SLOWEST, low, alone, term="idle", layer=task.layer)
            yield from _wait(alone, high, task.bucket, task.layer, kernels=inside, busy=busy)
        start, end = at(ran.start[place]), at(ran.end[place])
        if task.slowed == "steps":
            yield from _steps(ran, place, at, clock)
            steps = len(TASKS_OF_STEPS) - 1
        elif steps:
            steps -= 1
        elif end > start:
            slowed = clock(ran.slowed(place))
            yield Span(COMPUTE, task.label, start, end, task.bucket, task.term, task.layer, slowed=slowed)
        last = end
    if not ran.graph.periodic and worker is not None:
        whole = latest(ran.end[ran.graph.compute[-1]]) - base
        if whole > last:
            yield Span(COMPUTE, WAIT_SLOWEST, last, whole, term="idle")


def _wait(
    start: float,
    stop: float,
    bucket: int,
    layer: int,
    *,
    kernels: Sequence[tuple[float, float]],
    busy: Sequence[tuple[float, float]],
) -> Iterator[Span]:
    """A wait for an exchange, cut where one of its kernels runs on the GPU, and where no exchange is under way."""
    within = [(low, high) for low, high in (*kernels, *busy) if high > start and low < stop]
    edges = sorted({start, stop, *(edge for pair in within for edge in pair if start < edge < stop)})
    for low, high in pairwise(edges):
        middle = (low + high) / 2
        if any(left <= middle <= right for left, right in kernels):
            yield Span(COMPUTE, KERNELS, low, high, bucket, "combine", layer)
        elif any(left <= middle <= right for left, right in busy):
            yield Span(COMPUTE, WAIT_NETWORK, low, high, bucket, "communication_exposed", layer)
        else:
            yield Span(COMPUTE, WAIT_HOST, low, high, bucket, "idle", layer)


def _steps(
    ran: Intervals, place: int, at: Callable[[Seconds], float], clock: Callable[[Seconds], float]
) -> Iterator[Span]:
    """Several local steps in a row, step by step where these are few: waiting for data, passes, update."""
    tasks, work = [place + number for number in range(len(TASKS_OF_STEPS))], ran.numbers.plan.work
    steps = ran.graph.tasks[place].cost.times
    shown = steps if steps <= _SHOWN else 1
    seconds = {ran.graph.tasks[each].term: (at(ran.end[each]) - at(ran.start[each])) / shown for each in tasks}
    slowed = {ran.graph.tasks[each].term: clock(ran.slowed(each)) / shown for each in tasks}
    passes = [("forward", work.passes.first[0]), *work.passes.between(), ("backward", float(work.backward.sum()))]
    whole = {term: math.fsum(own for name, own in passes if name == term) for term in ("forward", "backward")}
    shares = [(term, own / whole[term] if whole[term] else 0.0) for term, own in passes]
    now = at(ran.start[place])
    for _ in range(shown):
        for term, share in [("idle", 1.0), *shares, ("update", 1.0)]:
            stop = now + share * seconds[term]
            if stop > now:
                label = WAIT_DATA if term == "idle" else term
                label = label if shown == steps else f"{label} of {steps} steps"
                yield Span(COMPUTE, label, now, stop, term=term, slowed=share * slowed[term])
            now = stop


def _exchange_spans(ran: Intervals, worker: int = 0) -> Iterator[Span]:
    base = latest(ran.began)
    for part in ran.parts(0, worker):
        stream = COMMUNICATION if part.collective else "exchange kernel"
        sending = max(part.sending, part.start) - base
        start, end = part.start - base, part.end - base
        yield Span(stream, part.label, start, end, part.bucket, sending=sending, times=part.times)
