"""The spans of an iteration, read from the intervals of its tasks: the only place that makes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from simulator.engine.clock.intervals import Intervals
from simulator.engine.clock.numbers import Seconds, latest
from simulator.engine.clock.terms import computed_at, find_gaps, may_wait_for_none
from simulator.models.curves import Floats
from simulator.models.graph import COMMUNICATION, COMPUTE
from simulator.models.timeline import Span, merge_intervals
from simulator.records import Record
from simulator.schedulers.step import TASKS_OF_STEPS, WAIT_DATA

WAIT_SLOWEST = "waiting for the slowest worker"
WAIT_NETWORK = "waiting for communication"
WAIT_HOST = "waiting for the host"
KERNELS = "kernels of an exchange"
_SHOWN = 32
"""Local steps in a row that are shown one by one; of more, all forward passes are one span."""


class IntervalDetails(Record):
    """What an iteration tells when it is asked, from the intervals of all its workers, which `ran` has or makes.

    Spans count from the start of the iteration, and those of the exchanges come last.
    """

    ran: Callable[[], Intervals]

    def computed(self) -> Floats:
        """When each worker has computed, in seconds from the start, (w,)."""
        return computed_at(self.ran())

    def spans(self) -> list[Span]:
        """The spans of the worker that is slowest at each point, with gaps where it waits for communication."""
        ran = self.ran()
        spans = [span for span in _compute_spans(ran, None) if span.label not in (WAIT_NETWORK, KERNELS)]
        return [*spans, *_exchange_spans(ran)]

    def spans_of(self, worker: int) -> list[Span]:
        """The spans of one worker: a compute stream without a gap.

        The seconds of each term on it, those `slowed` counted to `slowdown`, averaged over all workers, are the
        breakdown of the iteration.
        """
        ran = self.ran()
        return [*_compute_spans(ran, worker), *_exchange_spans(ran, worker)]


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
        if place in ran.left_out:
            continue
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
