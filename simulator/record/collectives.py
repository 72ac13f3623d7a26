"""Timing of the collectives of torch.distributed over sizes, under torchrun or in processes started here."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from simulator.errors import InputError, Problem, SparsimError
from simulator.models.precision import FP32_BYTES
from simulator.record.environment import device_of, environment
from simulator.record.merging import find_nodes, find_rank
from simulator.record.rows import COLLECTIVE_COLUMNS, RowFile, TimePercentiles
from simulator.record.timing import clock_of
from simulator.records import Record, replace

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")
SIZES = tuple(2**i for i in range(10, 29, 2))


class Settings(Record):
    """What to measure; sizes in bytes of the whole result for an all-gather, of the whole input otherwise."""

    out: Path
    sizes: tuple[int, ...] = SIZES
    collectives: tuple[str, ...] = COLLECTIVES
    repeats: int = 20
    warm_up: int = 5
    backend: str = "auto"
    device: str = "auto"
    resume: bool = False


def record_collectives(settings: Settings, processes: int | None = None) -> None:
    """Measure, as a rank under torchrun or in `processes` processes started here; rank 0 writes the table.

    Raises InputError for a single process without torchrun, and where the table exists already.
    """
    if processes is None:
        if not {"RANK", "WORLD_SIZE"} <= os.environ.keys():
            hint = "run it under torchrun, or give --processes N for processes on this machine"
            raise InputError(Problem("sparsim record collectives", "ranks", "a process on its own", hint))
        rank, world = find_rank()
        _join(rank, world, int(os.environ.get("LOCAL_RANK", rank)), find_nodes(world), settings=settings)
        return
    with RowFile(settings.out, COLLECTIVE_COLUMNS, settings.resume):
        settings = replace(settings, resume=True)  # the table exists now, and can be written
    with tempfile.TemporaryDirectory() as folder:
        arguments = (processes, settings, f"file://{folder}/rendezvous")
        torch.multiprocessing.spawn(_run_process, arguments, processes)


def _run_process(rank: int, world: int, settings: Settings, rendezvous: str) -> None:
    if sys.platform.startswith("linux"):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    _join(rank, world, rank, 1, settings=settings, rendezvous=rendezvous)


def _join(rank: int, world: int, local: int, nodes: int, *, settings: Settings, rendezvous: str | None = None) -> None:
    """Join the other ranks and measure everything; rank 0 writes the table. `local`: the number on its own node."""
    cuda = settings.device != "cpu" and torch.cuda.is_available()
    device = device_of(f"cuda:{local}" if cuda else settings.device)
    backend = settings.backend if settings.backend != "auto" else "gloo" if device == "cpu" else "nccl"
    distributed.init_process_group(backend, init_method=rendezvous, rank=rank, world_size=world)
    try:
        place = environment(device)
        common = {"backend": backend, "world_size": str(world), "nodes": str(nodes)}
        common |= {"device": place.device, "pytorch": place.pytorch, "date": place.date}
        identity = itemgetter(*COLLECTIVE_COLUMNS[:5])
        with RowFile(settings.out, COLLECTIVE_COLUMNS, settings.resume) if rank == 0 else nullcontext() as table:
            done = [set(map(identity, table.done)) if table else set()]
            distributed.broadcast_object_list(done, 0, device=torch.device(device))
            for nbytes, name in product(settings.sizes, settings.collectives):
                elements = world * max(1, round(nbytes / FP32_BYTES / world))
                row = common | {"collective": name, "nbytes": str(FP32_BYTES * elements)}
                if identity(row) not in done[0]:
                    spread = measure(name, elements, device, settings)
                    if table is not None:
                        table.append(row | spread.cells())
    finally:
        distributed.destroy_process_group()


def measure(name: str, elements: int, device: str, settings: Settings) -> TimePercentiles:
    """Seconds of one collective on `elements` fp32 numbers, those of the slowest rank in every repeat.

    Raises SparsimError where the result is wrong.
    """
    rank, world = distributed.get_rank(), distributed.get_world_size()
    call, result, right = _prepare(name, elements, rank, world, device)
    call()
    if not torch.equal(result, right):
        raise SparsimError(f"{name} of {elements} numbers over {world} ranks gave a wrong result")
    clock = clock_of(device)
    seconds = torch.zeros(settings.repeats, dtype=torch.float32, device=device)
    for number in range(-settings.warm_up, settings.repeats):
        distributed.barrier()
        clock.settle()
        begin = clock.mark()
        call()
        end = clock.mark()
        clock.settle()
        if number >= 0:
            seconds[number] = clock.seconds(begin, end)
    distributed.all_reduce(seconds, distributed.ReduceOp.MAX)
    return TimePercentiles.of(seconds.tolist())


def _prepare(name: str, elements: int, rank: int, world: int, device: str) -> tuple[Callable[[], Any], Any, Any]:
    """The call, the tensor that it fills, and the expected contents of the tensor after the first call."""
    share = elements // world
    whole = torch.full((elements,), float(rank + 1), device=device)
    part = torch.full((share,), float(rank + 1), device=device)
    ranks = torch.arange(1, world + 1, dtype=torch.float32, device=device)
    total = float(ranks.sum())
    if name == "all_reduce":
        return lambda: distributed.all_reduce(whole), whole, torch.full_like(whole, total)
    if name == "broadcast":
        return lambda: distributed.broadcast(whole, 0), whole, torch.ones_like(whole)
    # The second names are those before PyTorch 2.13.
    gather = getattr(distributed, "all_gather_single", None) or distributed.all_gather_into_tensor
    scatter = getattr(distributed, "reduce_scatter_single", None) or distributed.reduce_scatter_tensor
    if name == "all_gather":
        return lambda: gather(whole, part), whole, ranks.repeat_interleave(share)
    return lambda: scatter(part, whole), part, torch.full_like(part, total)
