"""One rank of Open MPI: runs collectives, all ranks at the same instant; rank 0 prints what they took."""

from __future__ import annotations

import ctypes
import json
import platform
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

LEAD = 0.04
"""Seconds from the agreement on a start to the start: links are idle, and no rank is inside the library."""
PAUSE = 60e-6
"""Seconds for which a waiting rank sleeps between two looks for messages."""
_PR_SET_TIMERSLACK = 29
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
_LIBRARY = "/libopen-pal.so"


def main() -> None:
    """Run the jobs on this rank; rank 0 prints a line of JSON for each."""
    from mpi4py import MPI

    with _pauses():
        _run_jobs(MPI.COMM_WORLD, MPI.LAND)


def _run_jobs(world: Any, both: Any) -> None:
    ping = _half_round_trip(world, 200)
    for name, nbytes, repeats in json.loads(sys.argv[1]):
        collective, right = _prepared(world, name, nbytes)
        seconds = [_timed(world, collective) for _ in range(1 + repeats)]
        correct = world.allreduce(right(), both)
        if world.rank == 0:
            if not correct:
                raise AssertionError(f"{name} came out wrong")
            print(json.dumps({"collective": name, "nbytes": nbytes, "seconds": seconds[1:], "ping": ping}), flush=True)


@contextmanager
def _pauses() -> Iterator[None]:
    """Let a rank sleep for a moment whenever it has looked for messages, and make it wake up on time.

    Open MPI looks without pause, so that ranks that wait would keep the cores from ranks that work. The pause is part
    of the ping-pong, and so of the latency that predictions know. Ranks also ask for short turns on the CPU (0.1 ms in
    place of 3 ms, Linux 6.12 and later), by which one that wakes up need not wait for other work on the machine.
    """
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_TIMERSLACK, 1000)
    turns = struct.pack("IIQiIQQQ", 48, 0, 0, 0, 0, 100_000, 0, 0)
    libc.syscall(_SCHED_SETATTR.get(platform.machine(), -1), 0, turns, 0)
    library = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if _LIBRARY in line)
    progress = ctypes.CDLL(library)

    def pause() -> int:
        time.sleep(PAUSE)
        return 0

    function = ctypes.CFUNCTYPE(ctypes.c_int)(pause)
    progress.opal_progress_register(function)
    try:
        yield
    finally:
        progress.opal_progress_unregister(function)


def _prepared(world: Any, name: str, nbytes: int) -> tuple[Callable[[], Any], Callable[[], bool]]:
    """A collective of vectors of fp32 as a function, and a function that says whether its result is right."""
    me, workers = world.rank, world.size
    data, result = np.full(nbytes // 4, 1.0 + me, dtype=np.float32), np.zeros(nbytes // 4, dtype=np.float32)
    total, partner = workers * (workers + 1) / 2, me ^ 1
    send: tuple[Callable[[], Any], Any, float] = (lambda: None, data, 1.0 + me)
    if me < 2:
        way = (lambda: world.Recv(result, 0)) if me else (lambda: world.Send(data, 1))
        send = (way, result if me else data, 1.0)
    made: dict[str, tuple[Callable[[], Any], Any, float]] = {
        "all_reduce": (lambda: world.Allreduce(data, result), result, total),
        "reduce": (lambda: world.Reduce(data, result), data if me else result, 1.0 + me if me else total),
        "broadcast": (lambda: world.Bcast(data), data, 1.0),
        "exchange": (lambda: world.Sendrecv(data, partner, 0, result, partner, 0), result, 1.0 + partner),
        "send": send,
    }
    collective, array, right = made[name]
    return collective, lambda: bool((array == right).all())


def _timed(world: Any, collective: Callable[[], Any]) -> float:
    """Seconds from the first rank's start to the last one's end; all start at an agreed instant."""
    _wait_for_start(world)
    begin = time.monotonic()
    collective()
    end = time.monotonic()
    both = world.allgather((begin, end))
    return max(end for _, end in both) - min(begin for begin, _ in both)


def _wait_for_start(world: Any) -> None:
    """Agree on an instant, and wait for it outside the library."""
    start = np.array([time.monotonic() + LEAD])
    world.Bcast(start)
    time.sleep(max(0.0, start[0] - time.monotonic()))


def _half_round_trip(world: Any, times: int) -> float:
    """Median half round trip of 4 bytes between ranks 0 and 1, in seconds; the others wait outside the library."""
    data, taken = np.zeros(1, dtype=np.float32), []
    _wait_for_start(world)
    if world.rank > 1:
        time.sleep(times * 1e-3)
    for _ in range(times if world.rank < 2 else 0):
        begin = time.monotonic()
        if world.rank == 0:
            world.Send(data, 1)
        world.Recv(data, 1 - world.rank)
        if world.rank == 1:
            world.Send(data, 0)
        taken.append((time.monotonic() - begin) / 2)
    return float(np.median(taken)) if taken else 0.0


if __name__ == "__main__":
    main()
