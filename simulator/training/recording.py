"""The gradients of a training as a trace."""

from __future__ import annotations

from pathlib import Path

from simulator.errors import InputError, Problem
from simulator.models.layers import Layer
from simulator.record.gradients import make_spec
from simulator.record.streams import GradientStream, Recording
from simulator.training.gradients import Workers
from simulator.training.options import TrainingOptions
from simulator.training.runs import TRAINING_FILE


def begin_trace(record: Recording, folder: Path, options: TrainingOptions, workers: Workers) -> GradientStream:
    """An empty trace of a training that begins in `folder`. Raises InputError where that holds a training."""
    if (folder / TRAINING_FILE).exists():
        hint = "a recording begins with its training: use another folder, or remove this one"
        raise InputError(Problem(str(folder), "a folder without a training", TRAINING_FILE, hint))
    layers = [Layer(name=name, numel=numel) for name, numel in zip(workers.parameters, workers.numels, strict=True)]
    stated = "".join(f", {name} {value}" for name, value in options.parameters.items())
    about = {
        "model": f"{options.task}{stated}, {sum(workers.numels)} parameters",
        "batch_size": workers.task.batch_size,
        "workers": options.workers,
        "data_licence": workers.task.licence,
        "source": f"recorded by `sparsim train`: {options.model_dump_json(exclude_defaults=True)}",
    }
    spec = make_spec(str(workers.weights.device), about)
    return GradientStream(record.folder, spec, layers, shapes=workers.shapes, sampling=record.sampling)
