"""A communication hook of DistributedDataParallel that records a real job: its buckets, times and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self
from weakref import WeakSet

import numpy as np
import torch
from torch import distributed
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel

from simulator.errors import InputError, Problem, SparsimError, format_value
from simulator.models.layers import Layer
from simulator.record.environment import environment
from simulator.record.merging import (
    ALL_REDUCE,
    BucketTimes,
    IterationTime,
    find_nodes,
    find_rank,
    joined_ranks,
    merge_ranks,
    prepare_folder,
    write_tables,
)
from simulator.record.models import batch_size_of, tensors_in, trainable_parameters
from simulator.record.streams import GradientStream, TensorSample, find_share_problems
from simulator.record.timing import Clock, Gaps, Marks, clock_of, mark_hooks, time_layers
from simulator.records import Record, field

FIRST = 3
"""The first iteration that is recorded: DistributedDataParallel forms its buckets anew after the first one."""
Hook = Callable[[Any, Any], Any]
_WHERE = "simulator.record.hook"
SOURCE = (
    "recorded by a communication hook from a job under DistributedDataParallel; times of the layers are medians over "
    "the recorded iterations of rank 0, beside the job's own communication"
)


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
        for name, number in (("most", self.most), ("batch_size", self.batch_size)):
            if number is not None and number < 1:
                problems.append(Problem(f"{_WHERE}: {name}", "at least 1", format_value(number)))
        if problems:
            raise InputError(problems)

    def records(self, iteration: int, recorded: int) -> bool:
        """Whether an iteration is recorded, of which so many were before."""
        place = iteration - FIRST
        return place >= 0 and place % self.every < self.block and recorded < self.most


class BucketStep:
    """The moments of one iteration, from the start of its forward pass until all of its buckets were averaged.

    Every module and every gradient is marked until `stop`. `buckets`: bytes and tensors of those that were handed over.
    """

    def __init__(self, iteration: int, scale: float, model: Any, parameters: Mapping[str, Any], clock: Clock) -> None:
        self.iteration, self.scale, self.clock = iteration, scale, clock
        self.buckets: dict[int, tuple[int, tuple[str, ...]]] = {}
        self.values: dict[str, Any] = {}
        self.backward: Any = None
        self.complete = False
        self._ready: dict[int, Any] = {}
        self._finished: dict[int, Any] = {}
        self._hooks = ExitStack()
        self.marks = self._hooks.enter_context(mark_hooks(model, parameters, clock.mark))
        self.start = clock.mark()

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
        self.buckets[index] = nbytes, tuple(values)
        self._ready[index] = self.clock.mark()
        self.values.update(values)

    def finish(self, index: int, value: Any) -> Any:
        """A bucket is averaged, to this value."""
        self._finished[index] = self.clock.mark()
        return value

    def stop(self) -> None:
        """Take the hooks away; modules and gradients that come later belong to another step."""
        self.marks = Marks(list(self.marks.forward), list(self.marks.backward))
        self._hooks.close()

    def bucket_times(self) -> Iterator[BucketTimes]:
        """Every bucket that was averaged, in the order in which they were handed over."""
        for index, moment in self._ready.items():
            if index in self._finished:
                moments = moment, self._finished[index]
                seconds = (self.clock.seconds(self.origin, each) for each in moments)
                yield BucketTimes(self.iteration, index, self.buckets[index][0], *seconds)

    @property
    def origin(self) -> Any:
        """The start of the backward pass; the first ready gradient where no output of the model showed it."""
        return self.marks.backward[0][1] if self.backward is None else self.backward


class JobRecorder:
    """Records a job under DistributedDataParallel; made by `simulator.record.hook`.

    `state` and `hook` go to `register_comm_hook`. `close`, or the end of a `with` block, writes what was recorded.
    """

    def __init__(self, out: Path | str, model: Any, options: JobOptions) -> None:
        if joined_ranks() is None:
            hint = "call torch.distributed.init_process_group first"
            raise InputError(Problem(_WHERE, "a process group of torch.distributed", "none", hint))
        self.out, self.options, self.state = Path(out), options, options.inner_state
        self.rank, self.world = find_rank()
        self.folder = prepare_folder(self.out, self.rank, self.world)
        self.batch_size = options.batch_size
        self.iteration, self.left_out = 0, 0
        """Iterations that were averaged so far, and those among them whose gradients are not finite."""
        self._model: Any = None
        self._stream: GradientStream | None = None
        self._step: BucketStep | None = None
        self._gaps: list[tuple[Gaps, Gaps]] = []
        self._times: list[BucketTimes] = []
        self._iterations: list[IterationTime] = []
        self._ends: list[tuple[int, Any, bool]] = []
        self._closed = False
        self._hooks, self._seen = ExitStack(), WeakSet[Any]()
        if model is None:
            self._hooks.callback(register_module_forward_pre_hook(self._notice).remove)
        else:
            self._watch(model)

    @property
    def recorded(self) -> int:
        """Iterations whose gradients were recorded."""
        return 0 if self._stream is None else len(self._stream.iterations)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self.close()
        else:
            with suppress(SparsimError):  # other ranks may have stopped elsewhere: wait for nobody
                self._finish()

    def close(self) -> None:
        """Write what was recorded; rank 0 merges all ranks where it can see their folders. Every rank must call it.

        Raises SparsimError where nothing was recorded.
        """
        if self._closed:
            return
        try:
            self._finish()
        except SparsimError:
            merge_ranks(self.out, self.rank, self.world, worked=False)
            raise
        merge_ranks(self.out, self.rank, self.world)

    def _notice(self, module: Any, arguments: Any) -> None:
        """Keep every DistributedDataParallel that computes; the first bucket says which one is ours."""
        if isinstance(module, DistributedDataParallel):
            self._seen.add(module)

    def _find_model(self, bucket: Any) -> Any:
        wanted = {id(parameter) for parameter in bucket.parameters()}
        for model in self._seen:
            if wanted <= {id(parameter) for parameter in model.parameters()}:
                return model
        hint = 'give the model: simulator.record.hook("recorded", model)'
        raise InputError(Problem(_WHERE, "a forward pass of DistributedDataParallel", "none", hint))

    def _watch(self, model: Any) -> None:
        self._release()
        self._model, self._parameters = model, trainable_parameters(model)
        self._sample = TensorSample(self._parameters, self.options.sample, self.options.seed)
        self._names = {id(parameter): name for name, parameter in self._parameters.items()}
        device = next(iter(self._parameters.values())).device
        self._device = "cpu" if device.type == "cpu" else str(device)
        self._clock = clock_of(self._device)
        self._hooks.callback(model.register_forward_pre_hook(self._begin_forward, with_kwargs=True).remove)
        self._hooks.callback(model.register_forward_hook(self._end_forward).remove)

    def _release(self) -> None:
        self._hooks.close()
        self._seen.clear()

    def _begin_forward(self, model: Any, arguments: Any, keywords: Any) -> None:
        if self._step is not None and self._step.complete:
            self._keep()
        # Within `no_sync` gradients are only added up: the last forward pass of an iteration is the one to look at.
        averaged = torch.is_grad_enabled() and getattr(model, "require_backward_grad_sync", True)
        if self._closed or not averaged or not self.options.records(self.iteration, self.recorded):
            return
        if self._step is not None:
            if self._step.backward is None:
                return  # several forward passes come before one backward pass
            self._step.stop()
        if self.batch_size is None:
            with suppress(InputError):
                self.batch_size = batch_size_of((list(arguments), dict(keywords)))
        scale = 1.0 if self.options.scaler is None else float(self.options.scaler.get_scale())
        self._step = BucketStep(self.iteration, scale, model, self._parameters, self._clock)

    def _end_forward(self, model: Any, arguments: Any, output: Any) -> None:
        if self._step is not None and not self._step.complete:
            self._step.watch_outputs(output)

    def hook(self, state: Any, bucket):  # type: ignore[no-untyped-def]  # PyTorch reads the annotations
        """The communication hook: the inner one, or an all-reduce that gives the mean as without any hook."""
        if self._model is None and not self._closed:
            self._watch(self._find_model(bucket))
        step, index, inner = self._step, bucket.index(), self.options.inner
        if step is not None:
            named = zip((self._names[id(each)] for each in bucket.parameters()), bucket.gradients(), strict=True)
            values = {name: self._sample.of(name, gradient.detach()) for name, gradient in named}
            step.take(index, bucket.buffer().nbytes, values)
        averaged = self._all_reduce(bucket.buffer()) if inner is None else inner(state, bucket)
        if step is not None:
            averaged = averaged.then(lambda future: step.finish(index, future.value()))
        if bucket.is_last():
            self._end_iteration()
        return averaged

    def _all_reduce(self, buffer: Any) -> Any:
        """The mean over ranks, bit for bit as DistributedDataParallel makes it: scaled first, then added."""
        group = getattr(self._model, "process_group", None)
        buffer.mul_(1.0 / distributed.get_world_size(group))
        work = distributed.all_reduce(buffer, group=group, async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    def _end_iteration(self) -> None:
        if not self._closed and self.iteration >= FIRST - 1 and self.recorded < self.options.most:
            self._ends.append((self.iteration, self._clock.mark(), self._step is not None))
        if self._step is not None:
            self._step.complete = True
            self._step.stop()
        self.iteration += 1

    def _keep(self) -> None:
        """Add a whole iteration, unless a gradient is not finite, and the times of all since the one before."""
        step, self._step = self._step, None
        if step is None:
            return
        step.stop()
        if not (step.complete and step.marks.backward):
            return
        self._clock.settle()
        self._stream = self._stream or self._open_stream(step)
        values = self._sample.row(step.values, self._stream.layers, step.scale)[np.newaxis]
        if np.isfinite(values).all():
            self._stream.append(values, step.iteration)
            self._gaps.append(step.marks.gaps(step.start, step.origin, step.clock))
            self._times += step.bucket_times()
            self._buckets = step.buckets
        else:
            self.left_out += 1
        self._settle_ends()

    def _settle_ends(self) -> None:
        """Seconds between the ends of iterations; the one after a recorded iteration contains its writing."""
        for (_, begin, before), (number, end, recorded) in zip(self._ends, self._ends[1:], strict=False):
            self._iterations.append(IterationTime(number, self._clock.seconds(begin, end), recorded or before))
        self._ends = self._ends[-1:]

    def _finish(self) -> None:
        if self._closed:
            return
        self._keep()
        self._release()
        self._closed = True
        if self._stream is None or not self.recorded:
            got = f"{self.iteration} iterations"
            if self.left_out:
                got += f", {self.left_out} of them left out with gradients that are not finite"
            hint = f"the first {FIRST} are not recorded, since buckets are formed in them"
            raise SparsimError(str(Problem(_WHERE, f"more than {FIRST} iterations", got, hint)))
        self._clock.settle()
        self._settle_ends()
        self._stream.close(time_layers(self._stream.layers, self._gaps))
        write_tables(self.folder, self._buckets, self._times, self._iterations, self._describe_job())

    def _open_stream(self, step: BucketStep) -> GradientStream:
        """The trace, whose tensors stand in the reverse order of the buckets: that of the forward pass."""
        order = [name for _, (_, tensors) in sorted(step.buckets.items()) for name in tensors]
        layers = [Layer(name=name, numel=self._parameters[name].numel()) for name in reversed(order)]
        about = {
            "model": type(getattr(self._model, "module", self._model)).__name__,
            "batch_size": self.batch_size or 1,
            "workers": 1,
            "source": SOURCE,
        }
        return GradientStream(self.folder, self._parameters, layers, {**about, **self.options.about}, self._sample)

    def _describe_job(self) -> Mapping[str, Any]:
        place, workers, inner = environment(self._device), distributed.get_world_size(), self.options.inner
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
