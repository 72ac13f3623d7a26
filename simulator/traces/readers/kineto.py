"""PyTorch profiler (Kineto) traces: when gradients were ready, and what NCCL sent."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path

import numpy as np

from simulator.errors import InputError, Problem, format_value
from simulator.models.layers import VALUE_BYTES
from simulator.traces.readers.kineto_events import (
    ACCUMULATE,
    COMMUNICATION,
    EVALUATE,
    TO_GRADIENT,
    Events,
    Operation,
    shape_of,
    text_of,
    whole,
)
from simulator.traces.readers.kineto_launches import Launches, launched
from simulator.traces.readers.kineto_steps import HostPass, StepReader, StepTimes, step_spans
from simulator.traces.readers.streams import json_members

FIRST_BUCKET = 2**20
BUCKET_CAP = 25 * 2**20
_NCCL = re.compile(r"^nccl(?:Dev)?Kernel_([A-Za-z]+)")
_COLLECTIVES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "sendrecv": "send_receive",
    "alltoall": "all_to_all",
}


@dataclass(frozen=True, slots=True)
class GradientReady:
    """The gradient of one parameter tensor in one backward pass.

    `order`: 0 for the first one ready. `node`, `sequence`: the autograd node and its sequence number. `numel`: 0 where
    the trace has no sizes. `ready`: seconds from the start of the pass's first kernel of a node with parameters
    to the end of the last kernel of this tensor's node. `forward`: GPU seconds of the forward operation of the same
    number and of what follows it without parameters; the first tensor of a node has all of it.
    """

    iteration: int
    order: int
    node: str
    sequence: int
    numel: int
    ready: float
    forward: float


@dataclass(frozen=True, slots=True)
class CollectiveKernel:
    """One NCCL kernel: bytes of the whole payload (0: not in the trace), seconds, start by the clock of the trace.

    `itemsize`: bytes of one element, `stream`: of the GPU; 0 and -1 where the trace does not say.
    """

    collective: str
    nbytes: int
    workers: int
    seconds: float
    start: float
    kernel: str
    itemsize: int = 0
    stream: int = -1


@dataclass(frozen=True, slots=True)
class KinetoTrace:
    """Gradients, collectives in the order of their starts, and steps of a trace, and what could not be read."""

    device: str
    workers: int
    gradients: tuple[GradientReady, ...]
    collectives: tuple[CollectiveKernel, ...]
    problems: tuple[Problem, ...]
    steps: tuple[StepTimes, ...] = ()


def ddp_buckets(numels: Sequence[int], itemsize: int = 4) -> list[int]:
    """Elements of the buckets of DDP, from tensors in the order in which their gradients became ready.

    A bucket is closed by the tensor with which it reaches its cap: 1 MiB for the first one, 25 MiB for the others
    (PyTorch, reducer.cpp, compute_bucket_assignment_by_size, 1.7 to 2.8).

    >>> ddp_buckets([1000, 2_048_000, 4_000_000, 3_000_000, 5])
    [2049000, 7000000, 5]
    """
    buckets, size = list[int](), 0
    for numel in numels:
        size += numel
        if size * itemsize >= (BUCKET_CAP if buckets else FIRST_BUCKET):
            buckets.append(size)
            size = 0
    return buckets + ([size] if size else [])


def read_kineto(path: Path) -> KinetoTrace:
    """Read a trace of torch.profiler, plain or gzip, with one event and columns of numbers in memory.

    Kernels belong to the operation during which they were launched (by correlation id and host thread), gradients to
    the autograd node that ran before their AccumulateGrad. NCCL kernels are those named `^nccl`. Sizes of gradients
    come from AccumulateGrad's recorded shapes, or from DDP's copies of buckets to gradients at the end of a pass; sizes
    of messages from the kernel, or from the operation that launched it. Raises InputError where there is no trace.
    """
    events = Events(path)
    for key, item in json_members(path, {"traceEvents"}, events.problems):
        if key in ("traceEvents", ""):
            events.add(item)
        elif key == "deviceProperties" and isinstance(item, list) and item and isinstance(item[0], dict):
            events.device = text_of(item[0].get("name", ""))
        elif key == "distributedInfo" and isinstance(item, dict):
            try:
                events.workers = whole(item.get("world_size") or 0)
            except (TypeError, ValueError, OverflowError):
                got = format_value(item["world_size"])
                events.problems.append(Problem(f"{path}: distributedInfo: world_size", "a whole number", got))
    if not events.count:
        raise InputError(events.problems or Problem(str(path), "a trace of torch.profiler with `traceEvents`", "none"))
    launches = Launches(events)
    index = _Index(events, launches)
    passes = _passes(events, launches)
    gradients = [item for iteration, found in enumerate(passes) for item in _gradients(iteration, found, index)]
    collectives = _collectives(events, launches)
    steps = _steps(events, launches, passes, index)
    return KinetoTrace(
        events.device, events.workers, tuple(gradients), tuple(collectives), tuple(events.problems), tuple(steps)
    )


@dataclass(slots=True)
class _Found:
    """One gradient: its node, when the node's first kernel started and its last one ended (us), and its size."""

    node: Operation
    first: float
    end: float
    numel: int


