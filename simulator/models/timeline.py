"""One simulated iteration: its spans on streams, and the terms of its time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.models.sharding import AXIS_OF
from simulator.records import Record, Struct, field


class Span(Record):
    """One activity on a stream, with its start and end, and its bucket or layer (-1: none).

    `term`: the term of `BREAKDOWN` to which it counts; empty on streams that do not count. `sending`: when the first
    message of an exchange used its links, where these are followed; before, it queued behind others. `times`: how often
    it takes place in a row. `slowed`: seconds of it that count to `slowdown` instead, as exchanges beside it cost them.
    """

    stream: str
    label: str
    start: float
    end: float
    bucket: int = -1
    term: str = ""
    layer: int = -1
    sending: float = 0.0
    times: int = 1
    slowed: float = 0.0

    @property
    def duration(self) -> float:
        """Seconds from start to end."""
        return self.end - self.start


class IterationDetails(Protocol):
    """What is made of an iteration when it is asked for: see `Iteration`."""

    def computed(self) -> Floats:
        """When each worker has computed."""

    def spans(self) -> list[Span]:
        """The spans of the slowest worker."""

    def spans_of(self, worker: int) -> list[Span]:
        """The spans of one worker."""


class Iteration(Struct):
    """One simulated iteration: its seconds, their split into terms (mean over workers), and its spans.

    `communication_total` counts seconds in which several collectives are under way once, `communication_added_up` once
    for each. `waiting`: seconds for which collectives waited for the slowest worker, exposed or hidden. `held_back`:
    seconds of the idle time in which compute waited for exchanges that the host had not started. `slowed`: the seconds
    of `slowdown` in the tasks of each term; with them a term is what a timer around its tasks measures. `exposed`: of a
    sharded job the exposed communication by the axis whose communicator compute waited for. `link_use`:
    what each link carried over time, where exchanges shared links, on the clock on which the iteration began at
    `start`.
    """

    time: float
    breakdown: dict[str, float]
    communication_total: float
    communication_added_up: float
    waiting: float
    held_back: float = 0.0
    slowed: dict[str, float] = field(default_factory=dict)
    exposed: dict[str, float] = field(default_factory=dict)
    start: float = 0.0
    details: IterationDetails | None = None
    link_use: Callable[[], LinkUse] | None = None

    def computed(self) -> Floats:
        """When each worker has finished its backward pass and selection (w,); one number where all are alike."""
        return self._known.computed()

    def spans(self) -> list[Span]:
        """The spans of the slowest worker, with gaps on its compute stream where it waits for communication."""
        return self._known.spans()

    def spans_of(self, worker: int) -> list[Span]:
        """The spans of one worker, without a gap on its compute stream."""
        return self._known.spans_of(worker)

    def forget(self) -> None:
        """Free the times of every worker and bucket, from which spans are made; afterwards there are no spans."""
        self.details = None

    @property
    def _known(self) -> IterationDetails:
        if self.details is None:
            raise RuntimeError("the spans of this iteration were not kept: run with keep_iterations")
        return self.details


class LinkUse(Record):
    """From each of `times` (t,) on, links carried `rates` (t, c) bytes/s; `of_link` (L,) is the column of a link."""

    times: Floats
    rates: Floats
    of_link: Ints


def number_stages(exchanges: Sequence[Span]) -> list[tuple[Span, int]]:
    """Spans of exchanges in the order of time, each with its number among the stages of its bucket.

    Collectives among GPUs that are not the workers are no stages of an exchange and do not count.
    """
    seen: dict[int, int] = defaultdict(int)
    placed = []
    for span in sorted(exchanges, key=lambda span: (span.start, span.end)):
        placed.append((span, seen[span.bucket]))
        seen[span.bucket] += span.label not in AXIS_OF
    return placed


def covered_time(intervals: Iterable[tuple[float, float]], start: float, end: float) -> float:
    """Seconds of [start, end] that the intervals cover, overlaps counted once.

    >>> covered_time([(0, 2), (1, 3), (5, 9)], 1, 6)
    3.0
    """
    total, reached = 0.0, start
    for left, right in sorted(intervals):
        begin, stop = max(left, reached), min(right, end)
        if stop > begin:
            total += stop - begin
            reached = stop
    return total


def merge_intervals(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The time that the intervals cover, in order and without overlaps.

    >>> merge_intervals([(5, 9), (0, 2), (1, 3)])
    [(0, 3), (5, 9)]
    """
    made: list[tuple[float, float]] = []
    for start, end in sorted(intervals):
        if made and start <= made[-1][1]:
            made[-1] = (made[-1][0], max(made[-1][1], end))
        else:
            made.append((start, end))
    return made
