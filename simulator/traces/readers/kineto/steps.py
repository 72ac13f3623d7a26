"""Steps of a PyTorch profiler trace: where the time of each goes, which of them count, and what they say together."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np

from simulator.errors import InputError, Problem
from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.models.layers import Layer, Workload
from simulator.models.timeline import merge_intervals
from simulator.records import Record
from simulator.traces.readers.kineto.clock import GpuActivity, HostWaits, Launches, covered
from simulator.traces.readers.kineto.events import COMPUTE, FROM_HOST, Events


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
    """One step: `number` is the profiler's; `layers` are None where the step has no backward pass, or several."""

    number: int
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
        self._optimiser = covered(events.optimiser)
        self._updates = np.array([*merge_intervals(events.optimiser), (np.inf, np.inf)])
        copied = np.array(events.gpu_id, dtype=np.int64)[np.array(events.gpu_kind) == FROM_HOST]
        copying = np.isin(np.array(events.call_id, dtype=np.int64), copied[copied >= 0])
        start = np.array(events.call_start)[copying]
        ends = start + np.array(events.call_length)[copying]
        self._names_batches = bool(events.loading)
        self._fetched = np.sort([*ends.tolist(), *(end for _, end in events.loading)])

    def read(self, span: tuple[float, float, int], layers: HostPass | None) -> StepTimes | None:
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
        at = np.searchsorted(self._updates[:, 0], launch, side="right") - 1
        optimising = (at >= 0) & (launch <= self._updates[at, 1])
        after = launch > (layers.nodes[-1] if layers is not None else stop)
        parts = gpu.own[ops] + gpu.starved[ops] + gpu.loading[ops] + gpu.exposed[ops]
        kernels = np.where(gpu.kind[ops] == COMPUTE, gpu.running[ops], 0.0) + gpu.exposed[ops]
        low, high = np.searchsorted(self.host.emptied, [begin, stop])
        return StepTimes(
            number=number,
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

    def _split(self, layers: HostPass, begin: float, first: float, ops: tuple[Floats, Floats, Floats]) -> LayerTimes:
        """Layer by layer: each has what was launched from its own start to the next layer's."""
        launch, own, waiting = ops
        count = len(layers.forward)
        # When the batch had been fetched before the first operation: the first layer has all the host did since.
        low, high = np.searchsorted(self._fetched, begin), np.searchsorted(self._fetched, first, side="right")
        fetched = float(self._fetched[high - 1]) if high > low else begin
        starts = [fetched, *layers.forward[1:].tolist()] if count else []
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


def _total(microseconds: Floats) -> float:
    return float(microseconds.sum()) * 1e-6


def _seconds(microseconds: Floats) -> tuple[float, ...]:
    return tuple((microseconds * 1e-6).tolist())


OUTLIER = 3.0
"""A step is left out if its wall time is further from the median than so many times the usual distance (1.4826 times
the median distance, the standard deviation of normal noise; Hampel 1974) ..."""
NEAR = 0.05
"""... and than this share of the median: a profile of even steps keeps all of them."""
AHEAD = 0.1
"""The host runs ahead in the steps of a profile if they take longer on the GPU by more than this share."""
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


class StepSummary(StepParts, dict=True):
    """Medians over the steps that count, in seconds.

    `found` and `used`: numbers of steps. `step`: the step's time that counts, `wall` unless the host ran ahead in these
    steps. `compute`: what is left of it without data and exposed collectives, the iteration of one GPU. `layers`: in
    the order of the gradients.
    """

    found: tuple[int, ...]
    used: tuple[int, ...]
    step: float
    layers: LayerTimes

    @property
    def compute(self) -> float:
        """Seconds of the step without waiting for data and collectives."""
        return self.step - self.data - self.exposed

    @cached_property
    def queued(self) -> float:
        """Seconds of forward and backward pass as the layers alone give them: host and GPU as two clocks."""
        columns = zip(*(getattr(self.layers, name) for name in LayerTimes.__struct_fields__), strict=True)
        layers = tuple(
            Layer(name="", numel=1, forward=times[0], forward_host=times[1], backward=times[2], backward_host=times[3])
            for times in reversed(list(columns))
        )
        queued = Workload.model_construct(batch_size=1, host_ahead=not self.waits, layers=layers).queued()
        return queued.forward_time + queued.backward_time

    @property
    def rest(self) -> float:
        """Seconds of `compute` besides the layers: `update`, and what the host does between steps while the GPU waits.

        Layers then keep the times that they were measured with.
        """
        return max(0.0, self.update, self.compute - self.queued)


def parse_steps(text: str) -> list[tuple[int, int]]:
    """Ranges of step numbers. Raises InputError for anything else.

    >>> parse_steps("3-5, 9")
    [(3, 5), (9, 9)]
    """
    ranges = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise InputError(Problem("--steps", "numbers of steps such as 3-5 or 3,5", repr(text)))
        ranges.append((int(match[1]), int(match[2] or match[1])))
    return ranges


def choose_steps(steps: Sequence[StepTimes], wanted: str, where: str) -> list[StepTimes]:
    """The steps that count: those that are wanted, or all but the first and those that took unusually long or short.

    The first one is left out where there are three or more. Steps without the usual number of gradients never count.
    Raises InputError where a step that is wanted is none of the others.
    """
    counts = [len(step.layers.backward) for step in steps if step.layers is not None]
    usual = statistics.mode(counts) if counts else 0
    whole = [step for step in steps if step.layers is not None and len(step.layers.backward) == usual]
    if wanted:
        ranges = parse_steps(wanted)
        chosen = [step for step in whole if any(low <= step.number <= high for low, high in ranges)]
        missing = [low for low, high in ranges if not any(low <= step.number <= high for step in chosen)]
        if missing:
            among = ", ".join(str(step.number) for step in whole) or "none"
            raise InputError(Problem("--steps", f"steps with a whole backward pass of {where}: {among}", wanted))
        return chosen
    later = whole[1:] if len(whole) > 2 else whole
    walls = [step.wall for step in later]
    if len(walls) < 3:
        return later
    middle = statistics.median(walls)
    distance = statistics.median(abs(wall - middle) for wall in walls)
    most = max(OUTLIER * 1.4826 * distance, NEAR * middle)
    return [step for step in later if abs(step.wall - middle) <= most]


def summarise_steps(steps: Sequence[StepTimes], chosen: Sequence[StepTimes]) -> StepSummary:
    """Medians over the chosen steps; of layers, those of the times that their gradients were ready or launched."""

    times = [step.layers for step in chosen if step.layers is not None]
    names = [name for name in StepParts.__struct_fields__ if name != "waits"]
    medians = {name: float(np.median([getattr(step, name) for step in chosen])) for name in names}
    wall, span = medians["wall"], medians["span"]
    ready = _medians(times, lambda item: np.cumsum(item.backward))
    return StepSummary(
        **medians,
        found=tuple(step.number for step in steps),
        used=tuple(step.number for step in chosen),
        step=span if span > (1 + AHEAD) * wall else wall,
        waits=all(step.waits for step in chosen),
        layers=LayerTimes(
            _medians(times, lambda item: item.forward),
            _medians(times, lambda item: item.forward_host),
            tuple(np.diff(np.maximum.accumulate(ready), prepend=0.0).tolist()),
            _medians(times, lambda item: item.backward_host),
        ),
    )


def _medians(
    times: Sequence[LayerTimes], values: Callable[[LayerTimes], Sequence[float] | Floats]
) -> tuple[float, ...]:
    return tuple(np.median([values(item) for item in times], axis=0).tolist())
