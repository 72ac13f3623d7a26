"""Collectives of PyTorch profiler traces: every NCCL kernel with its size, and those of several ranks as one."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from simulator.models.groups import group_by
from simulator.models.precision import NumberFormat
from simulator.records import Record, replace
from simulator.traces.readers.collective_names import UNKNOWN, collective_named, collective_within
from simulator.traces.readers.kineto.clock import Launches
from simulator.traces.readers.kineto.events import COMMUNICATION, Events, format_of, shape_of, whole

_NCCL = re.compile(r"^nccl(?:Dev)?Kernel_([A-Za-z]+)")


class CollectiveKernel(Record):
    """One NCCL kernel: bytes of the whole payload (0: not in the trace), seconds, start by the clock of the trace.

    `itemsize`: bytes of one element, `stream`: of the GPU; 0 and -1 where the trace does not say. `number`: the format
    of its elements, such as bf16.
    """

    collective: str
    nbytes: int
    workers: int
    seconds: float
    start: float
    kernel: str
    itemsize: int = 0
    stream: int = -1
    number: NumberFormat | None = None


def find_collectives(events: Events, launches: Launches) -> list[CollectiveKernel]:
    """Every NCCL kernel with its size, from its own arguments or from the operation around its launch.

    Its kind comes from the arguments, too, since kernels such as RCCL's `ncclDevKernel_Generic` serve several; then
    from the name of the kernel, and from that of the operation.
    """
    around = [item for item in events.operations if item.name.startswith(COMMUNICATION) and item.elements]
    threads, times = launches.launch(np.array([kernel[0] for kernel in events.nccl], dtype=np.int64))
    made = []
    for (_, start, length, name, args), thread, time in zip(events.nccl, threads.tolist(), times.tolist(), strict=True):
        elements, itemsize = shape_of(args)
        holding = [item for item in around if item.thread == thread and item.start <= time <= item.end]
        inner = max(holding, key=lambda item: item.start) if holding else None
        number = format_of(args)
        if not elements and inner is not None:
            elements, itemsize, number = inner.elements, inner.itemsize, inner.number
        match = _NCCL.match(name)
        kinds = (
            collective_within(str(args.get("Collective name", ""))),
            collective_named(match[1] if match else ""),
            collective_within(inner.name if inner is not None else ""),
        )
        collective = next((kind for kind in kinds if kind != UNKNOWN), UNKNOWN)
        workers = whole(args.get("Group size") or events.workers)
        # Where only one size was recorded, that of an all-gather is the part of one worker.
        parts = max(workers, 1) if collective == "all_gather" and "Out msg nelems" not in args else 1
        nbytes = elements * itemsize * parts
        stream = whole(args.get("stream", -1))
        made.append(
            CollectiveKernel(collective, nbytes, workers, length * 1e-6, start * 1e-6, name, itemsize, stream, number)
        )
    return sorted(made, key=lambda item: item.start)


class Collectives(Record):
    """The collectives of a job in the order of the first rank's clock.

    `waited`: mean seconds for which ranks waited in each for the last one; None where there is one rank only, or
    where the ranks did not take part in the same collectives, so that `kernels` holds those of all ranks.
    """

    kernels: tuple[CollectiveKernel, ...]
    waited: tuple[float, ...] | None


def match_collectives(ranks: Sequence[Sequence[CollectiveKernel]]) -> Collectives:
    """The collectives of all ranks as one: a kernel starts with its own rank and ends with all of them.

    The n-th collective of one kind, type and number of workers is the same on all ranks. The rank that comes last does
    not wait, so the shortest of its kernels is the time of the collective, whatever the ranks' clocks show; its size
    is that of the largest part.
    """
    if len(ranks) == 1:
        return Collectives(tuple(ranks[0]), None)
    sequences = [group_by(rank, lambda item: (item.collective, item.itemsize, item.workers)) for rank in ranks]
    first = sequences[0]
    counts = [{kind: len(found) for kind, found in sequence.items()} for sequence in sequences]
    if any(other != counts[0] for other in counts):
        return Collectives(tuple(kernel for rank in ranks for kernel in rank), None)
    made = []
    for kind, kernels in first.items():
        for place, kernel in enumerate(kernels):
            same = [sequence[kind][place] for sequence in sequences]
            shortest = min(item.seconds for item in same)
            waited = sum(item.seconds - shortest for item in same) / len(same)
            made.append((replace(kernel, seconds=shortest, nbytes=max(item.nbytes for item in same)), waited))
    made.sort(key=lambda item: item[0].start)
    return Collectives(tuple(kernel for kernel, _ in made), tuple(waited for _, waited in made))