def _passes(events: Events, launches: Launches) -> list[list[_Found]]:
    """The gradients of every backward pass: by profiler step, or without steps by rises of the sequence number."""
    outer = any(item.name.startswith(EVALUATE) for item in events.operations)
    steps = sorted(start for start, *_ in events.steps)
    chosen = [
        item
        for item in events.operations
        if (item.backward and item.name.startswith(EVALUATE) == outer) or item.name == ACCUMULATE
    ]
    passes: list[list[_Found]] = []
    node: _Found | None = None
    step = highest = -2
    for item in sorted(chosen, key=lambda item: item.start):
        if item.name == ACCUMULATE:
            if node is not None:
                passes[-1].append(replace(node, numel=item.elements))
            continue
        now = bisect_right(steps, item.start)
        if now != step or (not steps and item.sequence > highest):
            passes.append([])
            step, highest, node = now, -1, None
        highest = max(highest, item.sequence)
        kernels = launched(launches.kernels, item.thread, item.start, item.end)
        if len(kernels):
            node = _Found(item, float(kernels[:, 0].min()), float(kernels[:, 1].max()), 0)
    return [found for found in passes if found]


def _gradients(iteration: int, found: list[_Found], index: _Index) -> list[GradientReady]:
    """The gradients of one pass, with sizes from the copies of DDP where shapes were not recorded."""
    numels = [item.numel for item in found]
    if not all(numels):
        sizes = index.copied_after(found[-1].node.start)[: len(found)]
        numels = sizes if len(sizes) == len(found) else numels
    forward = index.forward({item.node.sequence for item in found}, found[0].node.start)
    return [
        GradientReady(
            iteration,
            order,
            item.node.name.removeprefix(EVALUATE),
            item.node.sequence,
            numel,
            (item.end - found[0].first) * 1e-6,
            forward.pop(item.node.sequence, 0.0),
        )
        for order, (item, numel) in enumerate(zip(found, numels, strict=True))
    ]


def _steps(events: Events, launches: Launches, passes: list[list[_Found]], index: _Index) -> list[StepTimes]:
    """The times of every step; one that holds several backward passes counts as one without layers."""
    spans, reader = step_spans(events), StepReader(events, launches)
    held: dict[int, list[int]] = {}
    for iteration, found in enumerate(passes):
        held.setdefault(bisect_right(spans, found[0].node.start, key=itemgetter(0)) - 1, []).append(iteration)
    made = []
    for place, span in enumerate(spans):
        iteration, *others = held.get(place, [-1])
        alone = iteration >= 0 and not others
        layers = _host_pass(passes[iteration], index, span[0]) if alone else None
        made.append(reader.read(span, iteration if alone else -1, layers))
    return [times for times in made if times is not None]


