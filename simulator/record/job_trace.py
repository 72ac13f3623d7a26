"""What is written of a recorded job by one rank: a trace with the times of its layers, and tables of its buckets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import distributed

from simulator.models.layers import Layer
from simulator.record.bucket_step import BucketStep
from simulator.record.bucket_tables import ALL_REDUCE, BucketTimes, IterationTime, write_tables
from simulator.record.environment import environment
from simulator.record.even_sample import TensorSample, describe_sample, draw_coordinates
from simulator.record.gradients import open_stream
from simulator.record.job_options import JobOptions
from simulator.record.job_ranks import find_nodes
from simulator.record.step_marks import Gaps, time_layers
from simulator.record.streams import GradientStream
from simulator.record.tasks import trainable_parameters

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
        self.layers = {name: Layer(name=name, numel=item.numel()) for name, item in self.parameters.items()}
        layers = tuple(self.layers.values())
        self.sample = TensorSample(layers, self.parameters, *draw_coordinates(layers, options.sample, options.seed))
        self._names = {id(parameter): name for name, parameter in self.parameters.items()}
        self.batch_size = options.batch_size
        self.left_out = 0
        self.iterations: list[IterationTime] = []
        self._stream: GradientStream | None = None
        self._forward: list[Gaps] = []
        self._backward: list[Gaps] = []
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
        rows = [step.values[layer.name].float().cpu().numpy() for layer in self._stream.layers]
        values = (np.concatenate(rows)[np.newaxis] / step.scale).astype(np.float32)
        if not np.isfinite(values).all():
            self.left_out += 1
            return
        self._stream.append(values, step.iteration)
        self._forward.append(step.forward_gaps())
        self._backward.append(step.backward_gaps())
        self._times += step.bucket_times()
        self._buckets = {index: (item.nbytes, item.tensors) for index, item in step.buckets.items()}

    def close(self) -> None:
        """Write all files. Raises SparsimError where nothing was recorded."""
        if self._stream is not None:
            timed = time_layers(self._stream.layers, self.model, self.parameters, self._forward, self._backward)
            self._stream.close(timed)
            write_tables(self.folder, self._buckets, self._times, self.iterations, self._describe_job())

    def _open_stream(self, step: BucketStep) -> GradientStream:
        """The trace, whose tensors stand in the reverse order of the buckets: that of the forward pass."""
        order = [name for _, item in sorted(step.buckets.items()) for name in item.tensors]
        layers = tuple(self.layers[name] for name in reversed(order))
        about = {
            "model": type(getattr(self.model, "module", self.model)).__name__,
            "batch_size": self.batch_size or 1,
            "workers": 1,
            "sampling": describe_sample(self.options.sample, self.options.seed),
            "source": SOURCE,
        }
        places = self.sample.coordinates(layers)
        return open_stream(self.folder, self.parameters, layers, {**about, **self.options.about}, places=places)

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
