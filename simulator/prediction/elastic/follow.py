"""Machines that come and go, followed event by event."""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import NamedTuple

import numpy as np

Event = tuple[float, int, bool]
"""A time, a node, and whether it is there from then on."""


class Followed(NamedTuple):
    """What was seen in `seconds`: steps times nodes that last (`progress`), seconds in which work was lost, or all
    waited for the quorum; the mean share of nodes that were there; failures; and the standard error of the progress."""

    seconds: float
    progress: float
    lost: float
    waited: float
    present: float
    failures: int
    error: float


def random_events(nodes: int, up: float, down: float, random: np.random.Generator) -> Iterator[Event]:
    """Failures of each node after exponential times, and its return after `down` seconds, in order, without end."""
    queue: list[Event] = [(float(random.exponential(up)), node, False) for node in range(nodes)]
    heapify(queue)
    while True:
        time, node, there = heappop(queue)
        yield time, node, there
        wait = down if not there else float(random.exponential(up))
        heappush(queue, (time + wait, node, not there))


def follow(
    nodes: int, step: float, events: Iterator[Event], *, detection: float, least: int, seconds: float, parts: int = 20
) -> Followed:
    """Follow nodes that take steps together up to the end of `seconds`.

    A failure loses the step under way, and the others do nothing for `detection` seconds; a node that is back takes
    part from the next step on. With fewer than `least` nodes all wait. The error is that of the mean over `parts` equal
    parts of the time.
    """
    there = np.ones(nodes, dtype=bool)
    clock = began = lost = waited = present = 0.0
    failures, count = 0, nodes
    progress = np.zeros(parts)
    for time, node, joins in chain(events, [(math.inf, 0, True)]):  # after the last event, all go on
        until = min(time, seconds)
        if until > clock:
            if count >= least:
                done = int((until - clock) / step + 1e-9)  # a step that ends with the time counts, rounded or not
                _add(progress, clock, done * step, done * count, seconds)
                rest = max(0.0, until - clock - done * step)
                # What is left of a step is lost if a node fails in it, and goes on where one joins.
                if time < seconds and not joins:
                    lost += rest
                    clock = until
                else:
                    clock = until - rest
            else:
                waited += until - clock
                clock = until
        present += count * max(0.0, until - began)
        began = max(began, until)
        if time >= seconds:
            break
        if joins != bool(there[node]):
            there[node] = joins
            count += 1 if joins else -1
            if not joins:
                failures += 1
                noticed = min(time + detection, seconds)
                lost += max(0.0, noticed - clock)
                clock = max(clock, noticed)
    error = float(progress.std(ddof=1) * np.sqrt(parts))
    return Followed(seconds, float(progress.sum()), lost, waited, present / (seconds * nodes), failures, error)


def _add(progress: np.ndarray, start: float, length: float, amount: float, seconds: float) -> None:
    """Spread an amount evenly over the parts of the time that it took."""
    if length <= 0:
        return
    parts, width = len(progress), seconds / len(progress)
    first, last = int(start / width), min(int((start + length) / width), parts - 1)
    for part in range(first, last + 1):
        covered = min(start + length, (part + 1) * width) - max(start, part * width)
        progress[part] += amount * covered / length
