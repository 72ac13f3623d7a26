"""What one rank records of a job: the moments and gradients of its steps, a trace, and tables of its buckets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from torch import distributed

from simulator.errors import InputError, Problem, format_value
from simulator.models.layers import Layer
from simulator.record.environment import environment
from simulator.record.merging import ALL_REDUCE, BucketTimes, IterationTime, find_nodes, write_tables
from simulator.record.models import tensors_in, trainable_parameters
from simulator.record.streams import GradientStream, TensorSample, find_share_problems, open_stream
from simulator.record.timing import Clock, Gaps, Marks, mark_hooks, time_layers
from simulator.records import Record, Struct, field

FIRST = 3
"""The first iteration that is recorded: DistributedDataParallel forms its buckets anew after the first one."""
Hook = Callable[[Any, Any], Any]
_WHERE = "simulator.record.hook"


class JobOptions(Record):
    """The keywords of `simulator.record.hook`, which explains them. Raises InputError for wrong ones."""

    sample: float = 0.01
    every: int = 20
    block: int = 4
    most: int = 200
    inner: Hook | None = None
    inner_state: Any = None
    scaler: Any = None
    batch_size: int | None = None
    seed: int = 0
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problems = find_share_problems(_WHERE, self.sample, self.every, self.block)
        if self.most < 1:
            problems.append(Problem(f"{_WHERE}: most", "at least 1", format_value(self.most)))
        if self.batch_size is not None and self.batch_size < 1:
            problems.append(Problem(f"{_WHERE}: batch_size", "at least 1", format_value(self.batch_size)))
        if problems:
            raise InputError(problems)

    def records(self, iteration: int, recorded: int) -> bool:
        """Whether an iteration is recorded, of which so many were before."""
        place = iteration - FIRST
        return place >= 0 and place % self.every < self.block and recorded < self.most


class TimedBucket(Struct, dict=True):
    """A bucket that was handed over: its size, its tensors, and when it was ready and averaged."""

    nbytes: int
    tensors: tuple[str, ...]
    ready: Any
    finished: Any = None


class BucketStep(Struct, dict=True):
    """The moments of one iteration, from the start of its forward pass until all of its buckets were averaged."""

    iteration: int
    clock: Clock
    scale: float = 1.0
    start: Any = None
    backward: Any = None
    marks: Marks = field(default_factory=Marks)
    buckets: dict[int, TimedBucket] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    complete: bool = False
    _hooks: ExitStack = field(default_factory=ExitStack)

    def begin(self, model: Any, parameters: Mapping[str, Any]) -> None:
        """Mark the start of the forward pass, and from now on every module and every gradient."""
        self.marks = self._hooks.enter_context(mark_hooks(model, parameters, self.clock.mark))
        self.start = self.clock.mark()

    def watch_outputs(self, output: Any) -> None:
        """The backward pass begins when the gradient of one of the model's outputs is known."""
        for tensor in tensors_in(output):
            if tensor.requires_grad:
                tensor.register_hook(self._begin_backward)

    def _begin_backward(self, gradient: Any) -> None:
        if self.backward is None:
            self.backward = self.clock.mark()

    def take(self, index: int, nbytes: int, values: Mapping[str, Any]) -> None:
        """A bucket is ready, with these gradients, by tensor; `nbytes` are those of the whole bucket."""
        self.buckets[index] = TimedBucket(nbytes, tuple(values), self.clock.mark())
        self.values.update(values)

    def finish(self, index: int, value: Any) -> Any:
        """A bucket is averaged, to this value."""
        self.buckets[index].finished = self.clock.mark()
        return value

    def stop(self) -> None:
        """Take the hooks away; modules and gradients that come later belong to another step."""
        self.marks = Marks(list(self.marks.forward), list(self.marks.backward))
        self._hooks.close()

    def bucket_times(self) -> Iterator[BucketTimes]:
        """Every bucket, in the order in which they were handed over."""
        for index, item in self.buckets.items():
            if item.finished is None:
                continue
            ready, finished = (self.clock.seconds(self.origin, moment) for moment in (item.ready, item.finished))
            yield BucketTimes(self.iteration, index, item.nbytes, ready, finished)

    @property
    def origin(self) -> Any:
        """The start of the backward pass; the first ready gradient where no output of the model showed it."""
        return self.marks.backward[0][1] if self.backward is None else self.backward


