"""Numbered points, and calls with many arguments, spread over processes of this machine, or in this one."""

from __future__ import annotations

# Nothing heavy is imported here: a new process imports this module before its environment for numpy is set.
import gc
import multiprocessing
import os
import pickle
import signal
import stat
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import chain
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, NamedTuple, TypeVar, cast

from simulator.errors import InputError, Problem, SparsimError, format_value
from simulator.progress import Watch

BATCH_SECONDS = 0.25
"""How long an evaluation of several points together may take before fewer are taken together."""
_GROWTH = 2
MAX_CHUNK = 512
_CHUNKS_LEFT = 3
"""Chunks are small enough that at least this many are left per process, down to one point each."""


Argument = TypeVar("Argument")
Result = TypeVar("Result")
Function = Callable[[Sequence[Argument]], Sequence[Result]]
"""The results of several arguments, or of points by their numbers, which may share work. It can be pickled."""


class Evaluation(NamedTuple, Generic[Result]):
    """The result of a numbered point, or why there is none: its processes died."""

    number: int
    result: Result | None
    lost: str = ""


Batches = Generator[list[Evaluation[Result]], None, None]
"""Outcomes of points, in batches as they are finished. Closing the iterator stops everything."""


class ChunkQueue(Generic[Result]):
    """Points still to be evaluated, handed out in chunks of whole groups that become smaller towards the end."""

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        self.groups = deque(list(group) for group in groups)
        self.left = sum(len(group) for group in groups)
        self.alone: deque[int] = deque()
        self.tried = set[int]()

    def take(self, processes: int) -> list[int]:
        """The next chunk for one of so many processes; points that are tried again are chunks of their own."""
        if self.alone:
            self.left -= 1
            return [self.alone.popleft()]
        size = max(1, min(MAX_CHUNK, self.left // (_CHUNKS_LEFT * processes)))
        chunk: list[int] = []
        while self.groups and len(chunk) < size:
            chunk += self.groups[0][: 2 * size]
            del self.groups[0][: 2 * size]
            if not self.groups[0]:
                self.groups.popleft()
        self.left -= len(chunk)
        return chunk

    def put_back(self, numbers: Sequence[int], why: str) -> list[Evaluation[Result]]:
        """Put back the points of a process that died, each to be tried once more and alone.

        Returns the one that was alone and tried before: it is given up, and `why`.
        """
        if len(numbers) == 1 and numbers[0] in self.tried:
            return [Evaluation(numbers[0], None, why)]
        self.tried.update(numbers)
        self.alone += numbers
        self.left += len(numbers)
        return []


class InBatches(Generic[Result]):
    """Evaluates as many points together as take little time: first one, then more."""

    def __init__(self, function: Function[int, Result]) -> None:
        self.function, self.together = function, 1

    def evaluate(self, numbers: Sequence[int]) -> Batches[Result]:
        """Evaluate points in order; those that are evaluated together are a batch."""
        start = 0
        while start < len(numbers):
            some = numbers[start : start + self.together]
            start += len(some)
            began = time.monotonic()
            batch = [Evaluation(*pair) for pair in zip(some, self.function(some), strict=True)]
            if time.monotonic() - began > BATCH_SECONDS:
                self.together = max(1, len(some) // _GROWTH)
            elif len(some) == self.together:
                self.together = min(_GROWTH * self.together, MAX_CHUNK)
            yield batch


_DIED = "the process that evaluated this point died twice"
_GUARD = "in a script, call `sweep` below `if __name__ == '__main__':`, or with workers=1"
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


_NOT_COPIED = ("torch", "distributed")
"""Packages whose threads do not survive a copy of the process."""


def can_fork() -> bool:
    """Whether new processes can be copies of this one: on Linux, while it has one thread, before PyTorch or Dask."""
    return sys.platform == "linux" and threading.active_count() == 1 and not any(m in sys.modules for m in _NOT_COPIED)


class _Worker(Generic[Result]):
    """A process, the connection to it, and the points that it was given and has not returned."""

    def __init__(self, function: Function[int, Result], blob: bytes | None) -> None:
        """`blob`: the pickled function for a new process; None for a copy of this one, which has it."""
        self.connection, theirs = multiprocessing.Pipe()
        with warnings.catch_warnings():
            # Python 3.12 warns of numpy's threads, too, which numpy prepares for a fork itself.
            warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
            context: Any = multiprocessing.get_context("fork" if blob is None else "spawn")
            given = function if blob is None else None
            self.process: BaseProcess = context.Process(target=_serve, args=(theirs, given), daemon=True)
            self.process.start()
        theirs.close()
        self.started = False
        self.points: list[int] = []
        if blob is not None:
            with suppress(OSError):  # the process has died, which `receive` reports
                self.connection.send_bytes(blob)

    def send(self, chunk: list[int]) -> None:
        """Hand over points."""
        self.points = chunk
        with suppress(OSError):
            self.connection.send(chunk)

    def receive(self) -> list[Evaluation[Result]]:
        """The outcomes of its next points; none when it has started. Raises EOFError where it has died."""
        try:
            message: list[Evaluation[Result]] = self.connection.recv()
        except (OSError, pickle.UnpicklingError):
            raise EOFError from None
        self.started = True
        self.points = self.points[len(message) :]
        return message

    def stop(self) -> str:
        """End the process; how it ended, in words."""
        self.connection.close()
        self.process.join(timeout=0.2)
        for end in (self.process.terminate, self.process.kill):
            if self.process.exitcode is None:
                end()
                self.process.join(timeout=2)
        code = self.process.exitcode
        return f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"


def run_locally(
    function: Function[int, Result], groups: Sequence[Sequence[int]], processes: int = 1
) -> Batches[Result]:
    """Outcomes of groups of points that share work: in this process in order, or by several processes.

    A process that dies is replaced; its points are tried again one by one. Raises SparsimError where processes cannot
    be started.
    """
    if processes == 1:
        yield from InBatches(function).evaluate([number for group in groups for number in group])
        return
    queue = ChunkQueue[Result](groups)
    blob = None if can_fork() else pickle.dumps(function, protocol=pickle.HIGHEST_PROTOCOL)
    never_started = 0
    team = [_Worker(function, blob) for _ in range(min(processes, queue.left))]
    try:
        while queue.left or any(worker.points for worker in team):
            for worker in team:
                if worker.started and not worker.points and queue.left:
                    worker.send(queue.take(len(team)))
            ready = wait([worker.connection for worker in team])
            for worker in [item for item in team if item.connection in ready]:
                try:
                    finished = worker.receive()
                except EOFError:
                    team.remove(worker)
                    how = worker.stop()
                    finished = queue.put_back(worker.points, f"{_DIED} ({how})")
                    never_started += not worker.started
                    if never_started > processes:
                        raise SparsimError(f"new processes end at once ({how}): {_GUARD}") from None
                    if queue.left:
                        team.append(_Worker(function, blob))
                if finished:
                    yield finished
    finally:
        for worker in team:
            worker.connection.close()  # first all connections, so that the processes end at the same time
        for worker in team:
            worker.stop()


def _let_go_of_files(kept: int) -> None:
    """Make all files that were open nothing, so that locks and connections end with the process that opened them.

    Their numbers stay taken, since objects of this process know them. Pipes stay: by one of them `multiprocessing` sees
    that this process has ended.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):
            if number > 2 and number not in (kept, nothing) and not stat.S_ISFIFO(os.fstat(number).st_mode):
                os.dup2(nothing, number)


def _serve(connection: Connection, function: Function[int, Any] | None) -> None:
    """The main function of a copy of the process that asks, or of a new process, which reads the function first.

    It leaves Ctrl-C to the process that started it, and one thread to each library that is still to be loaded.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in _THREADS:
        os.environ.setdefault(name, "1")
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        if function is None:
            function = pickle.loads(connection.recv_bytes())
        else:
            _let_go_of_files(connection.fileno())
            gc.freeze()  # what is shared with the process that was copied is not touched
        in_batches = InBatches[Any](function)
        connection.send([])
        while True:
            for batch in in_batches.evaluate(connection.recv()):
                connection.send(batch)


def count_processes(processes: int | None, items: int | None = None) -> int:
    """How many processes to use. Raises InputError for less than one.

    `processes`: what was asked for; None: one per core where copies of this process can be made, else this one alone.
    `items`: how many there are to work on.
    """
    if processes is not None and processes < 1:
        raise InputError(Problem("workers", "at least 1", format_value(processes)))
    count = processes or ((os.cpu_count() or 1) if can_fork() else 1)
    return count if items is None else max(1, min(count, items))


def map_in_processes(
    function: Function[Argument, Result], arguments: Sequence[Argument], processes: int | None = None
) -> Generator[tuple[int, Result], None, None]:
    """The place of each argument with its result, in the order in which they are finished.

    The function and its results must be possible to pickle. An exception in the function is raised here. Raises
    SparsimError where a process dies twice.
    """
    call, count = partial(_call, function, arguments), count_processes(processes, len(arguments))
    with closing(run_locally(call, [[number] for number in range(len(arguments))], count)) as batches:
        for number, returned, lost in chain.from_iterable(batches):
            result, error = returned or (None, SparsimError(lost))
            if error is not None:
                raise error
            yield number, cast(Result, result)


def map_watched(
    function: Function[Argument, Result],
    arguments: Sequence[Argument],
    watch: Watch,
    part: str,
    processes: int | None = None,
    *,
    steps: int = 1,
) -> dict[int, Result]:
    """The results by the places of their arguments, in the order in which they are finished.

    `watch` counts `steps` for each, and an interruption of this `part` of the study leaves out what was not finished.
    Raises what `map_in_processes` raises.
    """
    made: dict[int, Result] = {}
    watch.expect(steps * len(arguments))
    with watch.part(part), closing(map_in_processes(function, arguments, processes)) as results:
        for place, result in results:
            made[place] = result
            watch.step(steps)
    return made


def _call(
    function: Function[Argument, Result], arguments: Sequence[Argument], numbers: Sequence[int]
) -> Sequence[tuple[Result | None, Exception | None]]:
    """What the function returns for the arguments of several numbers, or raises, to be raised where it was asked."""
    try:
        return [(result, None) for result in function([arguments[number] for number in numbers])]
    except Exception as error:
        return [(None, error)] * len(numbers)
