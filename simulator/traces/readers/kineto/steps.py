"""Steps of a PyTorch profiler trace: where the time of each goes, which of them count, and what they say together."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np

from simulator.errors import InputError, Problem
from simulator.models.curves import Floats
from simulator.models.layers import Layer, Workload
from simulator.models.timeline import merge_intervals
from simulator.records import Record
from simulator.traces.readers.kineto.clock import (
    GpuActivity,
    Gradient,
    Launches,
    covered,
    host_waits,
)
from simulator.traces.readers.kineto.events import COMPUTE, FROM_HOST, Events, Operation

LayerTimes = Floats
"""Seconds (4, n) of every gradient's tensor in one step, in the order of the gradients.

Forward and backward of the GPU while it has work, and forward and backward of the host, without its waits for the GPU.
The first tensor of an operation has all of its time. Of several passes, as workloads state them: the GPU's are those of
all passes together, the host's the mean of one, since it launches as many kernels in each.
"""


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
    """One step: `number` is the profiler's; `layers` are None where it has no backward pass, or some with other
    numbers of gradients than others. `passes`: how many backward passes the layers are of."""

    number: int
    layers: LayerTimes | None
    passes: int = 0


def step_spans(events: Events) -> list[tuple[float, float, int]]:
    """Start, end and number of every step: of the profiler, or else from batch to batch, or from update to update."""
    if events.steps:
        return sorted(span for span in events.steps if span[1] > span[0])
    marks = sorted(start for start, _ in events.loading) or sorted(end for _, end in events.optimiser)
    return [(start, end, number) for number, (start, end) in enumerate(pairwise(marks)) if end > start]


class StepReader:
    """Splits the steps of a trace by what the GPU and the host did in them."""

    def __init__(self, events: Events, launches: Launches) -> None:
        self.launches, self.gpu = launches, GpuActivity(events, launches)
        self._waits, self._emptied = host_waits(events, self.gpu)
        self._optimiser = covered(events.optimiser)
        self._updates = np.array([*merge_intervals(events.optimiser), (np.inf, np.inf)])
        copied = events.work["id"][(events.work["kind"] == FROM_HOST) & (events.work["id"] >= 0)]
        copying = events.calls[np.isin(events.calls["id"], copied)]
        ends = copying["start"] + copying["length"]
        self._names_batches = bool(events.loading)
        self._fetched = np.sort([*ends.tolist(), *(end for _, end in events.loading)])

    def read(self, span: tuple[float, float, int], passes: Sequence[list[Gradient]]) -> StepTimes | None:
        """The parts of one step, with the gradients of its passes if it has any; None where the GPU had nothing to
        do."""
        begin, stop, number = span
        gpu, ops = self.gpu, np.flatnonzero((self.gpu.launch >= begin) & (self.gpu.launch < stop))
        if not len(ops):
            return None
        launch = gpu.launch[ops]
        begins = [begin, *(found[-1].node.end for found in passes[:-1])]
        forward = [self._forward(found, since) for found, since in zip(passes, begins, strict=False)]
        fetched = np.zeros(len(ops), dtype=bool)  # launched up to the first operation of a pass
        for since, own_forward in zip(begins, forward or [[]], strict=True):
            fetched |= (launch >= since) & (launch <= (own_forward[0].start if own_forward else since))
        copies = (gpu.kind[ops] == FROM_HOST) & fetched
        # Where nothing tells when the host fetches a batch, it does so before it copies one.
        fetching = copies & (not self._names_batches)
        data = gpu.loading[ops] + np.where(copies, gpu.own[ops], 0.0) + np.where(fetching, gpu.starved[ops], 0.0)
        own, starved = np.where(copies, 0.0, gpu.own[ops]), np.where(fetching, 0.0, gpu.starved[ops])
        waiting = starved + gpu.loading[ops] + gpu.exposed[ops]
        at = np.searchsorted(self._updates[:, 0], launch, side="right") - 1
        optimising = (at >= 0) & (launch <= self._updates[at, 1])
        after = launch > (passes[-1][-1].node.end if passes else stop)
        parts = gpu.own[ops] + gpu.starved[ops] + gpu.loading[ops] + gpu.exposed[ops]
        kernels = np.where(gpu.kind[ops] == COMPUTE, gpu.running[ops], 0.0) + gpu.exposed[ops]
        low, high = np.searchsorted(self._emptied, [begin, stop])
        layers = [
            self._split(found, own_forward, since, tuple(values[launch >= since] for values in (launch, own, waiting)))
            for found, own_forward, since in zip(passes, forward, begins, strict=False)
        ]
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
            layers=_of_step(layers),
            passes=len(layers),
        )

    def _forward(self, found: list[Gradient], since: float) -> list[Operation]:
        """The forward operations of the gradients of a pass."""
        return self.launches.operations((item.node.sequence for item in found), since, found[0].node.start)

    def _split(
        self,
        found: list[Gradient],
        forward: list[Operation],
        begin: float,
        ops: tuple[Floats, ...],
    ) -> LayerTimes:
        """One pass layer by layer: each has what was launched from its own start to the next layer's."""
        launch, own, waiting = ops
        count, starts = len(forward), [item.start for item in forward]
        first, backward = starts[0] if starts else begin, found[0].node.start
        # When the batch had been fetched before the first operation: the first layer has all the host did since.
        low, high = np.searchsorted(self._fetched, begin), np.searchsorted(self._fetched, first, side="right")
        fetched = float(self._fetched[high - 1]) if high > low else begin
        starts = [fetched, *starts[1:]] if count else []
        cuts = np.maximum.accumulate([*starts, backward, *(item.node.end for item in found)])
        host = np.maximum(0.0, np.diff(cuts) - np.diff(self._waits(cuts)))
        # A start belongs to what it begins, the end of a node to what it ends.
        from_start, to_end = (np.searchsorted(cuts, launch, side=side) - 1 for side in ("right", "left"))
        place = np.maximum(0, np.where(launch <= backward, from_start, to_end))
        late = waiting.copy()
        # Ready times begin with the first kernel of the first node, whatever that had waited for.
        late[np.flatnonzero(place == count)[:1]] = 0.0
        inside = place < len(host)
        own_of, late_of = (np.bincount(place[inside], x[inside], minlength=len(host)) for x in (own, late))
        made = np.zeros((4, len(found)))
        for row, values in ((0, own_of[:count]), (2, host[:count])):
            seconds = dict(zip((item.sequence for item in forward), values.tolist(), strict=True))
            made[row] = [seconds.pop(item.node.sequence, 0.0) for item in found]
        ready = np.array([item.end - found[0].first for item in found]) - np.cumsum(late_of[count:])
        made[1] = np.maximum(0.0, np.diff(np.maximum.accumulate(ready), prepend=0.0))
        made[3] = host[count:]
        return made * 1e-6


