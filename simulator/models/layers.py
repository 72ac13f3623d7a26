"""The workload: what is trained, as a list of parameter tensors with their sizes and times."""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np
from pydantic import Field

from simulator.component import Spec, expected
from simulator.models.curves import Floats
from simulator.units import Seconds

VALUE_BYTES = 4
"""Bytes of one fp32 gradient element."""


class Layer(Spec):
    """One parameter tensor: its size, and the seconds of forward and backward until its gradient is ready."""

    name: str
    numel: int = Field(ge=1, le=10**12)
    forward: Seconds = 0.0
    backward: Seconds = 0.0


class Workload(Spec):
    """A model at a batch size: tensors in forward order, times of one step on one GPU."""

    name: str = "unnamed"
    batch_size: int = Field(ge=1)
    device: str = ""
    source: str = ""
    input_time: Seconds = 0.0
    layers: tuple[Layer, ...] = Field(min_length=1)

    @cached_property
    def numels(self) -> Floats:
        """Elements per tensor in forward order, (L,)."""
        return np.array([layer.numel for layer in self.layers], dtype=float)

    @cached_property
    def numel(self) -> int:
        """Elements of the whole gradient, d."""
        return sum(layer.numel for layer in self.layers)

    @cached_property
    def forward_time(self) -> float:
        """Seconds of one forward pass."""
        return sum(layer.forward for layer in self.layers)

    @cached_property
    def backward_time(self) -> float:
        """Seconds of one backward pass."""
        return sum(layer.backward for layer in self.layers)

    def rescaled(self, batch_size: int | None, compute_time: float | None) -> Self:
        """The same model at a known single-GPU step: forward and backward stretched to sum to `compute_time`.

        Without `compute_time`, times grow in proportion to the batch. Raises an expected-error when the profile has no
        times to stretch.
        """
        batch = batch_size or self.batch_size
        total = self.forward_time + self.backward_time
        if compute_time is not None:
            if total <= 0:
                raise expected("a workload with times to rescale", "forward and backward all 0")
            factor = compute_time / total
        else:
            factor = batch / self.batch_size
        layers = tuple(
            Layer.model_construct(
                name=layer.name,
                numel=layer.numel,
                forward=layer.forward * factor,
                backward=layer.backward * factor,
            )
            for layer in self.layers
        )
        return self.model_copy(update={"batch_size": batch, "layers": layers})
