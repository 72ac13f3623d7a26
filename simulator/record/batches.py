"""Batches: tensors in nested lists, tuples and mappings, random ones of a stated shape, and a loss without labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from simulator.errors import InputError, Problem, format_value


def tensors_in(value: Any) -> Iterator[Any]:
    """Every tensor in nested lists, tuples, mappings and objects with fields."""
    if isinstance(value, torch.Tensor):
        yield value
        return
    if isinstance(value, Mapping):
        value = list(value.values())
    elif hasattr(value, "__dataclass_fields__"):
        value = list(vars(value).values())
    for item in value if isinstance(value, list | tuple) else ():
        yield from tensors_in(item)


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
    for item in tensors_in(batch):
        if item.ndim:
            return int(item.shape[0])
    raise InputError(Problem("the batch", "at least one tensor, samples first", format_value(type(batch).__name__)))


DEFAULT_BATCH = 8
"""Samples in a batch, where neither the model nor a person says how many."""
_SHAPE = re.compile(r"(?:(tokens):)?(\d{1,7}(?:x\d{1,7}){0,4})")
_MOST = 10**9
"""Most elements of one sample."""


def random_batches(model: Any, shape: str, batch_size: int, seed: int) -> Iterator[Any]:
    """Endless batches (batch_size, *shape) from the seed: standard normal numbers, or token ids for `tokens:128`.

    Token ids are below the number of rows of the model's first embedding. Raises InputError for anything that is not a
    shape, and for tokens where the model has no embedding.
    """
    tokens, sizes = sample_shape(shape)
    rows = 0
    if tokens:
        embeddings = [item for item in model.modules() if isinstance(item, torch.nn.Embedding)]
        if not embeddings:
            hint = "give the shape of its numbers, such as --input 3x224x224"
            raise InputError(Problem("--input", "a model with an embedding, for tokens", "none", hint))
        rows = embeddings[0].num_embeddings

    def draw(size: int, random: torch.Generator) -> Any:
        shape = (size, *sizes)
        return torch.randint(rows, shape, generator=random) if rows else torch.randn(shape, generator=random)

    return endless_batches(draw, batch_size, seed)


def endless_batches(draw: Callable[[int, torch.Generator], Any], batch_size: int, seed: int) -> Iterator[Any]:
    """Batches of so many samples without end, each by `draw` from the seed's random numbers."""
    random = torch.Generator().manual_seed(seed)
    while True:
        yield draw(batch_size, random)


def sample_shape(shape: str) -> tuple[bool, tuple[int, ...]]:
    """Whether a sample consists of tokens, and its shape. Raises InputError for anything that is not a shape."""
    match = _SHAPE.fullmatch(shape.replace(" ", ""))
    sizes = tuple(int(size) for size in match[2].split("x")) if match else ()
    if match is None or not 0 < torch.Size(sizes).numel() <= _MOST:
        raise InputError(
            Problem("--input", "the shape of one sample, such as 3x224x224 or tokens:128", format_value(shape))
        )
    return bool(match[1]), sizes


def mean_square(model: Any, batch: Any) -> Any:
    """The sum of the mean squares of all outputs: a loss that needs no labels.

    Raises InputError where the model refuses the batch, or returns no number that has a gradient.
    """
    try:
        output = model(batch)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        shape = "x".join(map(str, getattr(batch, "shape", ())))
        got = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        hint = "give the shape of one sample as --input, or a function that returns (model, inputs, loss function)"
        raise InputError(Problem("the model", f"to accept a batch of {shape or 'these inputs'}", got, hint)) from None
    losses = [item.float().square().mean() for item in tensors_in(output) if item.requires_grad]
    if not losses:
        raise InputError(Problem("the model", "outputs with gradients", type(output).__name__))
    return torch.stack(losses).sum()
