"""Ranks of torch.distributed over gloo, inside the namespaces; where PyTorch is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from typing import Any

import numpy as np

PORT = 7078
COLLECTIVES = ("gloo_all_reduce", "gloo_broadcast")
"""A ring, and a binomial tree whose senders serve all children at once (gloo/allreduce.cc, gloo/broadcast.cc)."""
GATHER = "gloo_all_gather"
"""A ring in halves (gloo/allgather.cc), in which rank 0 starts `LATE` seconds after the others.

With a start at one time the order in which ranks make themselves ready would be left to chance, and with it the time.
"""
LATE = 0.01
"""Seconds: more than the others take to make themselves ready."""


def available() -> bool:
    """Whether PyTorch is installed."""
    return importlib.util.find_spec("torch") is not None


def main() -> None:
    """Serve commands until the pipe closes."""
    import torch
    from torch import distributed

    (workers, addresses), me = json.loads(sys.argv[1]), int(sys.argv[2])
    os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", f"tcp://{addresses[0]}:{PORT}", rank=me, world_size=workers)

    def collective(name: str, elements: int, start: float, check: bool) -> tuple[float, float]:
        data = torch.full((elements,), 1.0 + me)
        gathered = [torch.zeros(elements) for _ in range(workers)] if name == GATHER else []
        late = LATE if name == GATHER else 0.0
        time.sleep(max(0.0, start + late * (me == 0) - time.monotonic()))
        # What the others wait for the late one is not the collective's.
        begin = time.monotonic() + late * (me > 0)
        if name == "gloo_broadcast":
            distributed.broadcast(data, 0)
        elif gathered:
            distributed.all_gather(gathered, data)
        else:
            distributed.all_reduce(data)
        end = time.monotonic()
        total = 1.0 if name == "gloo_broadcast" else workers * (workers + 1) / 2
        right = [1.0 + rank for rank in range(workers)] if gathered else [total]
        for part, value in zip(gathered or [data], right, strict=True):
            if check and not bool((part == value).all()):
                raise AssertionError(f"{name} came out wrong")
        return begin, end

    def ping(times: int) -> float:
        data, taken = torch.zeros(1), []
        for _ in range(times):
            begin = time.monotonic()
            if me == 0:
                distributed.send(data, 1)
            distributed.recv(data, 1 - me)
            if me == 1:
                distributed.send(data, 0)
            taken.append((time.monotonic() - begin) / 2)
        return float(np.median(taken))

    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        what = command.pop("do")
        answer: Any = ping(**command) if what == "ping" else collective(**command)
        print(json.dumps(answer), flush=True)
    os._exit(0)  # without the group's farewell, for which the others may be too late


if __name__ == "__main__":
    main()
