"""One simulated iteration: the terms of its time, and its spans on streams."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.models.sharding import AXIS_OF
from simulator.records import Record, Struct, field

T = TypeVar("T")


class Term(NamedTuple):
    """A term: its label, what its seconds are, and the formula that they come from."""

    label: str
    meaning: str
    formula: str = ""


_TERMS = {
    "forward": Term(
        "forward pass",
        "forward pass, mean over workers; the breakdown sums to the iteration time",
        "sum of the layers' forward times",
    ),
    "backward": Term(
        "backward pass",
        "backward pass, without the selection that runs in between",
        "sum of the layers' backward times, of additions of gradients where there are several passes, and of copies to "
        "buckets",
    ),
    "slowdown": Term(
        "slowdown by communication",
        "what kernels take longer because exchanges run beside them; no other term has it",
        "sum over tasks beside exchanges of (seconds taken - seconds alone); alone: seconds/(1 + slowdown) beside one",
    ),
    "selection": Term(
        "selection",
        "kernels and calls that choose and pack what is sent",
        "sum of the kernels before an exchange, each the slower of GPU and host",
    ),
    "communication_exposed": Term("exposed communication", "communication that no computation hides"),
    "combine": Term(
        "combine",
        "kernels that add up what has arrived",
        "sum of the kernels after an exchange, and of those inside it that compute waits for",
    ),
    "update": Term("update", "the optimiser", "the optimiser's kernels on all tensors, the slower of GPU and host"),
    "idle": Term("idle time", "waiting for the slowest worker, for the host, and for data"),
}
_IDLE = {
    "waiting_for_slowest": Term(
        "waiting for the slowest worker",
        "part of the idle time: waiting for the slowest worker",
        "mean over workers of (slowest worker's compute - own)",
    ),
    "waiting_for_host": Term(
        "waiting for the host",
        "part of the idle time: waiting for exchanges that the host has not started, and for its hooks",
        "time of cycles, launches and hooks in which nothing is under way that compute waits for",
    ),
    "waiting_for_stages": Term(
        "waiting for other stages",
        "part of the idle time: the bubble of a pipeline, as if nothing were communicated",
        "seconds of the micro-batches in the pipeline - those in which the first stage computes, without communication",
    ),
    "communication_of_stages": Term(
        "communication of other stages",
        "part of the idle time: by how much the bubble is longer for what stages communicate, in layers of others and "
        "with each other",
        "bubble - bubble without collectives in layers and sends between stages",
    ),
    "data_loading": Term(
        "waiting for data",
        "part of the idle time: waiting for the next batch",
        "time in which a worker waits for its next batch",
    ),
}
BREAKDOWN = tuple(_TERMS)
"""Terms into which the time of an iteration is split; they sum to it."""
LATER = ("slowdown",)
"""Terms that results of older versions have inside others; there they count as 0."""
IDLE = tuple(_IDLE)
"""Terms into which the idle time of the breakdown is split."""
TERMS = _TERMS | _IDLE
TERM_LABELS = {name: term.label for name, term in TERMS.items()}


def split_idle(breakdown: Mapping[str, float], idle: Mapping[str, float]) -> dict[str, float]:
    """The terms of a breakdown (s) with idle time as its parts; they sum to the iteration time.

    >>> split_idle(dict.fromkeys(BREAKDOWN, 1.0), {"waiting_for_slowest": 0.75, "data_loading": 0.25})["data_loading"]
    0.25
    """
    terms = {term: breakdown.get(term, 0.0) for term in BREAKDOWN if term != "idle"}
    return terms | {term: idle.get(term, 0.0) for term in IDLE}  # results of older versions lack some


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


class Iteration(Struct):
    """One simulated iteration: its seconds, their split into terms (mean over workers), and its spans.

    Of local steps it is a whole period: `steps` steps and the exchange after them, so that its seconds are `steps`
    times those of a step, which the iteration time of a result is; 1 of all others.

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
    computed_by: Callable[[], Floats] | None = None
    spans_by: Callable[[int | None], list[Span]] | None = None
    link_use: Callable[[], LinkUse] | None = None
    steps: int = 1

    def computed(self) -> Floats:
        """When each worker has finished its backward pass and selection (w,); one number where all are alike."""
        return _if_kept(self.computed_by)()

    def spans(self) -> list[Span]:
        """The spans of the slowest worker, with gaps on its compute stream where it waits for communication."""
        return _if_kept(self.spans_by)(None)

    def spans_of(self, worker: int) -> list[Span]:
        """The spans of one worker, without a gap on its compute stream."""
        return _if_kept(self.spans_by)(worker)

    def forget(self) -> None:
        """Free the times of every worker and bucket, from which spans are made; afterwards there are no spans."""
        self.computed_by = self.spans_by = None


def _if_kept(made: T | None) -> T:
    if made is None:
        raise RuntimeError("the spans of this iteration were not kept: run with keep_iterations")
    return made


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
