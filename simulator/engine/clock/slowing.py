"""Compute beside communication: how much longer a kernel takes while exchanges are under way."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from simulator.models.curves import Floats

Interval = tuple[float, float]


def end_slowed(start: float, seconds: float, under_way: Sequence[Interval], slowdown: float) -> float:
    """When compute of `seconds` ends that starts at `start`, and takes 1 + `slowdown` times as long while an exchange
    is under way. `under_way` are those intervals, in order and without overlaps.

    >>> end_slowed(0.0, 3.0, [(1.0, 3.0)], 1.0)  # 1 s free, 2 s for 1 s of compute, 1 s free
    4.0
    """
    now, left = start, seconds
    for low, high in under_way[bisect_right(under_way, start, key=lambda interval: interval[1]) :]:
        if now < low:
            step = min(left, low - now)
            now, left = now + step, left - step
        if not left:
            break
        step = min(left, (high - now) / (1.0 + slowdown))
        now = high if step < left else now + step * (1.0 + slowdown)
        left -= step
    return now + left


class SlowedColumns:
    """The same for n iterations side by side, whose exchanges are added one after the other; times only grow."""

    def __init__(self, slowdown: Floats, exchanges: int) -> None:
        n = len(slowdown)
        self.slower, self.lane = 1.0 + slowdown, np.arange(n)
        self.low, self.high = np.full((n, exchanges + 1), np.inf), np.full((n, exchanges + 1), np.inf)
        self.head, self.count = np.zeros(n, dtype=np.int64), 0

    def add(self, low: Floats, high: Floats) -> None:
        """One more exchange, from `low` to `high` (n,)."""
        self.low[:, self.count], self.high[:, self.count] = low, high
        self.count += 1

    def end(self, start: Floats, seconds: Floats) -> Floats:
        """When compute of `seconds` (n,) ends that starts at `start` (n,)."""
        now, left = start, seconds.copy()
        while (active := (self.head < self.count) & (left != 0)).any():
            low, high = self.low[self.lane, self.head], self.high[self.lane, self.head]
            free = active & (now < low)
            step = np.where(free, np.minimum(left, low - now), 0.0)
            now, left = now + step, left - step
            busy = active & ~free
            step = np.where(busy, np.minimum(left, (high - now) / self.slower), 0.0)
            through = busy & (step < left)
            now, left = np.where(through, high, now + step * self.slower), left - step
            self.head = self.head + (active & (now >= high))
        return now + left
