"""A task: the functions of a built-in one, or of a Python file that a person names."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.record.models import move_batch, trainable_parameters
from simulator.record.own_model import load_module
from simulator.records import Record
from simulator.scenario.versions import versions
from simulator.training import tasks
from simulator.trainings.options import TrainingOptions
from simulator.trainings.runs import TrainingSpec

FUNCTIONS = ("model", "batches", "loss")
_GIVEN = {"model", "worker", "workers", "batch_size", "seed", "batch"}
_HELPERS = ("digits", "text")


class TrainingTask(Record):
    """A model on its device, the batches of every worker, the loss of a batch, and the metric on held-out samples.

    `vectorised`: whether the gradients of all workers are computed by one pass under `torch.func.vmap`. `spec`: what
    training.yaml says before the training has ended.
    """

    model: Any
    batches: tuple[Iterator[Any], ...]
    loss: Callable[[Any, Any], Any]
    evaluate: Callable[[Any], float] | None
    vectorised: bool
    licence: str
    spec: TrainingSpec


def known_tasks() -> list[str]:
    """Names of the built-in tasks."""
    names = (module.name for module in pkgutil.iter_modules(tasks.__path__))
    return sorted(name.replace("_", "-") for name in names if name not in _HELPERS)


def load_task(options: TrainingOptions, device: str = "cpu") -> TrainingTask:
    """The task of a training, its model made from the seed.

    Raises InputError for an unknown task, for functions that are missing, and for parameters that no function takes.
    """
    module = _module(options.task)
    functions: dict[str, Any] = {name: getattr(module, name, None) for name in (*FUNCTIONS, "evaluate")}
    wrong = [name for name in FUNCTIONS if not callable(functions[name])]
    if wrong:
        raise InputError([Problem(options.task, f"a function `{name}`", "none") for name in wrong])
    taken = {name: inspect.signature(each).parameters for name, each in functions.items() if callable(each)}
    known = {name for names in taken.values() for name in names} - _GIVEN
    unknown = [name for name in options.parameters if name not in known]
    if unknown:
        what = "a parameter of the task's functions"
        hints = {name: suggest_nearest(name, known) for name in unknown}
        raise InputError(Problem(f"parameters.{name}", what, f"'{name}'", hint) for name, hint in hints.items())
    for place, names in taken.items():
        own = {name: value for name, value in options.parameters.items() if name in names}
        functions[place] = partial(functions[place], **own)
    make, batches, loss, evaluate = functions.values()
    torch.manual_seed(options.seed)
    model = make()
    if not isinstance(model, torch.nn.Module):
        raise InputError(Problem(f"{options.task}: model()", "a torch.nn.Module", type(model).__name__))
    licence = str(getattr(module, "licence", ""))
    spec = TrainingSpec(
        **options.model_dump(exclude={"batch_size", "learning_rate"}),
        batch_size=options.batch_size or int(getattr(module, "batch_size", 32)),
        learning_rate=options.learning_rate or float(getattr(module, "learning_rate", 0.01)),
        metric=str(getattr(module, "metric", "none" if evaluate is None else "metric")),
        better="higher" if getattr(module, "better", "higher") == "higher" else "lower",
        elements=sum(item.numel() for item in trainable_parameters(model).values()),
        versions=versions() | {"torch": str(torch.__version__)},
        source=f"trained by `sparsim record training`; data: {licence or 'not stated'}",
    )
    streams = (batches(worker, spec.workers, spec.batch_size, spec.seed) for worker in range(spec.workers))
    placed = tuple((move_batch(batch, device) for batch in stream) for stream in streams)
    return TrainingTask(
        model.to(device), placed, loss, evaluate, bool(getattr(module, "vectorised", False)), licence, spec
    )


def _module(name: str) -> ModuleType:
    known = known_tasks()
    if name in known:
        return importlib.import_module(f"{tasks.__name__}.{name.replace('-', '_')}")
    if Path(name).suffix != ".py" or not Path(name).is_file():
        hint = suggest_nearest(name, known)
        raise InputError(Problem("task", "a built-in task or a Python file", format_value(name), hint))
    return load_module(Path(name))
