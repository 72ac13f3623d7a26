"""Recording of gradients in a training loop, in one process or several."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from simulator.errors import InputError, Problem, suggest_nearest
from simulator.loading.csv_tables import read_layers
from simulator.models.layers import Layer
from simulator.record.merging import find_rank, merge_ranks, prepare_folder
from simulator.record.models import batch_size_of, trainable_parameters
from simulator.record.own_model import OwnModel
from simulator.record.streams import GradientStream, TensorSample, find_share_problems


class GradientRecorder:
    """Records the gradients of a training loop as a trace; a context manager.

        with GradientRecorder(model, "traces/mine", every=100, block=8, sample=0.01) as recorder:
            for inputs, targets in data:
                optimiser.zero_grad()
                loss = criterion(model(inputs), targets)
                loss.backward()
                recorder.step(loss)
                optimiser.step()

    Of every `every` iterations the first `block` are recorded (replay with error feedback needs consecutive ones), at
    the same coordinates each time: the share `sample` of every tensor, drawn uniformly from `seed`, but all of a tensor
    of at most 64 elements. Each parameter's gradient is recorded at the end of its backward pass, before it is averaged
    over ranks; DistributedDataParallel may wrap the model. Iterations with a gradient that is not finite are left out.

    Under `torchrun` each rank writes a trace of its own, `OUT/rank-00000` and so on. At the end rank 0 merges them into
    OUT if it can see all of them (`sparsim record merge OUT` does the same). `rank` and `world`: for processes that
    neither `torch.distributed` nor the environment numbers. `workers`: so many calls of `step` in a row are the workers
    of one iteration, for data-parallel training in one process; gradients must be set to zero between them.

    `layers`: the layers.csv of `sparsim record layers` for this model, which gives the trace its order and times;
    without it tensors are in the order of the model's parameters and have no times. `about`: other fields of
    trace.yaml, such as `model` and `data_licence`. `batch_size`: samples per worker.

    Raises InputError for invalid arguments, and where OUT has a recording of more ranks.
    """

    def __init__(
        self,
        model: Any,
        out: Path | str,
        *,
        every: int = 1,
        block: int = 1,
        sample: float = 1.0,
        batch_size: int = 1,
        workers: int = 1,
        layers: Path | str | None = None,
        seed: int = 0,
        rank: int | None = None,
        world: int | None = None,
        about: dict[str, Any] | None = None,
    ) -> None:
        problems = find_share_problems("GradientRecorder", sample, every, block)
        if problems:
            raise InputError(problems)
        self.out, self.every, self.block, self.workers = Path(out), every, block, workers
        self.rank, self.world = find_rank(rank, world)
        parameters = trainable_parameters(model)
        self._layers = _order_layers(parameters, layers)
        self._parameters = {layer.name: parameters[layer.name] for layer in self._layers}
        self._sample = TensorSample(self._parameters, sample, seed)
        own = {"model": type(getattr(model, "module", model)).__name__, "batch_size": batch_size, "workers": workers}
        self.folder = prepare_folder(self.out, self.rank, self.world)
        self._stream = GradientStream(self.folder, self._parameters, self._layers, own | (about or {}), self._sample)
        self.iteration, self.left_out = 0, 0
        self._rows: list[np.ndarray] = []
        self._step_losses: list[float] = []
        self._captured: dict[str, Any] = {}
        self._hooks = ExitStack()

    def __enter__(self) -> Self:
        for name, parameter in self._parameters.items():
            hook = parameter.register_post_accumulate_grad_hook(partial(self._capture, name))
            self._hooks.callback(hook.remove)
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._hooks.close()
        if kind is not None and not self.recorded:
            return
        # What was recorded is kept, also when training ended early.
        self._stream.close()
        if kind is None:
            merge_ranks(self.out, self.rank, self.world)

    def step(self, loss: Any = None, scale: float = 1.0) -> None:
        """Call it after `backward` and before the optimiser, once per worker of an iteration.

        `loss`: a number or a tensor of one, written to trace.yaml. `scale`: the factor of the loss (GradScaler's
        `get_scale()`), by which gradients are divided before they are stored.
        """
        wanted = self._wanted
        self._rows.append(self._sample.row(self._captured, self._layers, scale) if wanted else np.empty(0))
        self._captured = {}
        if wanted and loss is not None:
            self._step_losses.append(float(loss.detach() if isinstance(loss, torch.Tensor) else loss))
        if len(self._rows) < self.workers:
            return
        values, losses = np.stack(self._rows), self._step_losses
        if not np.isfinite(values).all():
            self.left_out += 1
        elif wanted:
            self._stream.append(values, self.iteration, math.fsum(losses) / len(losses) if losses else math.nan)
        self._rows, self._step_losses = [], []
        self.iteration += 1

    @property
    def recorded(self) -> int:
        """Iterations that were recorded."""
        return len(self._stream.iterations)

    @property
    def _wanted(self) -> bool:
        return self.iteration % self.every < self.block

    def _capture(self, name: str, parameter: Any) -> None:
        if self._wanted:
            gradient = parameter.grad.detach()
            self._captured[name] = self._sample.of(name, gradient.to_dense() if gradient.is_sparse else gradient)


def record_training(
    task: OwnModel,
    out: Path,
    *,
    workers: int,
    iterations: int,
    learning_rate: float = 0.01,
    momentum: float = 0.9,
    **options: Any,
) -> int:
    """Train data-parallel in this process, every worker on batches of its own, and record; `options` as in
    `GradientRecorder`.

    Synchronous SGD with momentum on the mean gradient. Returns the number of recorded iterations.
    Raises InputError where batches run out.
    """
    parameters = list(trainable_parameters(task.model).values())
    optimiser = torch.optim.SGD(parameters, learning_rate, momentum)
    first = next(task.inputs)
    batches = chain([first], task.inputs)
    about = {"model": task.name, "source": f"recorded by `sparsim record gradients {task.name}`"}
    with GradientRecorder(
        task.model,
        out,
        batch_size=batch_size_of(first),
        workers=workers,
        rank=0,
        world=1,
        about=about,
        **options,
    ) as recorder:
        for iteration in range(iterations):
            mean = [torch.zeros_like(parameter) for parameter in parameters]
            for _ in range(workers):
                batch = next(batches, None)
                if batch is None:
                    what = f"{workers * iterations} batches"
                    raise InputError(Problem(task.name, what, f"no more than {iteration * workers}"))
                optimiser.zero_grad()
                loss = task.loss(task.model, batch)
                loss.backward()
                recorder.step(loss)
                for total, parameter in zip(mean, parameters, strict=True):
                    if parameter.grad is not None:
                        total.add_(parameter.grad, alpha=1 / workers)
            for total, parameter in zip(mean, parameters, strict=True):
                parameter.grad = total
            optimiser.step()
    return recorder.recorded


def _order_layers(parameters: Mapping[str, Any], path: Path | str | None) -> tuple[Layer, ...]:
    if path is None:
        return tuple(Layer(name=name, numel=item.numel(), shape=tuple(item.shape)) for name, item in parameters.items())
    layers = read_layers(Path(path))
    sizes = {layer.name: layer.numel for layer in layers}
    wrong: list[tuple[str, str, str]] = []
    for name, item in parameters.items():
        if sizes.get(name) != item.numel():
            got = f"{sizes[name]}" if name in sizes else f"no such row; {suggest_nearest(name, sizes)}"
            wrong.append((name, f"{item.numel()} elements", got))
    wrong += [(name, "a parameter of the model", "none") for name in sizes if name not in parameters]
    if wrong:
        raise InputError(Problem(f"{path}: {name}", expected, got) for name, expected, got in wrong[:20])
    return layers
