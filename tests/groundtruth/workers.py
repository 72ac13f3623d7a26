"""One process per rank, inside its namespace: reads commands from the coordinator's pipe, answers with times.

Commands travel over pipes and never over the links. All clocks are the machine's one monotonic clock.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from groundtruth.collectives import COLLECTIVES
from groundtruth.connections import Connections, Floats
from groundtruth.namespaces import Hosts
from groundtruth.training import Job, train

LEAD = 0.04
"""Seconds from a command to the instant at which all ranks start."""


class Team:
    """The processes of all ranks, seen from the coordinator; ranks from `workers` on are servers.

    `module` is what they run: this one, or the one that speaks gloo.
    """

    def __init__(self, hosts: Hosts, workers: int, module: str = "groundtruth.workers") -> None:
        self.workers = workers
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = str(Path(__file__).parent.parent)
        rest = [sys.executable, "-m", module, json.dumps([workers, hosts.addresses])]
        self.processes = [
            subprocess.Popen(
                [*hosts.enter(rank), *_real_time(), *rest, str(rank)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                text=True,
            )
            for rank in range(len(hosts.names))
        ]

    def __enter__(self) -> Team:
        self.answers()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes:
            if value is not None:
                process.kill()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            process.wait()

    def ask(self, ranks: Sequence[int] | None = None, **command: Any) -> list[Any]:
        """Give a command to some ranks (all of them); their answers."""
        members = self.processes if ranks is None else [self.processes[rank] for rank in ranks]
        for process in members:
            assert process.stdin is not None
            process.stdin.write(json.dumps(command) + "\n")
            process.stdin.flush()
        return self.answers(members)

    def answers(self, members: Sequence[subprocess.Popen[str]] | None = None) -> list[Any]:
        """One answer from each. Raises RuntimeError where a process has died."""
        found = []
        for process in self.processes if members is None else members:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise RuntimeError("a worker died; its own words are above")
            found.append(json.loads(line))
        return found

    def half_round_trip(self, times: int = 400) -> float:
        """Median half round trip between ranks 0 and 1 of 4 bytes, in seconds."""
        return float(self.ask([0, 1], do="ping", times=times)[0])

    def collective(self, name: str, elements: int, repeats: int, warm_up: int = 2) -> list[float]:
        """Seconds from the first rank's start to the last one's end, each repeat; the first one's result is checked.

        All start at an agreed instant, on links that have been idle for `LEAD`.
        """
        ranks = range(self.workers + (name == "parameter_server"))
        made = []
        for number in range(warm_up + repeats):
            start = time.monotonic() + LEAD
            times = self.ask(ranks, do="collective", name=name, elements=elements, start=start, check=not number)
            made.append(max(end for _, end in times) - min(begin for begin, _ in times))
        return made[warm_up:]

    def stream(self, elements: int, repeats: int = 9) -> float:
        """Bytes/s of one large message from rank 0 to rank 1, at its fastest."""
        command = {"do": "collective", "name": "tree_broadcast", "elements": elements, "among": 2, "check": False}
        made = []
        for _ in range(repeats):
            times = self.ask([0, 1], **command, start=time.monotonic() + LEAD)
            made.append(max(end for _, end in times) - min(begin for begin, _ in times))
        return 4 * elements / min(made)

    def train(self, job: Job) -> list[dict[str, list[float]]]:
        """Train on all workers; each rank's seconds of every phase, iteration by iteration."""
        return self.ask(range(self.workers), do="train", **job.__dict__)


def _real_time() -> list[str]:
    """The prefix that gives a process real-time scheduling, where that is allowed."""
    prefix = ["chrt", "--fifo", "1"]
    try:
        allowed = subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return []
    return prefix if allowed else []


def _collective(
    net: Connections, workers: int, *, name: str, elements: int, start: float, check: bool
) -> tuple[float, float]:
    """Run one collective at `start`; when it began and ended here. `elements`: of each rank's own vector."""
    numel = workers * elements if name == "ring_all_gather" else elements
    data, space = np.full(numel, 1.0 + net.me, dtype=np.float32), np.ones(workers * elements, dtype=np.float32)
    data[::7] += 1
    time.sleep(max(0.0, start - time.monotonic()))
    begin = time.monotonic()
    COLLECTIVES[name](net, workers, data, space)
    end = time.monotonic()
    if check and net.me < workers:
        _checked(name, workers, data)
    return begin, end


def _checked(name: str, workers: int, result: Floats) -> None:
    """Raise AssertionError where the result is not what the collective promises."""
    pattern = np.zeros_like(result)
    pattern[::7] = 1
    ranks = np.arange(1.0, workers + 1, dtype=np.float32)
    if name == "ring_all_gather":
        right = np.repeat(ranks, len(result) // workers) + pattern
    elif "broadcast" in name:
        right = 1 + pattern
    else:
        right = ranks.sum() + workers * pattern
    if not np.array_equal(result, right):
        raise AssertionError(f"{name} came out wrong")


def main() -> None:
    """Serve commands until the pipe closes."""
    (workers, addresses), me = json.loads(sys.argv[1]), int(sys.argv[2])
    net = Connections(me, addresses)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        match command.pop("do"):
            case "ping":
                answer: Any = net.half_round_trip(1 - me, me == 0, command["times"])
            case "collective":
                answer = _collective(net, command.pop("among", workers), **command)
            case "train":
                answer = train(net, workers, Job(**command))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
