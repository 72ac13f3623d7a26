"""Message patterns that belong to single methods: rounds from payloads, for `Messages` steps."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from simulator.models.exchange import Layout, Round
from simulator.models.limits import refuse_messages


def all_to_all(nbytes: tuple[float, ...], layout: Layout) -> list[Round]:
    """Every worker sends `nbytes[0]` to every other: p-1 rounds, in round t to the worker t places on."""
    refuse_messages(layout.workers * (layout.workers - 1))
    workers = np.arange(layout.workers)
    payload = np.full((1, layout.workers), nbytes[0])
    return [Round(workers, np.roll(workers, -t), payload) for t in range(1, layout.workers)]


def merge_tree(nbytes: tuple[float, ...], layout: Layout) -> list[Round]:
    """Pairs merge upwards in log2 p rounds, `nbytes[0]` each; then worker 0 broadcasts as much back down.

    gTop-k (Shi et al., ICDCS 2019). p must be a power of two.
    """
    up, distance = [], 1
    while distance < layout.workers:
        receivers = np.arange(0, layout.workers, 2 * distance)
        payload = np.full((1, len(receivers)), nbytes[0])
        up.append(Round(receivers + distance, receivers, payload))
        distance *= 2
    return up + [Round(item.dst, item.src, item.nbytes) for item in reversed(up)]


def ring_rounds(nbytes: tuple[float, ...], layout: Layout) -> list[Round]:
    """In round t everyone sends `nbytes[t]` to the next on one ring of all workers."""
    workers = np.arange(layout.workers)
    following = np.roll(workers, -1)
    return [
        Round(workers, following, np.full((1, layout.workers), size), len(list(alike)))
        for size, alike in groupby(nbytes)
    ]
