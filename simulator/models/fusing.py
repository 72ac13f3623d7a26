"""Groups of tensors that travel together: filled in backward order up to a limit in bytes."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.models.layers import Layer
from simulator.models.precision import FP32_BYTES

DDP_LIMITS = (2.0**20, 25 * 2.0**20)
"""Bytes at which the first bucket of PyTorch's DDP closes, and every later one (reducer.cpp, 1.7 to 2.8)."""


def fuse(layers: Sequence[Layer], limits: Sequence[float], value_bytes: int = FP32_BYTES) -> list[list[int]]:
    """Groups of tensor indices, filled in backward order; each closes at its limit in bytes (the last one repeats).

    `value_bytes`: of an element, as the limits count them.
    """
    groups: list[list[int]] = [[]]
    size = 0.0
    for layer in reversed(range(len(layers))):
        groups[-1].append(layer)
        size += value_bytes * layers[layer].numel
        if size >= limits[min(len(groups), len(limits)) - 1]:
            groups.append([])
            size = 0.0
    return [group for group in groups if group]
