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


def find_distributed() -> Any:
    """The package `distributed`. Raises InputError where it is not installed."""
    try:
        return importlib.import_module("distributed")
    except ImportError:
        hint = "pip install 'sparsim[cluster]'"
        raise InputError(Problem("--cluster", "the package `distributed`", "none installed", hint)) from None


def run_on_cluster(function: Function[int, Result], groups: Sequence[Sequence[int]], address: str) -> Batches[Result]:
    """Outcomes from the workers of a Dask scheduler as they are finished; it gives chunks of workers that leave to
    others.

    A chunk whose workers keep dying is tried once more, point by point. Workers may join and leave. Raises InputError
    where no scheduler answers, SparsimError where the connection to it is lost.
    """
    queue = ChunkQueue[Result](groups)
    if not queue.left:
        return
    distributed, where = find_distributed(), f"--cluster {address}"
    lost = SparsimError(f"{where}: the connection to the scheduler was lost")
    blob = zlib.compress(pickle.dumps(function, protocol=pickle.HIGHEST_PROTOCOL))
    with _connect(distributed, address, where) as client:
        sent: dict[Any, list[int]] = {}
        finished = distributed.as_completed(loop=client.loop)

        def send() -> None:
            try:
                threads = max(1, sum(client.nthreads().values()))
            except OSError:
                raise lost from None
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
            elif future.status != "error":
                raise lost
            elif type(error := future.exception()).__name__ != "KilledWorker":
                raise SparsimError(f"{where}: {type(error).__name__}: {error}")
            elif given_up := queue.put_back(chunk, _DIED):
                yield given_up
            send()


def _connect(distributed: Any, address: str, where: str) -> Any:
    if address.startswith("tls://"):
        arguments = distributed.Security().get_connection_args("client")
        if arguments.get("ssl_context") is None:
            hint = "name it in ~/.config/dask/distributed.yaml; see the how-to of sweeps on a cluster"
            raise InputError(Problem(where, "a certificate in the configuration of Dask", "none", hint))
    try:
        client = distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(Problem(where, "a Dask scheduler that answers", format_value(str(error)))) from None
    try:
        client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
    except distributed.TimeoutError:
        client.close()
        raise InputError(Problem(where, "a Dask scheduler with workers", "none")) from None
    return client


def evaluate_chunk(blob: bytes, chunk: list[int]) -> list[Any]:
    """Evaluate points on a worker, one chunk at a time: threads of one process cannot evaluate in parallel."""
    with _one_at_a_time:
        return [outcome for batch in InBatches(_function(blob)).evaluate(chunk) for outcome in batch]


@lru_cache(maxsize=2)
def _function(blob: bytes) -> Function[int, Any]:
    made: Function[int, Any] = pickle.loads(zlib.decompress(blob))
    return made
