"""Steps of a PyTorch profiler trace: where the time of each one goes, on the GPU and on the host."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.models.timeline import merge_intervals
from simulator.records import Record
from simulator.traces.readers.kineto.clock import GpuActivity, HostWaits, covered
from simulator.traces.readers.kineto.events import COMPUTE, FROM_HOST, Events
from simulator.traces.readers.kineto.launches import Launches


class LayerTimes(Record):
    """Seconds of every gradient's tensor in one step, in the order of the gradients.

    `forward` and `backward`: of the GPU while it has work; `forward_host` and `backward_host`: of the host, without its
    waits for the GPU. The first tensor of an operation has all of its time.
    """

    forward: tuple[float, ...]
    forward_host: tuple[float, ...]
    backward: tuple[float, ...]
    backward_host: tuple[float, ...]


class StepParts(Record):
    """Where the seconds of a step go.

    `wall`: of the step on the host. `span`: of the GPU, from the end of what earlier steps gave it to the end of what
    this one gave it; the same as `wall` where steps follow each other evenly. Of `span`, a kernel runs for `working`;
    the GPU waits for a batch or copies it from the host for `data`, waits for launches for `host`, and for a collective
    for `exposed`.

    `optimiser` and `optimiser_host`: GPU seconds of what `Optimizer.step` launched, and its own; `optimiser_kernels`:
    how many kernels that were. `update`: GPU seconds after the last gradient, waits for launches included. `waits`:
    whether the host waited until the GPU had nothing left to do.
    """

    wall: float
    span: float
    working: float
    data: float
    host: float
    exposed: float
    optimiser: float
    optimiser_host: float
    optimiser_kernels: float
    update: float
    waits: bool


class StepTimes(StepParts):
    """One step: `number` is the profiler's, `iteration` that of the backward pass in it.

    -1: none, or several. `layers`: None where the step has no backward pass.
    """

    number: int
    iteration: int
    layers: LayerTimes | None


class HostPass(Record):
    """When the host worked on the layers in one pass, in microseconds.

    `forward` (m,): starts of operations with parameters, in order. `operation` (n,): which of them belongs to each
    gradient, in the order of the gradients; -1 where none does, or where an earlier gradient has it. `begin`: start of
    the first gradient's node; `nodes` (n,): their ends; `ready` (n,): when each gradient was ready after the first
    kernel of the first node.
    """

    forward: Floats
    operation: Ints
    begin: float
    nodes: Floats
    ready: Floats


def step_spans(events: Events) -> list[tuple[float, float, int]]:
    """Start, end and number of every step: of the profiler, or else from batch to batch, or from update to update."""
    if events.steps:
        return sorted(span for span in events.steps if span[1] > span[0])
    marks = sorted(start for start, _ in events.loading) or sorted(end for _, end in events.optimiser)
    return [(start, end, number) for number, (start, end) in enumerate(pairwise(marks)) if end > start]


class StepReader:
    """Splits the steps of a trace by what the GPU and the host did in them."""

    def __init__(self, events: Events, launches: Launches) -> None:
        self.gpu = GpuActivity(events, launches)
        self.host = HostWaits(events, self.gpu)
        self._optimiser, self._updates = covered(events.optimiser), np.array(merge_intervals(events.optimiser))
        copied = np.array(events.gpu_id, dtype=np.int64)[np.array(events.gpu_kind) == FROM_HOST]
        copying = np.isin(np.array(events.call_id, dtype=np.int64), copied[copied >= 0])
        start = np.array(events.call_start)[copying]
        ends = start + np.array(events.call_length)[copying]
        self._names_batches = bool(events.loading)
        self._fetched = np.sort([*ends.tolist(), *(end for _, end in events.loading)])

    def read(self, span: tuple[float, float, int], iteration: int, layers: HostPass | None) -> StepTimes | None:
        """The parts of one step; None where it gave the GPU nothing to do."""
        begin, stop, number = span
        gpu, ops = self.gpu, np.flatnonzero((self.gpu.launch >= begin) & (self.gpu.launch < stop))
        if not len(ops):
            return None
        first = float(layers.forward[0]) if layers is not None and len(layers.forward) else begin
        copies = (gpu.kind[ops] == FROM_HOST) & (gpu.launch[ops] <= first)
        # Where nothing tells when the host fetches a batch, it does so before it copies one.
        fetching = copies & (not self._names_batches)
        data = gpu.loading[ops] + np.where(copies, gpu.own[ops], 0.0) + np.where(fetching, gpu.starved[ops], 0.0)
        own, starved = np.where(copies, 0.0, gpu.own[ops]), np.where(fetching, 0.0, gpu.starved[ops])
        launch = gpu.launch[ops]
        waiting = starved + gpu.loading[ops] + gpu.exposed[ops]
        optimising = self._inside_optimiser(launch)
        after = launch > (layers.nodes[-1] if layers is not None else stop)
        parts = gpu.own[ops] + gpu.starved[ops] + gpu.loading[ops] + gpu.exposed[ops]
        kernels = np.where(gpu.kind[ops] == COMPUTE, gpu.running[ops], 0.0) + gpu.exposed[ops]
        low, high = np.searchsorted(self.host.emptied, [begin, stop])
        return StepTimes(
            number=number,
            iteration=iteration,
            wall=(stop - begin) * 1e-6,
            span=_total(parts),
            working=_total(kernels),
            data=_total(data),
            host=_total(starved),
            exposed=_total(gpu.exposed[ops]),
            optimiser=_total(own[optimising]),
            optimiser_host=_total(np.diff(self._optimiser(np.array([begin, stop])))),
            optimiser_kernels=int(np.count_nonzero(optimising & (gpu.kind[ops] == COMPUTE))),
            update=_total((own + starved)[after]),
            waits=bool(high > low),
            layers=None if layers is None else self._split(layers, begin, first, (launch, own, waiting)),
        )

    def _inside_optimiser(self, times: Floats) -> npt.NDArray[np.bool_]:
        if not len(self._updates):
            return np.zeros(times.shape, dtype=bool)
        at = np.searchsorted(self._updates[:, 0], times, side="right") - 1
        inside: npt.NDArray[np.bool_] = (at >= 0) & (times <= self._updates[np.maximum(at, 0), 1])
        return inside

    def _split(self, layers: HostPass, begin: float, first: float, ops: tuple[Floats, Floats, Floats]) -> LayerTimes:
        """Layer by layer: each has what was launched from its own start to the next layer's."""
        launch, own, waiting = ops
        count = len(layers.forward)
        starts = [self._after_batch(begin, first), *layers.forward[1:].tolist()] if count else []
        cuts = np.maximum.accumulate([*starts, layers.begin, *layers.nodes.tolist()])
        host = np.maximum(0.0, np.diff(cuts) - np.diff(self.host.waits(cuts)))
        # A start belongs to what it begins, the end of a node to what it ends.
        from_start, to_end = (np.searchsorted(cuts, launch, side=side) - 1 for side in ("right", "left"))
        place = np.maximum(0, np.where(launch <= layers.begin, from_start, to_end))
        late = waiting.copy()
        # Ready times begin with the first kernel of the first node, whatever that had waited for.
        late[np.flatnonzero(place == count)[:1]] = 0.0
        inside = place < len(host)
        own_of, late_of = (np.bincount(place[inside], x[inside], minlength=len(host)) for x in (own, late))
        ready = np.maximum.accumulate(layers.ready - np.cumsum(late_of[count:]))
        forward, forward_host = (
            np.where(layers.operation >= 0, values[layers.operation], 0.0) if count else np.zeros(len(layers.nodes))
            for values in (own_of[:count], host[:count])
        )
        backward = np.maximum(0.0, np.diff(ready, prepend=0.0))
        return LayerTimes(*map(_seconds, (forward, forward_host, backward, host[count:])))

    def _after_batch(self, begin: float, first: float) -> float:
        """When the batch had been fetched before the first operation: the first layer has all the host did since."""
        low, high = np.searchsorted(self._fetched, begin), np.searchsorted(self._fetched, first, side="right")
        return float(self._fetched[high - 1]) if high > low else begin


def _total(microseconds: Floats) -> float:
    return float(microseconds.sum()) * 1e-6


def _seconds(microseconds: Floats) -> tuple[float, ...]:
    return tuple((microseconds * 1e-6).tolist())
