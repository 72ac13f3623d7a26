"""Points evaluated in several processes on this machine.

Nothing heavy is imported here: a new process imports this module before its environment for numpy is set.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait

from simulator.errors import SparsimError
from simulator.studies.sweep.executors import Evaluator, Outcome, Outcomes, Queue, evaluate_in_batches

_DIED = "the process that evaluated this point died twice"
_GUARD = "in a script, call `sweep` below `if __name__ == '__main__':`, or with workers=1"
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class _Worker:
    """A process, the connection to it, and the points that it was given and has not returned."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.started = self.idle = False
        self.points: list[int] = []

    def send_evaluator(self, blob: bytes) -> None:
        """Hand over the pickled evaluator."""
        with suppress(OSError):  # the process has died, which `receive` reports
            self.connection.send_bytes(blob)

    def send(self, chunk: list[int]) -> None:
        """Hand over points."""
        self.points, self.idle = chunk, False
        with suppress(OSError):
            self.connection.send(chunk)

    def receive(self) -> list[Outcome]:
        """The outcomes that it has finished. Raises EOFError where it has died."""
        try:
            message: list[Outcome] | None = self.connection.recv()
        except (OSError, pickle.UnpicklingError):
            raise EOFError from None
        if message is None:
            self.started = self.idle = True
            return []
        done = {outcome.number for outcome in message}
        self.points = [number for number in self.points if number not in done]
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


class ProcessExecutor:
    """Evaluates in processes on this machine. One that dies is replaced; its points are tried again one by one."""

    def __init__(self, count: int) -> None:
        self.count = count

    def run(self, evaluator: Evaluator, groups: Sequence[Sequence[int]]) -> Outcomes:
        """Outcomes as they are finished. Raises SparsimError where processes cannot be started."""
        queue, blob = Queue(groups), pickle.dumps(evaluator, protocol=pickle.HIGHEST_PROTOCOL)
        never_started = 0
        team = [_Worker() for _ in range(min(self.count, queue.left))]
        try:
            for worker in team:
                worker.send_evaluator(blob)
            while queue or any(worker.points for worker in team):
                for worker in team:
                    if worker.idle and queue:
                        worker.send(queue.take(len(team)))
                ready = wait([worker.connection for worker in team])
                for worker in [item for item in team if item.connection in ready]:
                    try:
                        finished = worker.receive()
                    except EOFError:
                        team.remove(worker)
                        how, given_up = worker.stop(), queue.put_back(worker.points)
                        finished = [evaluator.failure(number, f"{_DIED} ({how})") for number in given_up]
                        never_started += not worker.started
                        if never_started > self.count:
                            raise SparsimError(f"new processes end at once ({how}): {_GUARD}") from None
                        if queue:
                            team.append(_Worker())
                            team[-1].send_evaluator(blob)
                    if finished:
                        yield finished
        finally:
            for worker in team:
                worker.connection.close()  # first all connections, so that the processes end at the same time
            for worker in team:
                worker.stop()


def _serve(connection: Connection) -> None:
    """The main function of a process: read the evaluator, then evaluate chunks until the connection closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the process that started the sweep
    if "numpy" not in sys.modules:
        for name in _THREADS:
            os.environ.setdefault(name, "1")
    try:
        evaluator: Evaluator = pickle.loads(connection.recv_bytes())
        connection.send(None)
        while True:
            for batch in evaluate_in_batches(evaluator, connection.recv()):
                connection.send(batch)
            connection.send(None)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
