"""The workload: the model that is trained, as a list of parameter tensors with their sizes and times."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from simulator.component import Spec, expected
from simulator.models.curves import Floats
from simulator.models.optimisers import NamedOptimiser, Optimiser
from simulator.models.precision import FP32, NumberFormat, PrecisionField
from simulator.models.rows import Rows
from simulator.units import Ratio, Seconds

MAX_BATCH = 10**9


class Layer(Spec):
    """One parameter tensor: its size, and the seconds of forward and backward until its gradient is ready.

    - `name`: of the tensor.
    - `numel`: elements.
    - `forward`: seconds of its share of the forward pass.
    - `backward`: seconds from the gradient that was ready before it to its own.
    - `rows`: of an embedding, what its gradient consists of; none: the gradient is dense. `dense` sends rows with
      `indexed_slices: true`.
    """

    name: str
    numel: int = Field(ge=1, le=10**12)
    forward: Seconds = 0.0
    backward: Seconds = 0.0
    rows: Rows | None = None

    @model_validator(mode="after")
    def _check_rows(self) -> Self:
        if self.rows is not None and self.numel % self.rows.width:
            hint = f"an embedding of {self.numel} elements has whole rows"
            raise expected(f"a width that divides {self.numel}", self.rows.width, hint)
        return self


class Workload(Spec):
    """A model at a batch size: tensors in forward order, with the times of one iteration on one GPU.

    `compute_time`: the measured iteration of one GPU (forward, backward, update), if it is known; the times of the
    layers are then only proportions. `input_time`: seconds for which an iteration waits for its data. `gradients`: the
    folder of a recorded gradient trace of this model, if there is one; methods are then replayed on it.

    `optimiser`: how its weights are updated: a kind, such as `adamw`, or a mapping. On one GPU by itself the host calls
    it while the backward pass runs, but only after the exchange where there is one (seconds per call: the runtime's
    `update_launch`). `compute_slowdown`: how much slower this model's kernels run while a collective is running, where
    it was measured for this model; none: the runtime's.

    The times are those of the precision that they were measured in, `measured_precision`; `precision` is that of the
    training.

    - `name`: of the model.
    - `batch_size`: samples per worker and iteration.
    - `device`: GPU on which the times were measured.
    - `source`: of sizes and times.
    - `layers`: parameter tensors in forward order, or the CSV file that holds them.
    """

    name: str = "unnamed"
    batch_size: int = Field(ge=1, le=MAX_BATCH)
    device: str = ""
    source: str = ""
    compute_time: Seconds | None = None
    input_time: Seconds = 0.0
    optimiser: NamedOptimiser = Optimiser()
    compute_slowdown: Ratio | None = None
    gradients: str = ""
    precision: PrecisionField = FP32
    measured_precision: NumberFormat = "fp32"
    layers: Annotated[
        tuple[Layer, ...],
        Field(min_length=1),
        # In a file: the name of a CSV file with the same columns, which is read before this spec is validated.
        BeforeValidator(lambda value: value, json_schema_input_type=str | tuple[Layer, ...]),
    ]

    @cached_property
    def numels(self) -> Floats:
        """Elements per tensor in forward order, (L,)."""
        return np.array([layer.numel for layer in self.layers], dtype=float)

    @cached_property
    def numel(self) -> int:
        """Elements of the whole gradient, d."""
        return sum(layer.numel for layer in self.layers)

    @cached_property
    def begins_module(self) -> tuple[bool, ...]:
        """Whether each layer, in forward order, is the first tensor of its module: names up to the last dot differ."""
        modules = [layer.name.rpartition(".")[0] or layer.name for layer in self.layers]
        return tuple(i == 0 or module != modules[i - 1] for i, module in enumerate(modules))

    @cached_property
    def forward_time(self) -> float:
        """Seconds of one forward pass."""
        return math.fsum(layer.forward for layer in self.layers)

    @cached_property
    def backward_time(self) -> float:
        """Seconds of one backward pass."""
        return math.fsum(layer.backward for layer in self.layers)

    def rescaled(self, batch_size: int) -> Self:
        """The same model at another batch size, its times and rows of embeddings in proportion to the batch."""
        return self._times(batch_size / self.batch_size, batch_size)

    def stretched(self, update_time: float) -> Self:
        """The workload whose forward, backward and update sum to `compute_time`, if that is known.

        Raises an expected-error if the layers have no times, or if the update alone takes longer.
        """
        if self.compute_time is None:
            return self
        total = self.forward_time + self.backward_time
        if total <= 0:
            raise expected("a workload with times to rescale", "forward and backward all 0")
        if self.compute_time <= update_time:
            hint = "compute_time is the whole iteration of one GPU: forward, backward and update"
            raise expected(f"a compute_time above the update's {update_time:.3g} s", f"{self.compute_time:.3g} s", hint)
        return self._times((self.compute_time - update_time) / total, self.batch_size)

    def _times(self, factor: float, batch_size: int) -> Self:
        more = batch_size / self.batch_size
        layers = tuple(
            Layer.model_construct(
                name=layer.name,
                numel=layer.numel,
                forward=layer.forward * factor,
                backward=layer.backward * factor,
                rows=layer.rows and layer.rows.model_copy(update={"count": layer.rows.count * more}),
            )
            for layer in self.layers
        )
        return self.model_copy(update={"batch_size": batch_size, "layers": layers})
