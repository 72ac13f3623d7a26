"""One recorded step of a job under DistributedDataParallel: its moments, and its gradients before they are averaged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from simulator.record.batches import tensors_in
from simulator.record.bucket_tables import BucketTimes
from simulator.record.step_marks import Gaps, Marks, gaps_from_starts, gaps_to_ends, mark_hooks
from simulator.record.timing import Clock
from simulator.records import Struct, field


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
        self.marks = self._hooks.enter_context(mark_hooks(model, parameters, self.clock))
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

    def finish(self, index: int) -> None:
        """A bucket is averaged."""
        self.buckets[index].finished = self.clock.mark()

    def stop(self) -> None:
        """Take the hooks away; modules and gradients that come later belong to another step."""
        self.marks = Marks(list(self.marks.forward), list(self.marks.backward))
        self._hooks.close()

    def forward_gaps(self) -> Gaps:
        """Seconds of the forward pass, and from each module's start to the next."""
        return gaps_from_starts(self.marks.forward, self.start, self._origin, self.clock)

    def backward_gaps(self) -> Gaps:
        """Seconds until the last gradient was ready, and of each gradient since the one before."""
        return gaps_to_ends(self.marks.backward, self._origin, self.clock)

    def bucket_times(self) -> Iterator[BucketTimes]:
        """Every bucket, in the order in which they were handed over."""
        for index, item in self.buckets.items():
            if item.finished is None:
                continue
            ready, finished = (self.clock.seconds(self._origin, moment) for moment in (item.ready, item.finished))
            yield BucketTimes(self.iteration, index, item.nbytes, ready, finished)

    @property
    def _origin(self) -> Any:
        """The start of the backward pass; the first ready gradient where no output of the model showed it."""
        return self.marks.backward[0][1] if self.backward is None else self.backward
