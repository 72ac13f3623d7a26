"""Gradients that go to the disk while they come: all, a sample of even chances, or one drawn after a look at them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from simulator.errors import Problem, format_value
from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.models.gradients import Block, Values
from simulator.models.layers import Layer
from simulator.records import Record
from simulator.traces.format.trace import TraceSpec
from simulator.traces.format.writer import TraceWriter
from simulator.traces.sampling import Sampling

LARGEST = 2
"""Of a sample, the largest gradient of the pilot is stored below 2^LARGEST: float16 holds 2^14 times as much, and has
all bits of gradients down to 2^-16 of the largest, far below what adds up to a selected element."""


class Recording(Record):
    """Where the gradients of a training are recorded, and which: without `sampling` all of them."""

    folder: Path
    sampling: Sampling | None = None


class GradientStream:
    """Writes the gradients of n workers as a trace, iteration by iteration, with one iteration in memory.

    `spec`: what trace.yaml says; `layers` and `shapes` of the tensors, in the order of the flat vector of d elements.
    With `sampling`, the first iterations are not recorded: they show how large gradients are, and after them the sample
    is drawn. Without it, and without `places` (positions in the flat vector, with the elements that each stands for),
    all coordinates are recorded.
    """

    def __init__(
        self,
        folder: Path | str,
        spec: TraceSpec,
        layers: Sequence[Layer],
        *,
        shapes: Sequence[tuple[int, ...]],
        sampling: Sampling | None = None,
        places: tuple[Ints, Floats] | None = None,
    ) -> None:
        self.folder, self.spec, self.layers, self.sampling = Path(folder), spec, tuple(layers), sampling
        self.numels = tuple(layer.numel for layer in layers)
        self.shapes = tuple(shapes)
        self.iterations: list[int] = []
        self._losses: dict[int, float] = {}
        self._squares: Floats | None = None
        self._looked, self._largest = 0, 0.0
        self._writer: TraceWriter | None = None
        if sampling is None:
            d = sum(self.numels)
            self._begin(*((np.arange(d), np.ones(d)) if places is None else places))

    @property
    def looking(self) -> bool:
        """Whether the pilot goes on, for which `append` needs all coordinates."""
        return self._writer is None

    def append(self, values: Values, iteration: int, loss: float = math.nan) -> None:
        """Add the gradients of one iteration: (n, d), or only those at the coordinates that are recorded, (n, m).

        Values that are not finite must have been left out.
        """
        if self._writer is None:
            self._look(values)
            return
        kept = values if values.shape[1] == len(self.coordinate) else values[:, self.coordinate]
        self._writer.append(Block(kept, self._piece, self.coordinate, self.weight, self.numels, iteration, self.shapes))
        self.iterations.append(iteration)
        if math.isfinite(loss):
            self._losses[iteration] = float(f"{loss:.6g}")

    def close(self, layers: Sequence[Layer] = ()) -> None:
        """Finish the trace; `layers`: the same tensors with times that are known only now.

        Raises SparsimError where nothing was recorded, for instance within the pilot.
        """
        writer = self._writer or TraceWriter(self.folder, self.spec, self.layers)
        writer.layers = tuple(layers) or self.layers
        writer.spec = self.spec.model_copy(update={"loss": self._losses})
        writer.close()

    def _look(self, values: Values) -> None:
        if self._squares is None:
            self._squares = np.zeros(values.shape[1])
        for row in values:
            self._squares += np.square(row, dtype=float)
        self._largest = max(self._largest, float(np.abs(values).max()))
        self._looked += 1
        if self.sampling is not None and self._looked == self.sampling.pilot:
            size = np.sqrt(self._squares / (self._looked * len(values)))
            self._squares = None
            scale = 2.0 ** (LARGEST - math.frexp(self._largest)[1]) if self._largest else 1.0
            about = {
                "sampling": self.sampling.described(),
                "gradient_scale": min(1e30, max(1e-30, scale)),
                "mantissa_bits": self.sampling.mantissa_bits,
            }
            self.spec = self.spec.model_copy(update=about)
            self._begin(*self.sampling.draw(size, self.numels))

    def _begin(self, coordinate: Ints, weight: Floats) -> None:
        self.coordinate, self.weight = coordinate, weight
        self._piece = np.searchsorted(np.cumsum(self.numels), coordinate, side="right")
        self._writer = TraceWriter(
            self.folder, self.spec, self.layers, "float32" if self.sampling is None else "float16"
        )


WHOLE = 64
"""Tensors of at most so many elements are recorded whole; of larger ones at least so many elements are."""


def draw_coordinates(layers: Sequence[Layer], sample: float, seed: int) -> tuple[Ints, Floats]:
    """Positions in the flat vector, drawn in every tensor, and the elements that each represents."""
    random = np.random.default_rng(seed)
    places, weights, start = [], [], 0
    for layer in layers:
        count = min(layer.numel, max(WHOLE, round(sample * layer.numel)))
        kept = np.sort(random.choice(layer.numel, count, replace=False, shuffle=False))
        places.append(start + (kept if count < layer.numel else np.arange(layer.numel)))
        weights.append(np.full(count, layer.numel / count))
        start += layer.numel
    return np.concatenate(places), np.concatenate(weights)


def describe_sample(share: float, seed: int) -> str:
    """What trace.yaml says of a sample of even chances."""
    held = f"the share {share:g} of each tensor, but at least {WHOLE} elements or all of them"
    return f"uniform without replacement, seed {seed}, the same for all workers and iterations: {held}"


def find_share_problems(where: str, share: float, every: int, block: int) -> list[Problem]:
    """What is wrong with a share of the elements, or with the `block` of every so many iterations that are recorded."""
    made = []
    if not 0 < share <= 1:
        made.append(Problem(f"{where}: sample", "above 0, at most 1", format_value(share)))
    if not 1 <= block <= every:
        made.append(Problem(f"{where}: block", f"a number from 1 to every = {every}", format_value(block)))
    return made


class TensorSample:
    """The elements of each tensor that are recorded: those at `coordinate` (m,) of the flat vector of `layers`.

    `weight`: the elements that each stands for (m,). `parameters`: the tensors by name.
    """

    def __init__(
        self, layers: Sequence[Layer], parameters: Mapping[str, Any], coordinate: Ints, weight: Floats
    ) -> None:
        self._own: dict[str, tuple[Ints, Floats]] = {}
        self._kept: dict[str, Any] = {}
        start = 0
        for layer in layers:
            first, end = np.searchsorted(coordinate, (start, start + layer.numel))
            own = coordinate[first:end] - start
            self._own[layer.name] = own, weight[first:end]
            kept = torch.from_numpy(own).to(parameters[layer.name].device)
            self._kept[layer.name] = kept if len(own) < layer.numel else None
            start += layer.numel

    def of(self, name: str, gradient: Any) -> Any:
        """The recorded elements of the gradient of a tensor, copied."""
        flat, kept = gradient.reshape(-1), self._kept[name]
        return flat.clone() if kept is None else flat.index_select(0, kept)

    def count(self, name: str) -> int:
        """How many elements of a tensor are recorded."""
        return len(self._own[name][0])

    def coordinates(self, layers: Sequence[Layer]) -> tuple[Ints, Floats]:
        """Recorded positions in the flat vector of these layers, in their order, and the elements each stands for."""
        places, weights, start = [], [], 0
        for layer in layers:
            own, weight = self._own[layer.name]
            places.append(start + own)
            weights.append(weight)
            start += layer.numel
        return np.concatenate(places), np.concatenate(weights)
