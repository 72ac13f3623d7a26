"""Which kernels and copies of a PyTorch profiler trace each host thread launched, and when."""

from __future__ import annotations

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.traces.readers.kineto.events import COLLECTIVE, Events

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
