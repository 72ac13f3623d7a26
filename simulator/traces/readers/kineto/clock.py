"""Two clocks of a PyTorch profiler trace: what threads launched and the GPU did, and when either waited."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.models.timeline import merge_intervals
from simulator.traces.readers.kineto.events import COLLECTIVE, ISSUE, WAIT, Events

Table = dict[int, tuple[Floats, Floats]]
"""For each host thread: launch times (m,), and rows (m, c) in the same order."""


class Launches:
    """Kernels (start, end, length) and copies (bytes) in the order of their launch, per host thread."""

    def __init__(self, events: Events) -> None:
        order = np.argsort(np.array(events.call_id), kind="stable")
        self._ids = np.array(events.call_id, dtype=np.int64)[order]
        self._threads = np.array(events.call_thread, dtype=np.int64)[order]
        self._times = np.array(events.call_start)[order]
        start, length, kind = np.array(events.gpu_start), np.array(events.gpu_length), np.array(events.gpu_kind)
        nbytes, ids = np.array(events.gpu_bytes), np.array(events.gpu_id, dtype=np.int64)
        kernel, copy = kind <= COLLECTIVE, nbytes > 0
        times = np.stack([start, start + length, length], axis=1)
        self.kernels = self._table(ids[kernel], times[kernel])
        self.copies = self._table(ids[copy], nbytes[copy, None])

    def launch(self, ids: Ints) -> tuple[Ints, Floats]:
        """Host thread (-1: not in the trace) and time of launches by correlation id, both (m,)."""
        if not len(self._ids):
            return np.full(len(ids), -1), np.zeros(len(ids))
        at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        known = (self._ids[at] == ids) & (ids >= 0)
        return np.where(known, self._threads[at], -1), np.where(known, self._times[at], 0.0)

    def _table(self, ids: Ints, rows: Floats) -> Table:
        threads, times = self.launch(ids)
        made = {}
        for thread in np.unique(threads[threads >= 0]).tolist():
            mine = np.flatnonzero(threads == thread)
            mine = mine[np.argsort(times[mine], kind="stable")]
            made[thread] = times[mine], rows[mine]
        return made


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
        kind, start = np.array(events.gpu_kind), np.array(events.gpu_start)
        end = start + np.array(events.gpu_length)
        threads, times = launches.launch(np.array(events.gpu_id, dtype=np.int64))
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


class HostWaits:
    """When the host waited for the GPU, in microseconds.

    It waits in calls that synchronise, and in those that hand over work where they take much longer than usual, since
    the queue is full or memory that is not pinned is copied. `waits` covers these times; `emptied` (m,) are the ends of
    those after which the GPU had done all that it had been given.
    """

    def __init__(self, events: Events, gpu: GpuActivity) -> None:
        kind, start = np.array(events.call_kind), np.array(events.call_start)
        end = start + np.array(events.call_length)
        by_launch = np.argsort(gpu.launch, kind="stable")
        queued = np.searchsorted(gpu.launch[by_launch], start) - np.searchsorted(np.sort(gpu.start), start)
        # Where the queue is full, most calls wait: what is usual shows while at most half of it is used.
        issues = (end - start)[(kind == ISSUE) & (queued <= queued.max(initial=0) / 2)]
        usual = float(np.quantile(issues, 0.25)) if len(issues) else 0.0
        mine = np.isin(np.array(events.call_thread), gpu.threads)
        blocked = mine & (kind == ISSUE) & (end - start > BLOCKED * usual)
        waiting = mine & (kind == WAIT)
        since = np.where(waiting, start, start + usual)
        self.waits = covered(map(tuple, np.stack([since, end], axis=1)[blocked | waiting].tolist()))
        pageable = np.array(events.gpu_id, dtype=np.int64)[np.array(events.gpu_pageable) > 0]
        stops = waiting | (mine & np.isin(np.array(events.call_id, dtype=np.int64), pageable[pageable >= 0]))
        ends = np.concatenate([[np.inf], np.maximum.accumulate(gpu.end[by_launch])])
        done = ends[np.searchsorted(gpu.launch[by_launch], start[stops], side="right")]
        self.emptied = np.sort(end[stops][done <= end[stops]])