def _of_step(passes: Sequence[LayerTimes]) -> LayerTimes | None:
    """The layers of a step from those of its passes; None without any, and where these have other numbers of layers."""
    if len({times.shape for times in passes}) != 1:
        return None
    whole: LayerTimes = np.sum(passes, axis=0)
    whole[2:] /= len(passes)
    return whole


def _total(microseconds: Floats) -> float:
    return float(microseconds.sum()) * 1e-6


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
    the order of the gradients, of so many `passes`.
    """

    found: tuple[int, ...]
    used: tuple[int, ...]
    step: float
    layers: LayerTimes
    passes: int

    @property
    def compute(self) -> float:
        """Seconds of the step without waiting for data and collectives."""
        return self.step - self.data - self.exposed

    @cached_property
    def _workload(self) -> Workload:
        layers = tuple(
            Layer(name="", numel=1, forward=times[0], backward=times[1], forward_host=times[2], backward_host=times[3])
            for times in self.layers.T[::-1].tolist()
        )
        count = self.passes
        return Workload.model_construct(batch_size=count, micro_batches=count, host_ahead=not self.waits, layers=layers)

    @cached_property
    def queued(self) -> float:
        """Seconds of all forward and backward passes as the layers alone give them: host and GPU as two clocks."""
        first, later = self._workload.passes()
        return _seconds(first) + (self.passes - 1) * _seconds(later)

    @property
    def compute_at_once(self) -> float:
        """Seconds of `compute` with the whole batch in one pass, as workloads state them: the host launches once."""
        if self.passes == 1 or not self.queued:
            return self.compute
        return self.rest + (self.compute - self.rest) * _seconds(self._workload.queued()) / self.queued

    @property
    def rest(self) -> float:
        """Seconds of `compute` besides the layers: `update`, and what the host does between steps while the GPU waits.

        Layers then keep the times that they were measured with.
        """
        return max(0.0, self.update, self.compute - self.queued)


def _seconds(one: Workload) -> float:
    return one.forward_time + one.backward_time


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

    The first one is left out where there are three or more. Steps without the usual numbers of passes and gradients
    never count.
    Raises InputError where a step that is wanted is none of the others.
    """
    counts = [(step.passes, step.layers.shape[1]) for step in steps if step.layers is not None]
    usual = statistics.mode(counts) if counts else (0, 0)
    whole = [step for step in steps if step.layers is not None and (step.passes, step.layers.shape[1]) == usual]
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
    names = [name for name in StepParts.__struct_fields__ if name != "waits"]
    medians = {name: float(np.median([getattr(step, name) for step in chosen])) for name in names}
    wall, span = medians["wall"], medians["span"]
    times = np.array([step.layers for step in chosen])
    times[:, 1] = np.cumsum(times[:, 1], axis=1)
    return StepSummary(
        **medians,
        found=tuple(step.number for step in steps),
        used=tuple(step.number for step in chosen),
        step=span if span > (1 + AHEAD) * wall else wall,
        waits=all(step.waits for step in chosen),
        layers=between_ready(np.median(times, axis=0)),
        passes=chosen[0].passes,
    )


def between_ready(times: LayerTimes) -> LayerTimes:
    """Times of layers with seconds since the gradient before, in place of the second row: when gradients were ready."""
    times[1] = np.diff(np.maximum.accumulate(times[1]), prepend=0.0)
    return times
