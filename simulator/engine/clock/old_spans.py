"""The spans of a simulated iteration, made from the times that its job keeps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from simulator.engine.clock.job import Job
from simulator.engine.clock.software import Busy
from simulator.models.timeline import Span, merge_intervals
from simulator.records import replace

WAIT_DATA = "waiting for data"
WAIT_SLOWEST = "waiting for the slowest worker"
WAIT_NETWORK = "waiting for communication"
KERNELS = "kernels of an exchange"


def worker_spans(job: Job, worker: int) -> list[Span]:
    """The spans of one worker: its compute stream without a gap from start to end of the iteration, and the exchanges.

    The seconds of each term on the compute stream, averaged over all workers, are the breakdown of the iteration.
    """
    row = worker if len(job.everyone) > 1 else 0
    spans = list(_computed(job, row))
    spans += _forward_pass(job, row) if job.plan.scheduler.gated else _to_the_end(job, row)
    return [span for span in spans if span.end > span.start] + [_span(item) for item in job.busy]


def _computed(job: Job, row: int) -> Iterator[Span]:
    """The spans up to the last selection: forward (where it comes first), then backward and selection in turn."""
    ends = job.everyone[row].tolist()
    loaded = 0.0 if job.plan.scheduler.gated else job.work.input_time
    yield Span("compute", WAIT_DATA, 0.0, loaded, term="idle")
    if job.plan.scheduler.gated:
        yield Span("compute", "forward", loaded, ends[0], term="forward")
    else:
        yield from _before_last(job, loaded, ends[0])
    for column, (start, end) in enumerate(pairwise(ends)):
        label = "selection" if column % 2 else "backward"
        yield Span("compute", label, start, end, column // 2, label)


def _before_last(job: Job, start: float, end: float) -> Iterator[Span]:
    """The passes up to the last backward pass: forward, and where gradients are added up, backward and forward again.

    They take the time from `start` to `end`, in proportion to their seconds on a worker at the usual pace.
    """
    passes = [("forward", job.work.passes.first[0]), *job.work.passes.between()]
    yield from _in_proportion(passes, start, end)


def _in_proportion(passes: Sequence[tuple[str, float]], start: float, end: float) -> Iterator[Span]:
    """Spans of passes, names of terms with their seconds, that fill the time from `start` to `end` without a gap."""
    total, now = math.fsum(seconds for _, seconds in passes), start
    for place, (term, seconds) in enumerate(passes):
        last = place == len(passes) - 1
        stop = end if last else now + (end - start) * (seconds / total if total else 0.0)
        yield Span("compute", term, now, stop, term=term)
        now = stop


def _to_the_end(job: Job, row: int) -> Iterator[Span]:
    """The spans of an end in which all workers wait for each other: bucket by bucket, then the update."""
    work = job.work
    own, now = float(job.everyone[row, -1]), float(job.segments[:, -1].max())
    kernels = _kernels(job)
    yield Span("compute", WAIT_SLOWEST, own, now, term="idle")
    for index, (done, combine) in enumerate(zip(job.done_at, work.combine.tolist(), strict=True)):
        yield from _wait(now, done, index, kernels)
        now = max(now, done)
        yield Span("compute", "combine", now, now + combine, index, "combine")
        now += combine
    yield Span("compute", "update", now, now + work.update, term="update")


def _forward_pass(job: Job, row: int) -> Iterator[Span]:
    """The end where every layer waits for its own parameters, and then for the slowest worker's last layer.

    Of a wait, all until the slowest has computed is for that one. Kernels of exchanges count where the slowest waits,
    as in the breakdown.
    """
    at, work, kernels = job.segments, job.work, _kernels(job)
    computed = float(at[:, -1].max()) + work.input_time
    counted = [(max(low, start), min(high, stop)) for low, high in job.gaps for start, stop in kernels]
    counted = [(low, high) for low, high in counted if high > low]
    now = float(at[row, -1])
    yield Span("compute", WAIT_DATA, now, now + work.input_time, term="idle")
    for layer, step in enumerate(job.forward_pass(slice(row, row + 1))):
        reached, end = float(step.reached[0]), float(step.end[0])
        alone = min(max(reached, min(step.needed, computed)), max(reached, step.needed))
        yield Span("compute", WAIT_SLOWEST, reached, alone, term="idle", layer=layer)
        yield from _wait(alone, step.needed, -1, counted, layer)
        began = max(reached, step.needed)
        updated = began + step.combine
        yield Span("compute", "combine", began, updated, term="combine", layer=layer)
        yield Span("compute", "update", updated, updated + step.update, term="update", layer=layer)
        yield Span("compute", "forward", updated + step.update, end, term="forward", layer=layer)
        now = end
    if job.work.passes.count > 1:
        end = now + float(job.later_passes(slice(row, row + 1))[0])
        yield from _in_proportion([*job.work.passes.between()], now, end)
        now = end
    yield Span("compute", WAIT_SLOWEST, now, job.time, term="idle")


def _wait(
    start: float, stop: float, bucket: int, kernels: Sequence[tuple[float, float]], layer: int = -1
) -> Iterator[Span]:
    """A wait for an exchange, cut where one of its kernels runs on the GPU."""
    now = start
    for began, ended in kernels:
        low, high = max(began, start), min(ended, stop)
        if high > low:
            yield Span("compute", WAIT_NETWORK, now, low, bucket, "communication_exposed", layer)
            yield Span("compute", KERNELS, low, high, bucket, "combine", layer)
            now = high
    yield Span("compute", WAIT_NETWORK, now, stop, bucket, "communication_exposed", layer)


def _kernels(job: Job) -> list[tuple[float, float]]:
    """When kernels of exchanges run, overlaps counted once."""
    return merge_intervals((start, end) for start, end, _, _, collective in job.busy if not collective)


def slowest_spans(job: Job) -> list[Span]:
    """The spans of the worker that is slowest at each point, and the exchanges."""
    slowest = [0.0, *job.segments.max(axis=0).tolist()]
    spans = []
    for column, (start, end) in enumerate(pairwise(slowest)):
        if end > start and column == 0:
            spans += [replace(span, term="") for span in _before_last(job, start, end)]
        elif end > start:
            spans.append(Span("compute", "backward" if column % 2 else "selection", start, end, (column - 1) // 2))
    now = slowest[-1]
    if job.plan.scheduler.gated:
        spans.extend(_own_pace(job, now))
    else:
        for index, (done, combine) in enumerate(zip(job.done_at, job.work.combine.tolist(), strict=True)):
            now = max(now, done)
            if combine:
                spans.append(Span("compute", "combine", now, now + combine, index))
            now += combine
        spans.append(Span("compute", "update", now, now + job.work.update))
    spans.extend(_span(item) for item in job.busy)
    return spans


def _own_pace(job: Job, now: float) -> list[Span]:
    """The next forward pass of a worker that computes as fast as the workload says, layer by layer."""
    work, spans = job.work, []
    combine, update, needed = work.per_layer(work.combine), work.update_shares(), job.needed_at()
    now += work.input_time
    for layer, forward in enumerate(work.layer_forward.tolist()):
        now = max(now, needed[layer])
        for label, seconds in (("combine", combine[layer]), ("update", update[layer]), ("forward", forward)):
            if seconds:
                spans.append(Span("compute", label, now, now + seconds))
            now += seconds
    rest = [*work.passes.between()]
    end = now + math.fsum(seconds for _, seconds in rest)
    return spans + [replace(span, term="") for span in _in_proportion(rest, now, end)]


def _span(item: Busy) -> Span:
    start, end, label, index, collective = item
    return Span("communication" if collective else "exchange kernel", label, start, end, index)
