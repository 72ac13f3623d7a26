"""The counters of a timeline: link utilisation, bytes in flight, density."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from simulator.engine.plan.plan import Plan
from simulator.models.curves import Floats
from simulator.models.timeline import Iteration

MOST = 4000
"""Points of one counter in one iteration; more are averaged over equal intervals, which keeps their integral."""
Points = list[tuple[float, tuple[float, ...]]]


def sum_intervals(intervals: Iterable[tuple[float, float, float]], end: float) -> Points:
    """The sum of values that each hold from a start to an end; 0 before the first one and from `end` on.

    >>> sum_intervals([(0, 2, 1.0), (1, 3, 5.0)], 4)
    [(0, (1.0,)), (1, (6.0,)), (2, (5.0,)), (3, (0.0,))]
    """
    changes: dict[float, tuple[float, int]] = {0: (0.0, 0), end: (0.0, 0)}
    for start, stop, value in intervals:
        for moment, by, count in ((start, value, 1), (stop, -value, -1)):
            known = changes.get(moment, (0.0, 0))
            changes[moment] = (known[0] + by, known[1] + count)
    made: Points = []
    total, open_ones = 0.0, 0
    for moment in sorted(changes):
        total, open_ones = total + changes[moment][0], open_ones + changes[moment][1]
        total = total if open_ones else 0.0  # what is left is a rounding error
        if not made or made[-1][1][0] != total:
            made.append((moment, (total,)))
    return made


def link_points(iteration: Iteration, plan: Plan, link: int) -> Points:
    """Utilisation of a link where exchanges shared links: exact, or averaged where it has many points."""
    if iteration.link_use is None:
        return []
    use = iteration.link_use()
    share = use.rates[:, int(use.of_link[link])] / float(plan.wiring.capacity[link])
    return cut_points(use.times - iteration.start, share, iteration.time)


def cut_points(times: Floats, values: Floats, end: float) -> Points:
    """Values that hold from their times on, cut to [0, end] and to `MOST` points, with 0 at the end.

    >>> cut_points(np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.0, 0.5]), 4.0)
    [(0.0, (1.0,)), (2.0, (0.5,)), (4.0, (0.0,))]
    """
    before = np.searchsorted(times, 0.0, side="right") - 1
    first = float(values[before]) if before >= 0 else 0.0
    inside = (times > 0.0) & (times < end)
    times, values = np.append(0.0, times[inside]), np.append(first, values[inside])
    if len(times) > MOST:
        bounds = np.linspace(0.0, end, MOST + 1)
        area = np.append(0.0, np.cumsum(values * np.diff(times, append=end)))
        values = np.diff(np.interp(bounds, np.append(times, end), area)) / np.diff(bounds)
        times = bounds[:-1]
    changed = np.diff(values, prepend=np.nan) != 0
    points: Points = [
        (time, (value,)) for time, value in zip(times[changed].tolist(), values[changed].tolist(), strict=True)
    ]
    return points if not points or points[-1][1] == (0.0,) else [*points, (end, (0.0,))]
