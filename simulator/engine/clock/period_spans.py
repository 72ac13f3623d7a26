"""What happens in one period of local steps, and its spans."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from simulator.engine.clock.software import Busy
from simulator.engine.clock.old_spans import WAIT_DATA, WAIT_NETWORK, WAIT_SLOWEST
from simulator.models.curves import Floats
from simulator.models.timeline import Span
from simulator.records import Struct, field

_SHOWN = 32
"""Local steps in a row that are shown one by one; of more, all forward passes are one span."""


class Part(NamedTuple):
    """A part of compute: its term, when it starts and ends on each worker (w,), its bucket (-1: none).

    `steps`: the local steps that it belongs to; 0 for a wait.
    """

    term: str
    start: Floats
    end: Floats
    bucket: int
    steps: int


class PeriodLog(Struct, dict=True):
    """What happened in one period: parts of compute in order, and the exchanges that ended in it.

    `began`, `ended` (w,): the period of each worker. `passes`: those of one step, names of terms with their seconds.
    `waited`: seconds, mean over workers, for which exchanges waited for the slowest. `gaps`: when the slowest worker
    waited for communication.
    """

    began: Floats
    passes: Sequence[tuple[str, float]] = ()
    parts: list[Part] = field(default_factory=list)
    busy: list[Busy] = field(default_factory=list)
    gaps: list[tuple[float, float]] = field(default_factory=list)
    waited: float = 0.0
    together: bool = True
    ended: Floats = field(default_factory=lambda: np.zeros(1))

    @property
    def length(self) -> float:
        """Seconds of the period, mean over workers; of workers by themselves the harmonic mean."""
        spent = self.ended - self.began
        return float(spent.mean() if self.together or not spent.all() else len(spent) / (1 / spent).sum())


def worker_spans(log: PeriodLog, worker: int) -> list[Span]:
    """The spans of one worker, counted from the start of its period, and the exchanges."""
    row = worker if len(log.began) > 1 else 0
    return _spans(log, row, float(log.began[row]))


def slowest_spans(log: PeriodLog) -> list[Span]:
    """The spans of the worker that takes longest, with gaps where it waits for communication, and the exchanges."""
    spans = worker_spans(log, int(np.argmax(log.ended)))
    return [span for span in spans if span.term != "communication_exposed"]


def _spans(log: PeriodLog, row: int, base: float) -> list[Span]:
    made = []
    for steps, group in groupby(log.parts, key=lambda part: part.steps if part.bucket < 0 else 0):
        parts = [(part, _at(part.start, row) - base, _at(part.end, row) - base) for part in group]
        if steps:
            made += list(_steps(log, steps, parts))
        else:
            made += [Span("compute", _label(part), low, high, part.bucket, part.term) for part, low, high in parts]
    offset = float(log.began.max())
    for start, end, label, index, collective in log.busy:
        stream = "communication" if collective else "exchange kernel"
        made.append(Span(stream, label, start - offset, end - offset, index))
    return [span for span in made if span.end > span.start]


def _steps(log: PeriodLog, steps: int, parts: list[tuple[Part, float, float]]) -> Iterator[Span]:
    """The parts of several local steps in a row, step by step where these are few."""
    shown = steps if steps <= _SHOWN else 1
    seconds = {part.term: (end - start) / shown for part, start, end in parts}
    whole = {term: math.fsum(own for name, own in log.passes if name == term) for term, _ in log.passes}
    passes = [(term, own / whole[term] if whole[term] else 0.0) for term, own in log.passes]
    now = parts[0][1]
    for _ in range(shown):
        for term, share in [("idle", 1.0), *passes, ("update", 1.0)]:
            if term in seconds:
                label = WAIT_DATA if term == "idle" else term
                stop = now + share * seconds[term]
                yield Span("compute", label if shown == steps else f"{label} of {steps} steps", now, stop, term=term)
                now = stop


def _label(part: Part) -> str:
    if part.term == "idle":
        return WAIT_SLOWEST
    return WAIT_NETWORK if part.term == "communication_exposed" else part.term


def _at(values: Floats, row: int) -> float:
    return float(values[row] if len(values) > 1 else values[0])
