"""Batches: tensors in nested lists, tuples and mappings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
