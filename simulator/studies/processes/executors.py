"""Executors evaluate numbered points: what they have in common, and the one that uses this process.

Nothing heavy is imported here: a new process imports this module before its environment for numpy is set.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

BATCH_SECONDS = 0.25
"""How long a finished point may wait for others before it is handed over."""
_CALL_SECONDS = BATCH_SECONDS
"""How long one evaluation of several points together may take before fewer are taken together."""
_GROWTH = 2
MAX_CHUNK = 512
_CHUNKS_LEFT = 3
"""Chunks are small enough that at least this many are left per process, down to one point each."""


class Numbered(Protocol):
    """What is known of a point."""

    @property
    def number(self) -> int:
        """The number of the point."""


Known = TypeVar("Known", bound=Numbered)
Batches = Generator[list[Known], None, None]
"""What is known of points, in batches as they are finished."""


class PointOutcome(NamedTuple):
    """A point's number, its digest, its record for the journal (JSON), and its error, if any."""

    number: int
    digest: str
    body: bytes
    error: str | None


Outcomes = Batches[PointOutcome]


class Evaluator(Protocol[Known]):
    """What an executor is given; it must be possible to pickle it."""

    def evaluate(self, numbers: Sequence[int]) -> list[Known]:
        """Evaluate points, which may share work."""

    def failure(self, number: int, message: str) -> Known:
        """What is known of a point that could not be evaluated."""


class Executor(Protocol):
    """Evaluates groups of points; the points of a group share work, so a group is best kept together."""

    def run(self, evaluator: Evaluator[Known], groups: Sequence[Sequence[int]]) -> Batches[Known]:
        """What is known of the points, as they are finished. Closing the iterator stops everything."""


class ChunkQueue:
    """Points still to be evaluated, handed out in chunks of whole groups that become smaller towards the end."""

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        self.groups = deque(list(group) for group in groups)
        self.left = sum(len(group) for group in groups)
        self.alone: deque[int] = deque()
        self.tries: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self.left)

    def take(self, processes: int) -> list[int]:
        """The next chunk for one of so many processes; points that are tried again are chunks of their own."""
        if self.alone:
            self.left -= 1
            return [self.alone.popleft()]
        size = max(1, min(MAX_CHUNK, self.left // (_CHUNKS_LEFT * processes)))
        chunk: list[int] = []
        while self.groups and len(chunk) < size:
            group = self.groups[0]
            if len(group) <= 2 * size:
                chunk += self.groups.popleft()
            else:
                chunk += group[:size]
                del group[:size]
        self.left -= len(chunk)
        return chunk

    def put_back(self, numbers: Sequence[int]) -> list[int]:
        """Put back the points of a process that died, each to be tried once more and alone.

        Returns those that were alone and tried before: they are given up.
        """
        given_up = []
        for number in numbers:
            if len(numbers) == 1 and self.tries.get(number):
                given_up.append(number)
            else:
                self.tries[number] = 1
                self.alone.append(number)
                self.left += 1
        return given_up


class LocalExecutor:
    """Evaluates in this process."""

    def run(self, evaluator: Evaluator[Known], groups: Sequence[Sequence[int]]) -> Batches[Known]:
        """What is known of the points in order, four times a second."""
        yield from InBatches(evaluator).evaluate([number for group in groups for number in group])


class InBatches(Generic[Known]):
    """Evaluates as many points together as take little time: first one, then more."""

    def __init__(self, evaluator: Evaluator[Known]) -> None:
        self.evaluator, self.together = evaluator, 1

    def evaluate(self, numbers: Sequence[int]) -> Batches[Known]:
        """Evaluate points in order; a batch ends when it is older than `BATCH_SECONDS`."""
        batch: list[Known] = []
        since = time.monotonic()
        start = 0
        while start < len(numbers):
            some = numbers[start : start + self.together]
            began = time.monotonic()
            batch += self.evaluator.evaluate(some)
            now = time.monotonic()
            start += len(some)
            if now - began > _CALL_SECONDS:
                self.together = max(1, len(some) // _GROWTH)
            elif len(some) == self.together:
                self.together = min(_GROWTH * self.together, MAX_CHUNK)
            if now - since > BATCH_SECONDS:
                yield batch
                batch, since = [], now
        if batch:
            yield batch
