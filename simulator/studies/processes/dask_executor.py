"""Points evaluated by the workers of a Dask cluster."""

from __future__ import annotations

import importlib
import pickle
import zlib
from collections.abc import Sequence
from functools import lru_cache
from threading import Lock
from typing import Any

from simulator.errors import InputError, Problem, SparsimError, format_value
from simulator.studies.processes.executors import Batches, ChunkQueue, Function, InBatches, Result

_CONNECT_SECONDS = 15
_WAITING = 3
"""Chunks sent ahead per thread, so that no thread waits for its next one."""
_DIED = "the Dask workers that evaluated this point died"
_one_at_a_time = Lock()


class DaskExecutor:
    """Evaluates on the workers of a Dask scheduler, which gives the chunks of workers that leave to others.

    A chunk whose workers keep dying is tried once more, point by point. Workers may join and leave.
    """

    def __init__(self, address: str) -> None:
        """Raises InputError where the package `distributed` is not installed."""
        self.address = address
        try:
            self.distributed: Any = importlib.import_module("distributed")
        except ImportError:
            hint = "pip install 'sparsim[cluster]'"
            raise InputError(Problem("--cluster", "the package `distributed`", "none installed", hint)) from None

    def run(self, function: Function[int, Result], groups: Sequence[Sequence[int]]) -> Batches[Result]:
        """Outcomes as they are finished.

        Raises InputError where no scheduler answers, SparsimError where the connection to it is lost.
        """
        queue = ChunkQueue[Result](groups)
        if not queue.left:
            return
        blob = zlib.compress(pickle.dumps(function, protocol=pickle.HIGHEST_PROTOCOL))
        with self._client() as client:
            sent: dict[Any, list[int]] = {}
            finished = self.distributed.as_completed(loop=client.loop)

            def send() -> None:
                try:
                    threads = max(1, sum(client.nthreads().values()))
                except OSError:
                    raise self._lost() from None
                while queue.left and len(sent) < _WAITING * threads:
                    chunk = queue.take(threads)
                    future = client.submit(evaluate_chunk, blob, chunk, pure=False)
                    sent[future] = chunk
                    finished.add(future)

            send()
            for future in finished:
                chunk = sent.pop(future)
                if future.status == "finished":
                    yield future.result()
                else:
                    given_up = queue.put_back(chunk, _DIED) if self._workers_died(future) else []
                    if given_up:
                        yield given_up
                send()

    def _client(self) -> Any:
        where = f"--cluster {self.address}"
        if self.address.startswith("tls://"):
            arguments = self.distributed.Security().get_connection_args("client")
            if arguments.get("ssl_context") is None:
                hint = "name it in ~/.config/dask/distributed.yaml; see the how-to of sweeps on a cluster"
                raise InputError(Problem(where, "a certificate in the configuration of Dask", "none", hint))
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

    def _workers_died(self, future: Any) -> bool:
        """True where a chunk's workers died. Raises SparsimError where it failed for another reason."""
        if future.status == "error":
            error = future.exception()
            if type(error).__name__ == "KilledWorker":
                return True
            raise SparsimError(f"--cluster {self.address}: {type(error).__name__}: {error}")
        raise self._lost()

    def _lost(self) -> SparsimError:
        return SparsimError(f"--cluster {self.address}: the connection to the scheduler was lost")


def evaluate_chunk(blob: bytes, chunk: list[int]) -> list[Any]:
    """Evaluate points on a worker, one chunk at a time: threads of one process cannot evaluate in parallel."""
    with _one_at_a_time:
        return [outcome for batch in InBatches(_function(blob)).evaluate(chunk) for outcome in batch]


@lru_cache(maxsize=2)
def _function(blob: bytes) -> Function[int, Any]:
    made: Function[int, Any] = pickle.loads(zlib.decompress(blob))
    return made
