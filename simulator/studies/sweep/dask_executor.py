"""Points on a Dask cluster: the same chunks, evaluated by whoever is there."""

from __future__ import annotations

import importlib
import pickle
import zlib
from collections.abc import Sequence
from functools import lru_cache
from threading import Lock
from typing import Any

from simulator.errors import InputError, Problem, SparsimError, format_value
from simulator.studies.sweep.executors import Evaluator, Outcome, Outcomes, Queue

_CONNECT_SECONDS = 15
_WAITING = 3
"""Chunks in flight per thread: one is evaluated while others wait beside it."""
_one_at_a_time = Lock()


class OnCluster:
    """On the workers of a Dask scheduler. Chunks of workers that leave go to others; that is the scheduler's doing.

    A chunk whose workers keep dying is tried once more, point by point. Workers may come and go.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.distributed = _distributed()

    def run(self, evaluator: Evaluator, groups: Sequence[Sequence[int]]) -> Outcomes:
        """Outcomes as they come. Raises InputError where no scheduler answers, SparsimError where it is lost."""
        queue = Queue(groups)
        if not queue:
            return
        blob = zlib.compress(pickle.dumps(evaluator, protocol=pickle.HIGHEST_PROTOCOL))
        with self._client() as client:
            flying: dict[Any, list[int]] = {}
            landed = self.distributed.as_completed(loop=client.loop)

            def send() -> None:
                try:
                    hands = max(1, sum(client.nthreads().values()))
                except OSError:
                    raise self._lost() from None
                while queue and len(flying) < _WAITING * hands:
                    chunk = queue.take(hands)
                    future = client.submit(evaluate_chunk, blob, chunk, pure=False)
                    flying[future] = chunk
                    landed.add(future)

            send()
            for future in landed:
                chunk = flying.pop(future)
                if future.status == "finished":
                    yield future.result()
                else:
                    lost = queue.again(chunk) if self._killed(future) else []
                    if lost:
                        yield [evaluator.failure(number, "the Dask workers that evaluated it died") for number in lost]
                send()

    def _client(self) -> Any:
        where = f"--cluster {self.address}"
        try:
            client = self.distributed.Client(self.address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise InputError(Problem(where, "a Dask scheduler that answers", format_value(str(error)))) from None
        try:
            client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
        except self.distributed.TimeoutError:
            client.close()
            raise InputError(Problem(where, "a Dask scheduler with workers", "none")) from None
        return client

    def _killed(self, future: Any) -> bool:
        """True where a chunk's workers died. Raises SparsimError where it failed for another reason."""
        if future.status == "error":
            error = future.exception()
            if type(error).__name__ == "KilledWorker":
                return True
            raise SparsimError(f"--cluster {self.address}: {type(error).__name__}: {error}")
        raise self._lost()

    def _lost(self) -> SparsimError:
        return SparsimError(f"--cluster {self.address}: the scheduler was lost")


def evaluate_chunk(blob: bytes, chunk: list[int]) -> list[Outcome]:
    """Evaluate points on a worker, one chunk at a time, since threads would only take turns."""
    with _one_at_a_time:
        evaluator = _evaluator(blob)
        return [evaluator.evaluate(number) for number in chunk]


@lru_cache(maxsize=2)
def _evaluator(blob: bytes) -> Evaluator:
    made: Evaluator = pickle.loads(zlib.decompress(blob))
    return made


def _distributed() -> Any:
    """The package `distributed`. Raises InputError where it is not installed."""
    try:
        return importlib.import_module("distributed")
    except ImportError:
        hint = "pip install 'sparsim[cluster]'"
        raise InputError(Problem("--cluster", "the package `distributed`", "none installed", hint)) from None
