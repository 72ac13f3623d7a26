"""What is trained for a recording: a built-in model by name, or one that a person names, with batches and loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from typing import Any

import torch

from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.record.batches import move_batch
from simulator.record.models import MODELS, example
from simulator.record.own_model import ACCEPTED, load_model
from simulator.record.sample_inputs import DEFAULT_BATCH, mean_square, random_batches
from simulator.records import Record


class RecordedTask(Record):
    """A model and its endless batches, both on the device, and the loss of a batch."""

    name: str
    model: Any
    batches: Iterator[Any]
    loss: Callable[[Any, Any], Any]


def task_of(name: str, device: str, batch_size: int | None = None, seed: int = 0, shape: str = "") -> RecordedTask:
    """The built-in model called `name`, or the model that `load_model` finds, with its batches and its loss.

    A model that comes without inputs gets random ones of `shape` (`3x224x224`, `tokens:128`), and one without a loss
    the mean square of its output. Inputs that come with it are a batch (a tensor, or tuples, lists and mappings of
    tensors), or an iterator of batches; the loss function is called as loss(model, batch) and returns one number.

    Raises InputError for an unknown name, a missing function, and where there are no inputs or two.
    """
    if name in MODELS:
        if shape:
            raise InputError(Problem("--input", "a model without inputs of its own", name, "leave out --input"))
        model, batches, loss = example(name, batch_size, seed)
        return _on_device(name, model, batches, loss, device)
    if ":" not in name:
        hint = suggest_nearest(name, MODELS)
        raise InputError(Problem("MODEL", f"a built-in model, {ACCEPTED}", format_value(name), hint))
    torch.manual_seed(seed)
    own = load_model(name)
    if own.inputs is None:
        shape = shape or own.input
        if not shape:
            hint = "give the shape of one sample, such as --input 3x224x224 or --input tokens:128"
            raise InputError(Problem(name, "inputs for the model", "none", hint))
        batches = random_batches(own.model, shape, batch_size or DEFAULT_BATCH, seed)
    else:
        given = [("--batch-size", batch_size)] if batch_size is not None else [("--input", shape)] if shape else []
        for option, _ in given:
            hint = "the function itself makes the batches"
            raise InputError(Problem(option, "a model without inputs of its own", name, hint))
        batches = own.inputs if isinstance(own.inputs, Iterator) else repeat(own.inputs)
    return _on_device(name, own.model, batches, own.loss or mean_square, device)


def _on_device(
    name: str, model: Any, batches: Iterator[Any], loss: Callable[[Any, Any], Any], device: str
) -> RecordedTask:
    return RecordedTask(name, model.to(device), (move_batch(batch, device) for batch in batches), loss)


def trainable_parameters(model: Any) -> Mapping[str, Any]:
    """Parameters that need a gradient, by name without prefixes of wrappers. Raises InputError where there are none."""
    found = {}
    for wrapped, parameter in model.named_parameters():
        name = wrapped.removeprefix("module.").removeprefix("_orig_mod.")
        if parameter.requires_grad and parameter.numel():
            found[name] = parameter
    if not found:
        raise InputError(Problem("the model", "parameters that need a gradient", "none"))
    return found
