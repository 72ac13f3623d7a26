"""A communication hook of DistributedDataParallel that records a real job: its buckets, times and gradients."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

import torch
from torch import distributed
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel

from simulator.errors import InputError, Problem, SparsimError, suggest_nearest
from simulator.record.job_trace import FIRST, BucketStep, JobOptions, JobTrace
from simulator.record.merging import IterationTime, find_rank, is_distributed, merge_ranks, prepare_folder
from simulator.record.models import batch_size_of
from simulator.record.timing import Clock, clock_of


class JobRecorder:
    """Records a job under DistributedDataParallel; made by `simulator.record.hook`.

    `state` and `hook` go to `register_comm_hook`. `close`, or the end of a `with` block, writes what was recorded.
    """

    def __init__(self, out: Path | str, model: Any, options: JobOptions) -> None:
        if not is_distributed():
            hint = "call torch.distributed.init_process_group first"
            raise InputError(Problem("simulator.record.hook", "a process group of torch.distributed", "none", hint))
        self.out, self.options, self.state = Path(out), options, options.inner_state
        self.rank, self.world = find_rank()
        self.folder = prepare_folder(self.out, self.rank, self.world)
        self.iteration = 0
        """Iterations that were averaged so far."""
        self._trace: JobTrace | None = None
        self._clock: Clock = clock_of("cpu")
        self._handles: list[Any] = []
        self._seen = WeakSet[Any]()
        self._step: BucketStep | None = None
        self._ends: list[tuple[int, Any, bool]] = []
        self._closed = False
        if model is None:
            self._handles.append(register_module_forward_pre_hook(self._notice))
        else:
            self._watch(model)

    @property
    def recorded(self) -> int:
        """Iterations whose gradients were recorded."""
        return 0 if self._trace is None else self._trace.recorded

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        raise InputError(Problem("simulator.record.hook", "a forward pass of DistributedDataParallel", "none", hint))

    def _watch(self, model: Any) -> None:
        self._release()
        self._trace = JobTrace(self.folder, model, self.options)
        self._clock = clock_of(self._trace.device)
        self._handles = [
            model.register_forward_pre_hook(self._begin_forward, with_kwargs=True),
            model.register_forward_hook(self._end_forward),
        ]

    def _release(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._seen.clear()

    def _begin_forward(self, model: Any, arguments: Any, keywords: Any) -> None:
        if self._step is not None and self._step.complete:
            self._keep()
        trace = self._trace
        if trace is None or self._closed or not torch.is_grad_enabled():
            return
        # Within `no_sync` gradients are only added up: the last forward pass of an iteration is the one to look at.
        if not getattr(model, "require_backward_grad_sync", True):
            return
        if not self.options.records(self.iteration, trace.recorded):
            return
        if self._step is not None:
            if self._step.backward is None:
                return  # several forward passes come before one backward pass
            self._step.stop()
        if trace.batch_size is None:
            with suppress(InputError):
                trace.batch_size = batch_size_of((list(arguments), dict(keywords)))
        scaler = self.options.scaler
        self._step = BucketStep(self.iteration, self._clock, 1.0 if scaler is None else float(scaler.get_scale()))
        self._step.begin(model, trace.parameters)

    def _end_forward(self, model: Any, arguments: Any, output: Any) -> None:
        if self._step is not None and not self._step.complete:
            self._step.watch_outputs(output)

    def hook(self, state: Any, bucket):  # type: ignore[no-untyped-def]  # PyTorch reads the annotations
        """The communication hook: the inner one, or an all-reduce that gives the mean as without any hook."""
        if self._trace is None and not self._closed:
            self._watch(self._find_model(bucket))
        step, index, inner = self._step, bucket.index(), self.options.inner
        if step is not None and self._trace is not None:
            step.take(index, bucket.buffer().nbytes, self._trace.take(bucket))
        averaged = self._all_reduce(bucket.buffer()) if inner is None else inner(state, bucket)
        if step is not None:
            averaged = averaged.then(lambda future: step.finish(index, future.value()))
        if bucket.is_last():
            self._end_iteration()
        return averaged

    def _all_reduce(self, buffer: Any) -> Any:
        """The mean over ranks, bit for bit as DistributedDataParallel makes it: scaled first, then added."""
        group = None if self._trace is None else getattr(self._trace.model, "process_group", None)
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
        """Hand a whole iteration over, and the times of all iterations since the one before."""
        step, trace, self._step = self._step, self._trace, None
        if step is None or trace is None:
            return
        step.stop()
        if step.complete and step.marks.backward:
            self._clock.settle()
            trace.add(step)
            self._settle_ends(trace)

    def _settle_ends(self, trace: JobTrace) -> None:
        """Seconds between the ends of iterations; the one after a recorded iteration contains its writing."""
        for (_, begin, before), (number, end, recorded) in zip(self._ends, self._ends[1:], strict=False):
            trace.iterations.append(IterationTime(number, self._clock.seconds(begin, end), recorded or before))
        self._ends = self._ends[-1:]

    def _finish(self) -> None:
        if self._closed:
            return
        self._keep()
        self._release()
        self._closed = True
        if self._trace is None or not self._trace.recorded:
            left_out = 0 if self._trace is None else self._trace.left_out
            got = f"{self.iteration} iterations"
            if left_out:
                got += f", {left_out} of them left out with gradients that are not finite"
            hint = f"the first {FIRST} are not recorded, since buckets are formed in them"
            raise SparsimError(str(Problem("simulator.record.hook", f"more than {FIRST} iterations", got, hint)))
        self._clock.settle()
        self._settle_ends(self._trace)
        self._trace.close()


def hook(out: Path | str, model: Any = None, **options: Any) -> JobRecorder:
    """A recorder of a job under DistributedDataParallel, in three lines::

        recorder = simulator.record.hook("recorded", sample=0.01)
        model.register_comm_hook(recorder.state, recorder.hook)
        ...                                                       # training
        recorder.close()                                          # on every rank

    The folder `out` then is a trace (`workload: {trace: recorded}`) with the times of the layers. It also holds the
    buckets with their times, `collectives.csv` for `sparsim calibrate network`, and `job.yaml` with the time of an
    iteration. Averaged gradients are the same as without the hook.

    `model`: the DistributedDataParallel; left out, it is found at its first forward pass. Options:

    - `sample`: the share of each tensor whose gradients are kept, before they are averaged (default: 0.01).
    - `every`, `block`, `most`: of every 20 iterations the first 4 are recorded, 200 of them at most; the first three
      of the job are not.
    - `inner`, `inner_state`: another hook that averages, such as `powerSGD_hook`, and its state.
    - `scaler`: the GradScaler, by whose factor recorded gradients are divided.
    - `batch_size`: samples per rank; left out, the first dimension of the first tensor that the model is called with.
    - `seed`: of the sample.
    - `about`: other fields of trace.yaml, such as `model`.

    Raises InputError for wrong options, without a process group, and where `out` has a recording of more ranks.
    """
    unknown = [name for name in options if name not in JobOptions.__struct_fields__]
    if unknown:
        hint = suggest_nearest(unknown[0], JobOptions.__struct_fields__)
        raise InputError(Problem("simulator.record.hook", "a known option", f"'{unknown[0]}'", hint))
    return JobRecorder(out, model, JobOptions(**options))
