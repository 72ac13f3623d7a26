"""Backward passes of a PyTorch profiler trace: when each gradient was ready, and when the host worked on it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable

import numpy as np

from simulator.models.precision import FP32_BYTES, NumberFormat
from simulator.records import Record, Struct, replace
from simulator.traces.readers.kineto.clock import Launches, launched
from simulator.traces.readers.kineto.events import ACCUMULATE, EVALUATE, TO_GRADIENT, Events, Operation
from simulator.traces.readers.kineto.steps import HostPass


class GradientReady(Record):
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
    format: NumberFormat | None = None


class FoundGradient(Struct):
    """One gradient: its node, when the node's first kernel started and its last one ended (us), its size and format."""

    node: Operation
    first: float
    end: float
    numel: int
    format: NumberFormat | None = None


def find_passes(events: Events, launches: Launches) -> list[list[FoundGradient]]:
    """The gradients of every backward pass: by profiler step, or without steps by rises of the sequence number."""
    outer = any(item.name.startswith(EVALUATE) for item in events.operations)
    steps = sorted(start for start, *_ in events.steps)
    chosen = [
        item
        for item in events.operations
        if (item.backward and item.name.startswith(EVALUATE) == outer) or item.name == ACCUMULATE
    ]
    passes: list[list[FoundGradient]] = []
    node: FoundGradient | None = None
    step = highest = -2
    for item in sorted(chosen, key=lambda item: item.start):
        if item.name == ACCUMULATE:
            if node is not None:
                passes[-1].append(replace(node, numel=item.elements, format=item.number))
            continue
        now = bisect_right(steps, item.start)
        if now != step or (not steps and item.sequence > highest):
            passes.append([])
            step, highest, node = now, -1, None
        highest = max(highest, item.sequence)
        kernels = launched(launches.kernels, item.thread, item.start, item.end)
        if len(kernels):
            node = FoundGradient(item, float(kernels[:, 0].min()), float(kernels[:, 1].max()), 0)
    return [found for found in passes if found]


def gradients_of(iteration: int, found: list[FoundGradient], index: ForwardIndex) -> list[GradientReady]:
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
            item.format,
        )
        for order, (item, numel) in enumerate(zip(found, numels, strict=True))
    ]


def host_pass(found: list[FoundGradient], index: ForwardIndex, begin: float) -> HostPass:
    operations = index.operations([item.node.sequence for item in found], begin, found[0].node.start)
    order = {item.sequence: place for place, item in enumerate(operations)}
    return HostPass(
        np.array([item.start for item in operations]),
        np.array([order.pop(item.node.sequence, -1) for item in found], dtype=np.int64),
        found[0].node.start,
        np.array([item.node.end for item in found]),
        np.array([item.end - found[0].first for item in found]),
    )


class ForwardIndex:
    """Forward operations by sequence number, and copies into gradients by time, of elements of `itemsize` bytes."""

    def __init__(self, events: Events, launches: Launches, itemsize: int = FP32_BYTES) -> None:
        self.launches, self.first = launches, dict[int, Operation]()
        # Operations without a gradient have the number of the next one that has: the last one counts, with all that it
        # is a part of.
        for item in sorted(events.operations, key=lambda item: (item.start, -item.end)):
            known = self.first.get(item.sequence)
            inside = known is not None and item.thread == known.thread and item.end <= known.end
            if item.sequence >= 0 and not item.backward and not inside:
                self.first[item.sequence] = item
        self.copies = sorted(
            (item.start, int(rows[0, 0]) // itemsize)
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
