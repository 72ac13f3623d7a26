"""Who evaluates the points: this process, or processes of their own on this machine.

Nothing heavy is imported here: a new process imports this module first, and sets up before numpy comes.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import NamedTuple, Protocol

from simulator.errors import SparsimError

BATCH_SECONDS = 0.25
"""How long a finished point may wait for others before it is handed over."""
MAX_CHUNK = 64
_CHUNKS_LEFT = 8
"""Points are handed out so that at least this many chunks per process are left, down to one point each."""
_DIED = "the process that evaluated it died, twice"
_GUARD = "a script that sweeps must do so under `if __name__ == '__main__':`, or with workers=1"
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Outcome(NamedTuple):
    """A point's number, its digest, its record for the journal (JSON), and what went wrong, if anything did."""

    number: int
    digest: str
    body: bytes
    error: str | None


Outcomes = Generator[list[Outcome], None, None]


class Evaluator(Protocol):
    """What an executor is given; it must be possible to pickle it."""

    def evaluate(self, number: int) -> Outcome:
        """Predict one point."""

    def failure(self, number: int, message: str) -> Outcome:
        """The outcome of a point that could not be evaluated."""


class Executor(Protocol):
    """Evaluates groups of points; neighbours share work, so a group is best kept together."""

    def run(self, evaluator: Evaluator, groups: Sequence[Sequence[int]]) -> Outcomes:
        """Outcomes as they come, some at a time. Closing the iterator stops everything."""


class Queue:
    """Points still to be handed out: in chunks of whole groups, ever smaller towards the end."""

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        self.groups = deque(list(group) for group in groups)
        self.left = sum(len(group) for group in groups)
        self.alone: deque[int] = deque()
        self.tries: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self.left)

    def take(self, hands: int) -> list[int]:
        """The next chunk, for one of so many processes; what is tried again goes alone."""
        if self.alone:
            self.left -= 1
            return [self.alone.popleft()]
        size = max(1, min(MAX_CHUNK, self.left // (_CHUNKS_LEFT * hands)))
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

    def again(self, numbers: Sequence[int]) -> list[int]:
        """Put back what was lost with a process, each to be tried once more and alone; those that had that chance."""
        spent = []
        for number in numbers:
            if len(numbers) == 1 and self.tries.get(number):
                spent.append(number)
            else:
                self.tries[number] = 1
                self.alone.append(number)
                self.left += 1
        return spent


class Here:
    """In this process, one point after the other."""

    def run(self, evaluator: Evaluator, groups: Sequence[Sequence[int]]) -> Outcomes:
        """Outcomes, handed over four times a second."""
        batch: list[Outcome] = []
        since = time.monotonic()
        for group in groups:
            for number in group:
                batch.append(evaluator.evaluate(number))
                if time.monotonic() - since > BATCH_SECONDS:
                    yield batch
                    batch, since = [], time.monotonic()
        if batch:
            yield batch


class _Member:
    """A process, the connection to it, and the points that it was given and has not handed back."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.born = self.idle = False
        self.points: list[int] = []

    def brief(self, blob: bytes) -> None:
        """Tell it what it will evaluate."""
        with suppress(OSError):  # it has died, and that is heard of when it is listened to
            self.connection.send_bytes(blob)

    def give(self, chunk: list[int]) -> None:
        """Hand over points."""
        self.points, self.idle = chunk, False
        with suppress(OSError):
            self.connection.send(chunk)

    def hear(self) -> list[Outcome]:
        """What it has finished. Raises EOFError where it has died."""
        try:
            message: list[Outcome] | None = self.connection.recv()
        except (OSError, pickle.UnpicklingError):
            raise EOFError from None
        if message is None:
            self.born = self.idle = True
            return []
        done = {outcome.number for outcome in message}
        self.points = [number for number in self.points if number not in done]
        return message

    def stop(self) -> str:
        """End it; how it ended, in words."""
        self.connection.close()
        self.process.join(timeout=0.2)
        for end in (self.process.terminate, self.process.kill):
            if self.process.exitcode is None:
                end()
                self.process.join(timeout=2)
        code = self.process.exitcode
        return f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"


class Processes:
    """In processes on this machine. One that dies is replaced; its points are tried once more, one by one."""

    def __init__(self, count: int) -> None:
        self.count = count

    def run(self, evaluator: Evaluator, groups: Sequence[Sequence[int]]) -> Outcomes:
        """Outcomes as they come. Raises SparsimError where processes can't be started."""
        queue, blob = Queue(groups), pickle.dumps(evaluator, protocol=pickle.HIGHEST_PROTOCOL)
        stillborn = 0
        team = [_Member() for _ in range(min(self.count, queue.left))]
        try:
            for member in team:
                member.brief(blob)
            while queue or any(member.points for member in team):
                for member in team:
                    if member.idle and queue:
                        member.give(queue.take(len(team)))
                heard = wait([member.connection for member in team])
                for member in [item for item in team if item.connection in heard]:
                    try:
                        finished = member.hear()
                    except EOFError:
                        team.remove(member)
                        how, lost = member.stop(), queue.again(member.points)
                        finished = [evaluator.failure(number, f"{_DIED} ({how})") for number in lost]
                        stillborn += not member.born
                        if stillborn > self.count:
                            raise SparsimError(f"processes end before they begin ({how}): {_GUARD}") from None
                        if queue:
                            team.append(_Member())
                            team[-1].brief(blob)
                    if finished:
                        yield finished
        finally:
            for member in team:
                member.connection.close()  # all at once, so that they end side by side
            for member in team:
                member.stop()


def _serve(connection: Connection) -> None:
    """A process's life: read what to evaluate, then chunk after chunk, until nobody is there any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who asked
    if "numpy" not in sys.modules:
        for name in _THREADS:
            os.environ.setdefault(name, "1")
    try:
        evaluator: Evaluator = pickle.loads(connection.recv_bytes())
        connection.send(None)
        while True:
            batch: list[Outcome] = []
            since = time.monotonic()
            for number in connection.recv():
                batch.append(evaluator.evaluate(number))
                if time.monotonic() - since > BATCH_SECONDS:
                    connection.send(batch)
                    batch, since = [], time.monotonic()
            connection.send(batch)
            connection.send(None)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