def _host_pass(found: list[_Found], index: _Index, begin: float) -> HostPass:
    operations = index.operations([item.node.sequence for item in found], begin, found[0].node.start)
    order = {item.sequence: place for place, item in enumerate(operations)}
    return HostPass(
        np.array([item.start for item in operations]),
        np.array([order.pop(item.node.sequence, -1) for item in found], dtype=np.int64),
        found[0].node.start,
        np.array([item.node.end for item in found]),
        np.array([item.end - found[0].first for item in found]),
    )


class _Index:
    """Forward operations by sequence number, and copies into gradients by time."""

    def __init__(self, events: Events, launches: Launches) -> None:
        self.launches, self.first = launches, dict[int, Operation]()
        # Operations without a gradient have the number of the next one that has: the last one counts, with all that it
        # is a part of.
        for item in sorted(events.operations, key=lambda item: (item.start, -item.end)):
            known = self.first.get(item.sequence)
            inside = known is not None and item.thread == known.thread and item.end <= known.end
            if item.sequence >= 0 and not item.backward and not inside:
                self.first[item.sequence] = item
        self.copies = sorted(
            (item.start, int(rows[0, 0]) // VALUE_BYTES)
            for item in events.operations
            if item.name == TO_GRADIENT and len(rows := launched(launches.copies, item.thread, item.start, item.end))
        )

    def copied_after(self, time: float) -> list[int]:
        """Elements of the copies after `time`, in order."""
        return [numel for _, numel in self.copies[bisect_right(self.copies, (time, 0)) :]]

    def operations(self, sequences: Iterable[int], begin: float, backward: float) -> list[Operation]:
        """The forward operations of these numbers that started from `begin` on and before the backward pass."""
        mine = [self.first[number] for number in set(sequences) if number in self.first]
        return sorted((item for item in mine if begin <= item.start < backward), key=lambda item: item.start)

    def forward(self, sequences: set[int], backward: float) -> dict[int, float]:
        """GPU seconds from each forward operation with parameters to the next, the last one up to the backward pass."""
        order, made = self.operations(sequences, -math.inf, backward), {}
        for item, stop in zip(order, [*(item.start for item in order[1:]), backward], strict=False):
            kernels = launched(self.launches.kernels, item.thread, item.start, np.nextafter(stop, -math.inf))
            made[item.sequence] = float(kernels[:, 2].sum()) * 1e-6
        return made


def _collectives(events: Events, launches: Launches) -> list[CollectiveKernel]:
    """Every NCCL kernel with its size, from its own arguments or from the operation around its launch."""
    around = [item for item in events.operations if item.name.startswith(COMMUNICATION) and item.elements]
    threads, times = launches.launch(np.array([kernel[0] for kernel in events.nccl], dtype=np.int64))
    made = []
    for (_, start, length, name, args), thread, time in zip(events.nccl, threads.tolist(), times.tolist(), strict=True):
        elements, itemsize = shape_of(args)
        holding = [item for item in around if item.thread == thread and item.start <= time <= item.end]
        if not elements and holding:
            inner = max(holding, key=lambda item: item.start)
            elements, itemsize = inner.elements, inner.itemsize
        match = _NCCL.match(name)
        collective = _COLLECTIVES.get(match[1].lower() if match else "", "unknown")
        workers = whole(args.get("Group size") or events.workers)
        # Where only one size was recorded, that of an all-gather is the part of one worker.
        parts = max(workers, 1) if collective == "all_gather" and "Out msg nelems" not in args else 1
        nbytes = elements * itemsize * parts
        stream = whole(args.get("stream", -1))
        made.append(CollectiveKernel(collective, nbytes, workers, length * 1e-6, start * 1e-6, name, itemsize, stream))
    return sorted(made, key=lambda item: item.start)
