"""The closed loop: gradients go through the method and change the weights, and weights change the gradients."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from simulator.engine.refusals import as_input_error
from simulator.errors import InputError, Problem
from simulator.models.layers import Layer
from simulator.record.streams import GradientStream
from simulator.records import astuple
from simulator.traces.sampling import Sampling
from simulator.training.checkpoints import CHECKPOINT_FILE, read_checkpoint, write_checkpoint
from simulator.training.exchange import GradientExchange
from simulator.training.gradients import Workers
from simulator.training.task import TrainingTask, load_task
from simulator.trainings.options import TrainingOptions
from simulator.trainings.runs import (
    TRAINING_FILE,
    CurvePoint,
    TrainingRun,
    describe_method,
    finished_run,
    read_run,
    write_run,
)

Observe = Callable[[int], None]
LARGEST = 1e12
"""Gradients beyond it have diverged; of smaller ones, sums over iterations and norms are finite."""


def train(
    options: TrainingOptions,
    out: Path | str,
    *,
    device: str = "cpu",
    threads: int = 1,
    checkpoint_every: int = 100,
    record: Path | None = None,
    sampling: Sampling | None = None,
    observe: Observe | None = None,
) -> TrainingRun:
    """Train with the method in the loop into the folder `out`; a training that was interrupted continues.

    `threads`: of the processor. The same options give the same bytes again on the same machine with the same number of
    threads and versions, also after an interruption. `checkpoint_every`: iterations between two checkpoints, which are
    removed at the end. `observe` is called with the number of finished iterations, at the start too. A loss that
    is not finite or a gradient beyond `LARGEST` ends the training; `stopped` says when, and what was done is kept.
    `record`: the folder of a trace to which the gradients are written before the exchange, all or those of `sampling`;
    such a training is not continued after an interruption.

    Raises InputError for a task or method that cannot be trained, and where the folder holds another training, or any
    if it is to be recorded.
    """
    folder = Path(out)
    if record is not None and (folder / TRAINING_FILE).is_file():
        hint = "a recording starts with the training: remove it, or use another folder"
        raise InputError(Problem(str(folder), "an empty folder", "a training", hint))
    if finished_run(folder, options):
        return read_run(folder)
    with _reproducible(threads):
        loop = _Loop(load_task(options, device))
        spec = loop.spec
        if record is not None:
            loop.record(record, sampling, options)
        else:
            loop.resume(read_checkpoint(folder))
        if observe is not None:
            observe(len(loop.points))
        stopped = ""
        while len(loop.points) < options.iterations and not stopped:
            with as_input_error(f"method {describe_method(options.method)}"):
                stopped = loop.step()
            if observe is not None:
                observe(len(loop.points))
            if len(loop.points) % checkpoint_every == 0 and not stopped and record is None:
                write_run(folder, spec, loop.points)
                write_checkpoint(folder, loop.content())
        if loop.stream is not None:
            loop.stream.close()
    if not loop.points:
        raise InputError(Problem(options.task, "a loss and gradients that are finite numbers", stopped))
    write_run(folder, spec.model_copy(update={"weights": loop.digest(), "stopped": stopped}), loop.points)
    (folder / CHECKPOINT_FILE).unlink(missing_ok=True)
    return read_run(folder)


class _Loop:
    """The state of a training between two iterations."""

    def __init__(self, task: TrainingTask) -> None:
        self.task, self.spec = task, task.spec
        self.workers = Workers(task)
        self.exchange = GradientExchange(
            task.spec.sparsifier, self.workers.shapes, task.spec.workers, error_feedback=task.spec.error_feedback
        )
        self.velocity = torch.zeros_like(self.workers.weights)
        self.points: list[CurvePoint] = []
        self.stream: GradientStream | None = None

    def record(self, folder: Path, sampling: Sampling | None, options: TrainingOptions) -> None:
        """Write the gradients of every step to a trace."""
        workers = self.workers
        layers = [Layer(name=name, numel=numel) for name, numel in zip(workers.parameters, workers.numels, strict=True)]
        stated = "".join(f", {name} {value}" for name, value in options.parameters.items())
        about = {
            "model": f"{options.task}{stated}, {sum(workers.numels)} parameters",
            "batch_size": self.spec.batch_size,
            "workers": options.workers,
            "data_licence": self.task.licence,
            "source": f"recorded by `sparsim record training`: {options.model_dump_json(exclude_defaults=True)}",
        }
        self.stream = GradientStream(folder, workers.parameters, layers, about, sampling)

    def step(self) -> str:
        """One iteration; why it could not be done, or nothing."""
        spec, iteration = self.spec, len(self.points)
        torch.manual_seed(int(np.random.SeedSequence([spec.seed, iteration]).generate_state(1, np.uint64)[0] // 2))
        if spec.local_steps > 1:
            values, losses = self.workers.differences(spec.local_steps, spec.learning_rate, spec.momentum)
            learning_rate, momentum = spec.outer_learning_rate, spec.outer_momentum
        else:
            values, losses = self.workers.gradients()
            learning_rate = spec.learning_rate
            momentum = 0.0 if getattr(spec.sparsifier, "momentum", 0.0) else spec.momentum
        loss = math.fsum(losses) / len(losses)
        values = values.cpu().numpy()
        if not (math.isfinite(loss) and values.min() > -LARGEST and values.max() < LARGEST):
            return f"iteration {iteration}: the loss is not finite, or a gradient is beyond {LARGEST:g}"
        if self.stream is not None:
            self.stream.append(values, iteration, loss)
        mean, figures = self.exchange.run(values, iteration)
        self.velocity.mul_(momentum).add_(torch.from_numpy(mean).to(self.velocity.device))
        self.workers.weights.sub_(self.velocity, alpha=learning_rate)
        self.points.append(CurvePoint(iteration, loss, self._metric(iteration), **figures))
        return ""

    def _metric(self, iteration: int) -> float:
        """The metric on held-out samples after every `evaluate_every` iterations and at the end; otherwise NaN."""
        due = (iteration + 1) % self.spec.evaluate_every == 0 or iteration + 1 == self.spec.iterations
        if self.task.evaluate is None or not due:
            return math.nan
        self.task.model.train(False)
        with torch.no_grad():
            value = float(self.task.evaluate(self.task.model))
        self.task.model.train()
        return value if math.isfinite(value) else math.nan

    def content(self) -> Mapping[str, Any]:
        """All that the rest of the training depends on."""
        own = self.workers.velocity
        return {
            "points": [list(astuple(point)) for point in self.points],
            "weights": self.workers.weights.cpu().numpy(),
            "velocity": self.velocity.cpu().numpy(),
            "workers": None if own is None else own.cpu().numpy(),
            "buffers": {name: item.cpu().numpy() for name, item in self.task.model.named_buffers()},
            "method": self.exchange.state,
        }

    def resume(self, content: Mapping[str, Any] | None) -> None:
        """Continue from a checkpoint; the batches that were used are skipped."""
        if content is None:
            return
        self.points = [CurvePoint(*values) for values in content["points"]]
        self.workers.weights.copy_(torch.from_numpy(content["weights"]))
        self.velocity.copy_(torch.from_numpy(content["velocity"]))
        if content["workers"] is not None:
            self.workers.velocity = torch.from_numpy(content["workers"]).to(self.velocity.device)
        for name, item in self.task.model.named_buffers():
            item.copy_(torch.from_numpy(content["buffers"][name]))
        self.exchange.state = content["method"]
        for batches in self.task.batches:
            for _ in range(len(self.points) * self.spec.local_steps):
                next(batches, None)

    def digest(self) -> str:
        """SHA-256 of the weights, in the order of the model's parameters."""
        return hashlib.sha256(self.workers.weights.cpu().numpy().tobytes()).hexdigest()


@contextmanager
def _reproducible(threads: int) -> Iterator[None]:
    """PyTorch with so many threads and the same bits every time; afterwards as it was."""
    before = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    filled = torch.utils.deterministic.fill_uninitialized_memory
    torch.set_num_threads(threads)
    torch.set_deterministic_debug_mode("error")
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.set_deterministic_debug_mode(before[1])
        torch.utils.deterministic.fill_uninitialized_memory = filled
