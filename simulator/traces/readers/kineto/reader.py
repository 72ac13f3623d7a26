"""PyTorch profiler (Kineto) traces: when gradients were ready in each backward pass, collectives, and the optimiser."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product
from operator import itemgetter
from pathlib import Path

import numpy as np

from simulator.errors import InputError, Problem, format_value
from simulator.models.groups import group_by
from simulator.models.optimisers import Implementation, Kind, Optimiser
from simulator.models.precision import NUMBER_BYTES, NumberFormat
from simulator.records import Record, replace
from simulator.traces.readers.collective_names import UNKNOWN, collective_named, collective_within
from simulator.traces.readers.kineto.clock import Gradient, Launches, find_passes
from simulator.traces.readers.kineto.events import COMMUNICATION, Events, format_of, shape_of, text_of, whole
from simulator.traces.readers.kineto.steps import StepReader, StepTimes, step_spans
from simulator.traces.readers.streams import json_members

_NCCL = re.compile(r"^nccl(?:Dev)?Kernel_([A-Za-z]+)")


class CollectiveKernel(Record):
    """One NCCL kernel: bytes of the whole payload (0: not in the trace), seconds, start by the clock of the trace.

    `itemsize`: bytes of one element, `stream`: of the GPU; 0 and -1 where the trace does not say. `number`: the format
    of its elements, such as bf16. `waited`: mean seconds for which the ranks of a job waited in it for the last one;
    None where there is one rank only, or where they were not matched. `step`: the number of the step in which the host
    launched it; None outside of all steps.
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
    waited: float | None = None
    step: int | None = None


def find_collectives(events: Events, launches: Launches) -> list[CollectiveKernel]:
    """Every NCCL kernel with its size, from its own arguments or from the operation around its launch.

    Its kind comes from the arguments, too, since kernels such as RCCL's `ncclDevKernel_Generic` serve several; then
    from the name of the kernel, and from that of the operation.
    """
    around = [item for item in events.operations if item.name.startswith(COMMUNICATION) and item.elements]
    threads, times = launches.launch(np.array([kernel[0] for kernel in events.nccl], dtype=np.int64))
    spans, made = step_spans(events), []
    for (_, start, length, name, args), thread, time in zip(events.nccl, threads.tolist(), times.tolist(), strict=True):
        elements, itemsize = shape_of(args)
        holding = (item for item in around if item.thread == thread and item.start <= time <= item.end)
        inner = max(holding, key=lambda item: item.start, default=None)
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
        seconds, begin, step = length * 1e-6, start * 1e-6, _step_of(spans, time if thread >= 0 else start)
        made.append(
            CollectiveKernel(collective, nbytes, workers, seconds, begin, name, itemsize, stream, number, step=step)
        )
    return sorted(made, key=lambda item: item.start)


def _step_of(spans: Sequence[tuple[float, float, int]], time: float) -> int | None:
    """The number of the step that holds a time; None outside of all."""
    place = bisect_right(spans, time, key=itemgetter(0)) - 1
    return spans[place][2] if place >= 0 and time < spans[place][1] else None


def match_collectives(ranks: Sequence[Sequence[CollectiveKernel]]) -> list[CollectiveKernel] | None:
    """The collectives of several ranks as one: a kernel starts with its own rank and ends with all of them.

    The n-th collective of one kind, type and number of workers is the same on all ranks. The rank that comes last does
    not wait, so the shortest of its kernels is the time of the collective, whatever the ranks' clocks show; its size
    is that of the largest part. In the order of the first rank's clock; None where the ranks did not take part in the
    same collectives.
    """
    kinds = (group_by(rank, lambda item: (item.collective, item.itemsize, item.workers)) for rank in ranks)
    placed = [{(*kind, n): each for kind, found in groups.items() for n, each in enumerate(found)} for groups in kinds]
    if any(other.keys() != placed[0].keys() for other in placed):
        return None
    made = []
    for place, kernel in placed[0].items():
        same = [rank[place] for rank in placed]
        shortest = min(item.seconds for item in same)
        waited = sum(item.seconds - shortest for item in same) / len(same)
        nbytes = max(item.nbytes for item in same)
        made.append(replace(kernel, seconds=shortest, nbytes=nbytes, waited=waited))
    return sorted(made, key=lambda item: item.start)


_KINDS: dict[str, tuple[Kind, ...]] = {
    "sgd": ("momentum", "sgd"),
    "adam": ("adam",),
    "adamw": ("adamw",),
    "lamb": ("lamb",),
}
"""Kinds by the name of the class, in small letters and without `Fused`: SGD has its momentum as an argument."""
_WAYS: tuple[Implementation, ...] = ("per_tensor", "foreach", "fused")
"""Implementations of PyTorch, the most frequent first: where two launch as many kernels, the first one counts."""
CLOSE = 0.1
"""The kernels of an optimiser that is recognised differ from those that were launched by at most this share."""