SOURCE = (
    "recorded by a communication hook from a job under DistributedDataParallel; times of the layers are medians over "
    "the recorded iterations of rank 0, beside the job's own communication"
)


class JobTrace:
    """Takes whole iterations of a model (a DistributedDataParallel), and writes them to `folder` at the end."""

    def __init__(self, folder: Path, model: Any, options: JobOptions) -> None:
        self.folder, self.model, self.options = folder, model, options
        self.parameters = trainable_parameters(model)
        first = next(iter(self.parameters.values()))
        self.device = "cpu" if first.device.type == "cpu" else str(first.device)
        self.sample = TensorSample(self.parameters, options.sample, options.seed)
        self._names = {id(parameter): name for name, parameter in self.parameters.items()}
        self.batch_size = options.batch_size
        self.left_out = 0
        self.iterations: list[IterationTime] = []
        self._stream: GradientStream | None = None
        self._steps: list[tuple[Gaps, Gaps]] = []
        self._times: list[BucketTimes] = []
        self._buckets: dict[int, tuple[int, tuple[str, ...]]] = {}

    @property
    def recorded(self) -> int:
        """Iterations whose gradients were recorded."""
        return 0 if self._stream is None else len(self._stream.iterations)

    def take(self, bucket: Any) -> Mapping[str, Any]:
        """The recorded elements of every tensor of a bucket, copied."""
        names = [self._names[id(parameter)] for parameter in bucket.parameters()]
        return {name: self.sample.of(name, item.detach()) for name, item in zip(names, bucket.gradients(), strict=True)}

    def add(self, step: BucketStep) -> None:
        """Add an iteration that has ended; one with a gradient that is not finite is left out."""
        if self._stream is None:
            self._stream = self._open_stream(step)
        values = self.sample.row(step.values, self._stream.layers, step.scale)[np.newaxis]
        if not np.isfinite(values).all():
            self.left_out += 1
            return
        self._stream.append(values, step.iteration)
        self._steps.append(step.marks.gaps(step.start, step.origin, step.clock))
        self._times += step.bucket_times()
        self._buckets = {index: (item.nbytes, item.tensors) for index, item in step.buckets.items()}

    def close(self) -> None:
        """Write all files. Raises SparsimError where nothing was recorded."""
        if self._stream is not None:
            timed = time_layers(self._stream.layers, self._steps)
            self._stream.close(timed)
            write_tables(self.folder, self._buckets, self._times, self.iterations, self._describe_job())

    def _open_stream(self, step: BucketStep) -> GradientStream:
        """The trace, whose tensors stand in the reverse order of the buckets: that of the forward pass."""
        order = [name for _, item in sorted(step.buckets.items()) for name in item.tensors]
        layers = [Layer(name=name, numel=self.parameters[name].numel()) for name in reversed(order)]
        about = {
            "model": type(getattr(self.model, "module", self.model)).__name__,
            "batch_size": self.batch_size or 1,
            "workers": 1,
            "source": SOURCE,
        }
        return open_stream(self.folder, self.parameters, layers, {**about, **self.options.about}, self.sample)

    def _describe_job(self) -> Mapping[str, Any]:
        place, workers, inner = environment(self.device), distributed.get_world_size(), self.options.inner
        return {
            "workers": workers,
            "nodes": find_nodes(workers),
            "batch_size": self.batch_size or 1,
            "averaged_by": ALL_REDUCE if inner is None else getattr(inner, "__name__", "another hook"),
            "backend": str(distributed.get_backend()),
            "device": place.device,
            "pytorch": place.pytorch,
            "date": place.date,
        }
