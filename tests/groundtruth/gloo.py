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
        time.sleep(max(0.0, start - time.monotonic()))
        begin = time.monotonic()
        if name == "gloo_broadcast":
            distributed.broadcast(data, 0)
        else:
            distributed.all_reduce(data)
        end = time.monotonic()
        right = 1.0 if name == "gloo_broadcast" else workers * (workers + 1) / 2
        if check and not bool((data == right).all()):
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
