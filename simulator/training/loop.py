"""The closed loop: gradients go through the method and change the weights, and weights change the gradients."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import torch

from simulator.errors import InputError, Problem
from simulator.loading.documents import read_document
from simulator.loading.problems import validate_document
from simulator.scenario.versions import versions
from simulator.training.checkpoints import CHECKPOINT_FILE, read_checkpoint, write_checkpoint
from simulator.training.exchange import Exchange
from simulator.training.gradients import Workers
from simulator.training.options import TrainingOptions
from simulator.training.runs import (
    TRAINING_FILE,
    CurvePoint,
    TrainingRun,
    TrainingSpec,
    read_run,
    write_curve,
    write_spec,
)
from simulator.training.task import Task, load_task

Observe = Callable[[int], None]


def train(
    options: TrainingOptions,
    out: Path | str,
    *,
    device: str = "cpu",
    threads: int = 1,
    checkpoint_every: int = 100,
    observe: Observe | None = None,
) -> TrainingRun:
    """Train with the method in the loop into the folder `out`; a training that was interrupted continues.

    `threads`: of the processor. The same options give the same bytes again on the same machine with the same number of
    threads and versions, also after an interruption. `checkpoint_every`: iterations between two checkpoints, which are
    removed at the end. `observe` is called with the number of finished iterations, at the start too. A loss or
    gradient that is not finite ends the training; `stopped` then says when, and what was done is kept.

    Raises InputError for a task that cannot be trained, and where the folder holds another training.
    """
    folder = Path(out)
    with _reproducible(threads):
        task = load_task(options, device)
        loop = _Loop(options, task)
        spec = _spec_of(options, task, loop)
        known = _known_spec(folder, spec)
        if known is not None and known.weights:
            return read_run(folder)
        write_spec(folder, spec)
        loop.resume(read_checkpoint(folder))
        if observe is not None:
            observe(len(loop.points))
        stopped = ""
        while len(loop.points) < options.iterations and not stopped:
            stopped = loop.step()
            if observe is not None:
                observe(len(loop.points))
            if len(loop.points) % checkpoint_every == 0 and not stopped:
                write_curve(folder, loop.points)
                write_checkpoint(folder, loop.content())
    write_curve(folder, loop.points)
    write_spec(folder, spec.model_copy(update={"weights": loop.digest(), "stopped": stopped}))
    (folder / CHECKPOINT_FILE).unlink(missing_ok=True)
    return read_run(folder)


class _Loop:
    """The state of a training between two iterations."""

    def __init__(self, options: TrainingOptions, task: Task) -> None:
        self.options, self.task = options, task
        self.workers = Workers(task, options.workers, options.precision)
        self.exchange = Exchange(
            options.sparsifier, self.workers.shapes, options.workers, error_feedback=options.error_feedback
        )
        self.velocity = torch.zeros_like(self.workers.weights)
        self.points: list[CurvePoint] = []

    def step(self) -> str:
        """One iteration; why it could not be done, or nothing."""
        options, iteration = self.options, len(self.points)
        torch.manual_seed(int(np.random.SeedSequence([options.seed, iteration]).generate_state(1, np.uint64)[0] // 2))
        if options.local_steps > 1:
            values, losses = self.workers.differences(options.local_steps, self.task.learning_rate, options.momentum)
            learning_rate, momentum = options.outer_learning_rate, options.outer_momentum
        else:
            values, losses = self.workers.gradients()
            learning_rate = self.task.learning_rate
            momentum = 0.0 if getattr(options.sparsifier, "momentum", 0.0) else options.momentum
        loss = math.fsum(losses) / len(losses)
        if not (math.isfinite(loss) and bool(torch.isfinite(values).all())):
            return f"iteration {iteration}: the loss or a gradient is not finite"
        mean, figures = self.exchange.run(values.cpu().numpy(), iteration)
        if not all(map(math.isfinite, figures.values())):
            return f"iteration {iteration}: a residual is not finite"
        self.velocity.mul_(momentum).add_(torch.from_numpy(mean).to(self.velocity.device))
        self.workers.weights.sub_(self.velocity, alpha=learning_rate)
        self.points.append(CurvePoint(iteration, loss, self._metric(iteration), **figures))
        return ""

    def _metric(self, iteration: int) -> float:
        """The metric on held-out samples after every `evaluate_every` iterations and at the end; otherwise NaN."""
        due = (iteration + 1) % self.options.evaluate_every == 0 or iteration + 1 == self.options.iterations
        if self.task.evaluate is None or not due:
            return math.nan
        self.task.model.eval()
        with torch.no_grad():
            value = float(self.task.evaluate(self.task.model))
        self.task.model.train()
        return value if math.isfinite(value) else math.nan

    def content(self) -> dict[str, Any]:
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

    def resume(self, content: dict[str, Any] | None) -> None:
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
            for _ in range(len(self.points) * self.options.local_steps):
                next(batches, None)

    def digest(self) -> str:
        """SHA-256 of the weights, in the order of the model's parameters."""
        return hashlib.sha256(self.workers.weights.cpu().numpy().tobytes()).hexdigest()


def _spec_of(options: TrainingOptions, task: Task, loop: _Loop) -> TrainingSpec:
    return TrainingSpec(
        **options.model_dump(exclude={"batch_size", "learning_rate"}),
        batch_size=task.batch_size,
        learning_rate=task.learning_rate,
        metric=task.metric,
        better=task.better,
        elements=sum(loop.workers.numels),
        versions=versions() | {"torch": str(torch.__version__)},
        source=f"trained by `sparsim train`; data: {task.licence or 'not stated'}",
    )


def _known_spec(folder: Path, spec: TrainingSpec) -> TrainingSpec | None:
    """The training in the folder; None where there is none. Raises InputError where it is another one."""
    place = folder / TRAINING_FILE
    if not place.is_file():
        return None
    known = validate_document(TrainingSpec.model_validate, read_document(place))
    ours, theirs = (item.model_dump(mode="json") for item in (spec, known))
    other = [name for name in TrainingOptions.model_fields if ours[name] != theirs[name]]
    hint = "use another folder, or remove this one"
    if other:
        raise InputError([Problem(f"{place}: {name}", str(ours[name]), str(theirs[name]), hint) for name in other])
    return known


@contextmanager
def _reproducible(threads: int) -> Iterator[None]:
    """PyTorch with so many threads and the same bits every time; afterwards as it was."""
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    filled = torch.utils.deterministic.fill_uninitialized_memory
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])
        torch.utils.deterministic.fill_uninitialized_memory = filled