def recognise_optimiser(name: str, kernels: float, numels: Sequence[int]) -> Optimiser | None:
    """The optimiser of this name whose step on tensors of `numels` elements takes `kernels` launches, or about so many.

    None where the name is not known, or where no implementation comes close.

    >>> recognise_optimiser("SGD", 483, [150_000] * 161).implementation
    'per_tensor'
    """
    plain = name.lower()
    kinds = _KINDS.get(plain.removeprefix("fused"), ())
    ways = _WAYS[-1:] if plain.startswith("fused") else _WAYS
    known = [
        Optimiser(kind=kind, implementation=way, weight_decay=decays)
        for kind, way, decays in product(kinds, ways, (False, True))
        if (kind, way) != ("lamb", "foreach")  # no released LAMB works on lists of tensors
    ]
    close = [optimiser for optimiser in known if abs(optimiser.calls(numels) - kernels) <= CLOSE * kernels]
    return min(close, key=lambda optimiser: abs(optimiser.calls(numels) - kernels), default=None) if kernels else None


_SUMS = ("all_reduce", "reduce_scatter", "reduce")
_SLOWING = ("with_stack", "with_modules", "profile_memory")


class KinetoTrace(Record):
    """Gradients by pass, collectives in the order of their starts, steps of a trace, and what could not be read.

    `optimiser`: the class whose steps it names; empty where it names none, or several. `settings`: of the profiler,
    those that slow the host down. `rank`: whose trace it is, where it says so.
    """

    device: str
    workers: int
    passes: list[list[Gradient]]
    collectives: tuple[CollectiveKernel, ...]
    problems: tuple[Problem, ...]
    steps: tuple[StepTimes, ...] = ()
    optimiser: str = ""
    settings: tuple[str, ...] = ()
    rank: int | None = None

    @property
    def gradients(self) -> list[Gradient]:
        """The gradients of all passes."""
        return [item for found in self.passes for item in found]

    @property
    def gradients_in(self) -> NumberFormat | None:
        """The format of most elements of the gradients, such as bf16; where none is stated, that of their sums."""
        return _most((item.format, item.numel) for item in self.gradients) or travels_in(self.collectives)


def travels_in(collectives: Iterable[CollectiveKernel]) -> NumberFormat | None:
    """The format in which most bytes of gradients are summed; None where no kernel states it."""
    return _most((item.number, item.nbytes) for item in collectives if item.collective in _SUMS)


def _most(weighed: Iterable[tuple[NumberFormat | None, int]]) -> NumberFormat | None:
    """The format with the largest weight in all."""
    found: Counter[NumberFormat] = Counter()
    for number, weight in weighed:
        if number is not None:
            found[number] += weight
    return max(found, key=lambda number: found[number], default=None)


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
        elif key in _SLOWING and item:
            events.settings.append(key)
        elif key == "distributedInfo" and isinstance(item, dict):
            events.rank = item["rank"] if type(item.get("rank")) is int else None
            try:
                events.workers = whole(item.get("world_size") or 0)
            except (TypeError, ValueError, OverflowError):
                got = format_value(item["world_size"])
                events.problems.append(Problem(f"{path}: distributedInfo: world_size", "a whole number", got))
    if not events.count:
        raise InputError(events.problems or Problem(str(path), "a trace of torch.profiler with `traceEvents`", "none"))
    launches = Launches(events)
    collectives = find_collectives(events, launches)
    passes = find_passes(events, launches)
    for found in passes:
        launches.complete(found, NUMBER_BYTES[travels_in(collectives) or "fp32"])
    names = events.optimiser_names
    return KinetoTrace(
        device=events.device,
        workers=events.workers,
        passes=passes,
        collectives=tuple(collectives),
        problems=tuple(events.problems),
        steps=tuple(_steps(events, launches, passes)),
        optimiser=names.pop() if len(names) == 1 else "",
        settings=tuple(events.settings),
        rank=events.rank,
    )


def _steps(events: Events, launches: Launches, passes: list[list[Gradient]]) -> list[StepTimes]:
    """The times of every step, with the backward passes that it holds."""
    spans, reader = step_spans(events), StepReader(events, launches)
    held = group_by(passes, lambda found: bisect_right(spans, found[0].node.start, key=itemgetter(0)) - 1)
    made = [reader.read(span, held.get(place, [])) for place, span in enumerate(spans)]
    return [times for times in made if times is not None]
