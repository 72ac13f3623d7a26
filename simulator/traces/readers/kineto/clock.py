"""Two clocks of a PyTorch profiler trace: what threads launched and the GPU did, and when either waited."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import chain

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.models.groups import group_by
from simulator.models.precision import NumberFormat
from simulator.models.timeline import merge_intervals
from simulator.records import Struct, replace
from simulator.traces.readers.kineto.events import (
    ACCUMULATE,
    COLLECTIVE,
    EVALUATE,
    ISSUE,
    TO_GRADIENT,
    WAIT,
    Events,
    Operation,
)

Table = dict[int, tuple[Floats, Floats]]
"""For each host thread: launch times (m,), and rows (m, c) in the same order."""


class Launches:
    """What host threads launched, and what they launched it in.

    `kernels` (start, end, length) and `copies` (bytes) are in the order of their launch, per host thread. `first`:
    forward operations by sequence number. `filled`: when DDP copied into gradients, and how many bytes.
    """

    def __init__(self, events: Events) -> None:
        self._calls = events.calls[np.argsort(events.calls["id"], kind="stable")]
        work = events.work
        kernels, copies = work[work["kind"] <= COLLECTIVE], work[work["bytes"] > 0]
        start, length = kernels["start"], kernels["length"]
        self.kernels = self._table(kernels["id"], np.stack([start, start + length, length], axis=1))
        self.copies = self._table(copies["id"], copies["bytes"][:, None])
        self.first = dict[int, Operation]()
        # Operations without a gradient have the number of the next one that has: the last one counts, with all that it
        # is a part of.
        for item in sorted(events.operations, key=lambda item: (item.start, -item.end)):
            known = self.first.get(item.sequence)
            inside = known is not None and item.thread == known.thread and item.end <= known.end
            if item.sequence >= 0 and not item.backward and not inside:
                self.first[item.sequence] = item
        self.filled = sorted(
            (item.start, int(rows[0, 0]))
            for item in events.operations
            if item.name == TO_GRADIENT and len(rows := launched(self.copies, item.thread, item.start, item.end))
        )

    def launch(self, ids: Ints) -> tuple[Ints, Floats]:
        """Host thread (-1: not in the trace) and time of launches by correlation id, both (m,)."""
        if not len(self._calls):
            return np.full(len(ids), -1), np.zeros(len(ids))
        calls = self._calls[np.minimum(np.searchsorted(self._calls["id"], ids), len(self._calls) - 1)]
        known = (calls["id"] == ids) & (ids >= 0)
        return np.where(known, calls["thread"], -1), np.where(known, calls["start"], 0.0)

    def _table(self, ids: Ints, rows: Floats) -> Table:
        threads, times = self.launch(ids)
        made = {}
        for thread in np.unique(threads[threads >= 0]).tolist():
            mine = np.flatnonzero(threads == thread)
            mine = mine[np.argsort(times[mine], kind="stable")]
            made[thread] = times[mine], rows[mine]
        return made

    def operations(self, sequences: Iterable[int], begin: float, backward: float) -> list[Operation]:
        """The forward operations of these numbers that started from `begin` on and before the backward pass."""
        mine = [self.first[number] for number in set(sequences) if number in self.first]
        return sorted((item for item in mine if begin <= item.start < backward), key=lambda item: item.start)

    def complete(self, found: list[Gradient], itemsize: int) -> None:
        """Add to the gradients of a pass their times, and the sizes of DDP's copies where shapes were not recorded.

        `itemsize`: bytes of an element that is copied.
        """
        backward = found[0].node.start
        copied = self.filled[bisect_right(self.filled, (found[-1].node.start, 0)) :][: len(found)]
        if not all(item.numel for item in found) and len(copied) == len(found):
            for item, (_, nbytes) in zip(found, copied, strict=True):
                item.numel = nbytes // itemsize
        # A forward operation has what was launched up to the next one with parameters, or to the backward pass.
        order, forward = self.operations((item.node.sequence for item in found), -math.inf, backward), {}
        for operation, stop in zip(order, [*(item.start for item in order[1:]), backward], strict=False):
            kernels = launched(self.kernels, operation.thread, operation.start, np.nextafter(stop, -math.inf))
            forward[operation.sequence] = float(kernels[:, 2].sum()) * 1e-6
        for item in found:
            item.ready = (item.end - found[0].first) * 1e-6
            item.forward = forward.pop(item.node.sequence, 0.0)


def launched(table: Table, thread: int, start: float, end: float) -> Floats:
    """Rows launched by `thread` from `start` to `end`, both included."""
    if thread not in table:
        return np.zeros((0, 3))
    times, rows = table[thread]
    return rows[np.searchsorted(times, start) : np.searchsorted(times, end, side="right")]


BLOCKED = 8.0
"""A call that hands over work and takes so many times as long as usual has waited for the GPU."""

Covered = Callable[[Floats], Floats]
"""Microseconds that intervals cover up to each time of an array, same shape."""


def covered(spans: Iterable[tuple[float, float]]) -> Covered:
    """What a union of intervals covers up to a time.

    >>> covered([(0.0, 2.0), (1.0, 3.0), (5.0, 9.0)])(np.array([1.0, 4.0, 6.0])).tolist()
    [1.0, 3.0, 4.0]
    """
    merged = np.array(merge_intervals(spans), dtype=float).reshape(-1, 2)
    if not len(merged):
        return np.zeros_like
    sums = np.cumsum(merged[:, 1] - merged[:, 0])
    values = np.stack([np.concatenate([[0.0], sums[:-1]]), sums], axis=1)
    return lambda time: np.interp(time, merged.ravel(), values.ravel())


class GpuActivity:
    """What the GPU did besides collectives, one entry per kernel or copy in the order of their starts, (k,).

    The time from the end of what ran before to an entry's own end is split: `own`, in which it runs, with the GPU's
    pause before it (`running`: without the pause); `starved`, in which nothing runs since the host had not begun to
    launch it; `loading`, the same while the host was fetching a batch; `exposed`, in which a collective ran alone.
    `launch`: when the host launched it; `before`: when all that started earlier had ended. Microseconds.
    """

    def __init__(self, events: Events, launches: Launches) -> None:
        kind, start = events.work["kind"], events.work["start"]
        end = start + events.work["length"]
        threads, times = launches.launch(events.work["id"])
        spans = np.stack([start, end], axis=1)
        collectives = covered(map(tuple, spans[kind == COLLECTIVE].tolist()))
        loader = covered(events.loading)
        order = np.lexsort((end, start))
        order = order[(kind[order] != COLLECTIVE) & (threads[order] >= 0)]
        self.kind, self.start, self.end, self.launch = kind[order], start[order], end[order], times[order]
        self.threads = sorted(set(threads[threads >= 0].tolist()))
        reached = np.maximum.accumulate(self.end)
        self.before = np.concatenate([self.start[:1], reached[:-1]])
        since = np.minimum(self.before, self.start)
        gap = self.start - since
        self.exposed = np.minimum(gap, collectives(self.start) - collectives(since))
        late = np.where(self.launch > self.before, gap - self.exposed, 0.0)
        self.loading = np.minimum(late, loader(self.start) - loader(since))
        self.starved = late - self.loading
        # What ended while something that started earlier still ran has no time of its own.
        self.running = np.maximum(0.0, self.end - np.maximum(self.before, self.start))
        self.own = self.running + gap - self.exposed - late


def host_waits(events: Events, gpu: GpuActivity) -> tuple[Covered, Floats]:
    """When the host waited for the GPU, and the ends of waits after which it had done all that it was given, (m,).

    It waits in calls that synchronise, and in those that hand over work where they take much longer than usual, since
    the queue is full or memory that is not pinned is copied.
    """
    calls, work = events.calls, events.work
    kind, start = calls["kind"], calls["start"]
    end = start + calls["length"]
    by_launch = np.argsort(gpu.launch, kind="stable")
    queued = np.searchsorted(gpu.launch[by_launch], start) - np.searchsorted(np.sort(gpu.start), start)
    # Where the queue is full, most calls wait: what is usual shows while at most half of it is used.
    issues = (end - start)[(kind == ISSUE) & (queued <= queued.max(initial=0) / 2)]
    usual = float(np.quantile(issues, 0.25)) if len(issues) else 0.0
    mine = np.isin(calls["thread"], gpu.threads)
    blocked = mine & (kind == ISSUE) & (end - start > BLOCKED * usual)
    waiting = mine & (kind == WAIT)
    since = np.where(waiting, start, start + usual)
    waits = covered(map(tuple, np.stack([since, end], axis=1)[blocked | waiting].tolist()))
    pageable = work["id"][work["pageable"] & (work["id"] >= 0)]
    stops = waiting | (mine & np.isin(calls["id"], pageable))
    ends = np.concatenate([[np.inf], np.maximum.accumulate(gpu.end[by_launch])])
    done = ends[np.searchsorted(gpu.launch[by_launch], start[stops], side="right")]
    return waits, np.sort(end[stops][done <= end[stops]])


class Gradient(Struct):
    """The gradient of one parameter tensor in one backward pass.

    `node`: the autograd node, whose first kernel started at `first` and whose last one ended at `end` (us). `numel`: 0
    where the trace has no sizes. `ready`: seconds to `end` from the start of the pass's first kernel of a node with
    parameters. `forward`: GPU seconds of the forward operation of the same number and of what follows it without
    parameters; the first tensor of a node has all of it.
    """

    node: Operation
    first: float
    end: float
    numel: int = 0
    format: NumberFormat | None = None
    ready: float = 0.0
    forward: float = 0.0

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.node.name.removeprefix(EVALUATE)


def find_passes(events: Events, launches: Launches) -> list[list[Gradient]]:
    """The gradients of every backward pass.

    One begins with every profiler step, and where a forward pass went before and the sequence number rises. Activations
    that are computed again are inside of a node, and begin none. Where the passes of a step are not alike, as those of
    several losses, they count as one.
    """
    outer = any(item.name.startswith(EVALUATE) for item in events.operations)
    steps = sorted(start for start, *_ in events.steps)
    chosen = [
        item
        for item in events.operations
        if (item.backward and item.name.startswith(EVALUATE) == outer) or item.name == ACCUMULATE
    ]
    forward = _forward_starts(events)
    passes: list[list[Gradient]] = []
    node: Gradient | None = None
    step = highest = -2
    before = -math.inf
    for item in sorted(chosen, key=lambda item: item.start):
        if item.name == ACCUMULATE:
            if node is not None:
                passes[-1].append(replace(node, numel=item.elements, format=item.number))
            continue
        now = bisect_right(steps, item.start)
        again = item.sequence > highest and np.searchsorted(forward, item.start) > np.searchsorted(forward, before)
        before = item.start
        if now != step or again:
            passes.append([])
            step, highest, node = now, -1, None
        highest = max(highest, item.sequence)
        kernels = launched(launches.kernels, item.thread, item.start, item.end)
        if len(kernels):
            node = Gradient(item, float(kernels[:, 0].min()), float(kernels[:, 1].max()))
    passes = [found for found in passes if found]
    if not steps:
        return passes
    by_step = group_by(passes, lambda found: bisect_right(steps, found[0].node.start))
    return [each for own in by_step.values() for each in _join_unlike(own)]


def _forward_starts(events: Events) -> Floats:
    """When forward operations started that are not inside of an autograd node, ascending, (m,)."""
    nodes = (item for item in events.operations if item.backward or item.name.endswith(ACCUMULATE))
    inside = covered((item.start, item.end) for item in nodes)
    mine = [item for item in events.operations if item.sequence >= 0 and not item.backward]
    starts, ends = (np.array([getattr(item, name) for item in mine]) for name in ("start", "end"))
    return np.sort(starts[inside(ends) - inside(starts) < ends - starts])


def _join_unlike(passes: list[list[Gradient]]) -> list[list[Gradient]]:
    """The passes of a step; as one where they do not have the same gradients."""
    kinds = {tuple((item.name, item.numel) for item in found) for found in passes}
    return passes if len(kinds) == 1 else [list(chain.from_iterable(passes))]
