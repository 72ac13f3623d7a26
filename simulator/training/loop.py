"""The closed loop: gradients of all workers go through the method and change the weights, and so the next gradients."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.func import functional_call, vmap
from torch.utils._pytree import tree_map

from simulator.engine.refusals import as_input_error
from simulator.errors import InputError, Problem
from simulator.models.layers import Layer
from simulator.record.kernels import DTYPES
from simulator.record.models import trainable_parameters
from simulator.record.streams import GradientStream
from simulator.records import astuple
from simulator.traces.sampling import Sampling
from simulator.training.checkpoints import CHECKPOINT_FILE, read_checkpoint, write_checkpoint
from simulator.training.exchange import GradientExchange
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


class Workers:
    """n workers that train one model; its parameters become views of `weights` (d,), tensor after tensor.

    Where the task says that it is possible, one forward pass under `torch.func.vmap` and one backward pass are those of
    all workers, which saves calls of small operations (23 ms instead of 52 ms for 8 workers of ResNet-14 on one core;
    an LSTM is faster in turn); otherwise one worker follows the other. With local steps every worker has weights (n, d)
    and a momentum (n, d) of its own, which stays with it from one iteration to the next.
    """

    def __init__(self, task: TrainingTask) -> None:
        self.task, self.parameters = task, trainable_parameters(task.model)
        other = {str(item.dtype) for item in self.parameters.values()} - {"torch.float32"}
        if other:
            raise InputError(Problem("the model", "parameters of torch.float32", ", ".join(sorted(other))))
        self.shapes = tuple(tuple(item.shape) or (1,) for item in self.parameters.values())
        self.numels = [item.numel() for item in self.parameters.values()]
        self.weights = torch.cat([item.detach().reshape(-1) for item in self.parameters.values()])
        for item, part in zip(self.parameters.values(), self.weights.split(self.numels), strict=True):
            item.data = part.view_as(item)
        self.values = self.weights.new_empty(task.spec.workers, len(self.weights))
        self.velocity: Any = None
        self._precision = DTYPES[task.spec.precision]
        whole = _Whole(task)
        self._losses = vmap(lambda own, batch: functional_call(whole, own, (batch,)), randomness="different")

    def gradients(self) -> tuple[Any, list[float]]:
        """The gradients (n, d) of the next batches, rounded to the precision, and the losses."""
        losses = self._fill(self.weights)
        return self._rounded(self.values), losses

    def differences(self, steps: int, learning_rate: float, momentum: float) -> tuple[Any, list[float]]:
        """Weights before less weights after `steps` steps of SGD of each worker by itself, (n, d), and the losses."""
        if self.velocity is None:
            self.velocity = torch.zeros_like(self.values)
        own, losses = self.weights.repeat(len(self.values), 1), []
        for _ in range(steps):
            losses += self._fill(own)
            self.velocity.mul_(momentum).add_(self.values)
            own.sub_(self.velocity, alpha=learning_rate)
        return self._rounded(torch.sub(self.weights, own, out=self.values)), losses

    def _rounded(self, values: Any) -> Any:
        return values if self._precision == torch.float32 else values.to(self._precision).float()

    def _fill(self, weights: Any) -> list[float]:
        """Put the gradients at `weights` (d,), or (n, d) of each worker's own, into `values`; the losses."""
        batches = [next(batches, None) for batches in self.task.batches]
        if any(batch is None for batch in batches):
            raise InputError(Problem("batches", "an iterator that does not end", "its end", "shuffle and start again"))
        return self._fill_vectorised(weights, batches) if self.task.vectorised else self._fill_in_turn(weights, batches)

    def _fill_vectorised(self, weights: Any, batches: Sequence[Any]) -> list[float]:
        parts = weights.expand_as(self.values).split(self.numels, dim=1)
        own = {
            f"model.{name}": part.unflatten(1, tuple(item.shape) or (1,)).requires_grad_()
            for (name, item), part in zip(self.parameters.items(), parts, strict=True)
        }
        losses = self._losses(own, tree_map(lambda *items: torch.stack(items), *batches))
        self._keep(self.values, torch.autograd.grad(losses.sum(), list(own.values()), allow_unused=True))
        return [float(loss) for loss in losses.detach()]

    def _fill_in_turn(self, weights: Any, batches: Sequence[Any]) -> list[float]:
        shared, parameters, losses = self.weights.clone(), list(self.parameters.values()), []
        for worker, (row, batch) in enumerate(zip(self.values, batches, strict=True)):
            if weights.dim() == 2:
                self.weights.copy_(weights[worker])
            loss = self.task.loss(self.task.model, batch)
            self._keep(row[None], torch.autograd.grad(loss, parameters, allow_unused=True))
            losses.append(float(loss.detach()))
        self.weights.copy_(shared)
        return losses

    def _keep(self, rows: Any, found: Sequence[Any]) -> None:
        for part, gradient in zip(rows.split(self.numels, dim=1), found, strict=True):
            if gradient is None:
                part.zero_()
            else:
                part.copy_(gradient.reshape(part.shape))


class _Whole(torch.nn.Module):
    """The loss as a module, so that `functional_call` can put other weights into the model."""

    def __init__(self, task: TrainingTask) -> None:
        super().__init__()
        self.model, self.loss = task.model, task.loss

    def forward(self, batch: Any) -> Any:
        return self.loss(self.model, batch)


class _Loop:
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
