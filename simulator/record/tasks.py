"""What is trained for a recording: a built-in model by name, or what a function of the user returns."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import torch

from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.record.models import MODELS, example


@dataclass(frozen=True)
class Task:
    """A model and its endless batches, both on the device, and the loss of a batch."""

    name: str
    model: Any
    batches: Iterator[Any]
    loss: Callable[[Any, Any], Any]


def task_of(name: str, device: str, batch_size: int | None = None, seed: int = 0) -> Task:
    """The built-in model called `name`, or what the function `MODULE:FUNCTION` returns: (model, inputs, loss function).

    The inputs are a batch (a tensor, or tuples, lists and mappings of tensors), or an iterator of batches; the loss
    function is called as loss(model, batch) and returns one number. Modules are also looked for in the current folder.

    Raises InputError for an unknown name, a missing function, and for any other return value.
    """
    if name in MODELS:
        model, batches, loss = example(name, batch_size, seed)
    elif ":" in name:
        if batch_size is not None:
            raise InputError(Problem("--batch-size", "a built-in model", name, "the function itself makes the batches"))
        torch.manual_seed(seed)
        model, inputs, loss = _call_function(name)
        batches = inputs if isinstance(inputs, Iterator) else repeat(inputs)
    else:
        raise InputError(
            Problem("MODEL", "a built-in model or MODULE:FUNCTION", format_value(name), suggest_nearest(name, MODELS))
        )
    return Task(name, model.to(device), (move_batch(batch, device) for batch in batches), loss)


def _call_function(name: str) -> tuple[Any, Any, Any]:
    """The checked return value of the user's function."""
    place, _, function = name.rpartition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not (place == error.name or place.startswith(f"{error.name}.")):
            raise
        hint = "write it as for import: package.module:function"
        raise InputError(Problem(name, "a module that can be imported", f"no module {place!r}", hint)) from None
    made = getattr(module, function, None)
    if not callable(made):
        known = [item for item in vars(module) if not item.startswith("_")]
        raise InputError(
            Problem(name, f"a function of {place}", format_value(function), suggest_nearest(function, known))
        )
    result = made()
    what = f"{name}()"
    if not isinstance(result, tuple) or len(result) != 3:
        got = f"{len(result)} of them" if isinstance(result, tuple) else type(result).__name__
        raise InputError(Problem(what, "(model, inputs, loss function)", got))
    model, inputs, loss = result
    if not isinstance(model, torch.nn.Module):
        raise InputError(Problem(what, "a torch.nn.Module first", type(model).__name__))
    if not callable(loss):
        raise InputError(Problem(what, "a function loss(model, batch) third", type(loss).__name__))
    return model, inputs, loss


def move_batch(batch: Any, device: str) -> Any:
    """The batch with all of its tensors on the device."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {key: move_batch(item, device) for key, item in batch.items()}
    if isinstance(batch, list | tuple) and not hasattr(batch, "_fields"):
        return type(batch)(move_batch(item, device) for item in batch)
    return batch.to(device) if hasattr(batch, "to") else batch


def batch_size_of(batch: Any) -> int:
    """The first dimension of the first tensor in a batch. Raises InputError where there is no tensor."""
    waiting = [batch]
    while waiting:
        item = waiting.pop(0)
        if isinstance(item, torch.Tensor) and item.ndim:
            return int(item.shape[0])
        waiting = [
            *(item.values() if isinstance(item, dict) else item if isinstance(item, list | tuple) else ()),
            *waiting,
        ]
    raise InputError(Problem("the batch", "at least one tensor, samples first", format_value(type(batch).__name__)))


def trainable_parameters(model: Any) -> dict[str, Any]:
    """Parameters that need a gradient, by name without prefixes of wrappers. Raises InputError where there are none."""
    found = {}
    for wrapped, parameter in model.named_parameters():
        name = wrapped.removeprefix("module.").removeprefix("_orig_mod.")
        if parameter.requires_grad and parameter.numel():
            found[name] = parameter
    if not found:
        raise InputError(Problem("the model", "parameters that need a gradient", "none"))
    return found
