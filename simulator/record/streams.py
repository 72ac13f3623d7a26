"""Gradients that go to the disk while they come: all, a sample of even chances, or one drawn after a look at them."""

from __future__ import annotations

import datetime
import math
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from simulator.errors import Problem, format_value
from simulator.loading.documents import Document, validate_document
from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.models.gradients import Block, Values
from simulator.models.layers import Layer
from simulator.record.environment import environment
from simulator.records import replace
from simulator.traces.format.trace import TraceSpec
from simulator.traces.format.writer import TraceWriter
from simulator.traces.sampling import Sampling

LARGEST = 2
"""Of a sample, the largest gradient of the pilot is stored below 2^LARGEST: float16 holds 2^14 times as much, and has
all bits of gradients down to 2^-16 of the largest, far below what adds up to a selected element."""


class GradientStream:
    """Writes the gradients of n workers as a trace, iteration by iteration, with one iteration in memory.

    `parameters`: tensors by name; `layers`: all of them, in the order of the flat vector of d elements. `about`: fields
    of trace.yaml besides those of the machine and the sample. Of a `Sampling`, the first iterations are not recorded:
    they show how large gradients are, and after them the sample is drawn. Without a sample all is recorded.
    """

    def __init__(
        self,
        folder: Path,
        parameters: Mapping[str, Any],
        layers: Sequence[Layer],
        about: dict[str, Any],
        sample: TensorSample | Sampling | None = None,
    ) -> None:
        place = environment(str(next(iter(parameters.values())).device))
        known = {
            "format": 1,
            "framework": f"PyTorch {place.pytorch}",
            "device": place.device,
            "date": datetime.date.fromisoformat(place.date),
            "versions": {"python": platform.python_version(), "torch": place.pytorch, "numpy": np.__version__},
            "iterations": (0,),
            "source": "recorded by GradientRecorder from a training loop",
            "sampling": sample.described() if isinstance(sample, TensorSample) else "",
        }
        self.spec = validate_document(TraceSpec.model_validate, Document("GradientRecorder: about", known | about, {}))
        self.folder, self.layers, self.sampling = folder, tuple(layers), sample
        self.numels = tuple(layer.numel for layer in layers)
        self.shapes = tuple(tuple(parameters[layer.name].shape) or (1,) for layer in layers)
        self.iterations: list[int] = []
        self._losses: dict[int, float] = {}
        self._squares = np.zeros(sum(self.numels) if isinstance(sample, Sampling) else 0)
        self._looked, self._largest = 0, 0.0
        self._writer: TraceWriter | None = None
        if not isinstance(sample, Sampling):
            whole = np.arange(sum(self.numels)), np.ones(sum(self.numels))
            self._begin(*(whole if sample is None else sample.coordinates(layers)))

    def append(self, values: Values, iteration: int, loss: float = math.nan) -> None:
        """Add the gradients of one iteration: (n, d), or only those at the coordinates that are recorded, (n, m).

        Values that are not finite must have been left out.
        """
        if self._writer is None:
            self._look(values)
            return
        places = self._block.coordinate
        kept = values if values.shape[1] == len(places) else values[:, places]
        self._writer.append(replace(self._block, values=kept, iteration=iteration))
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
        for row in values:
            self._squares += np.square(row, dtype=float)
        self._largest = max(self._largest, float(np.abs(values).max()))
        self._looked += 1
        if isinstance(self.sampling, Sampling) and self._looked == self.sampling.pilot:
            size, self._squares = np.sqrt(self._squares / (self._looked * len(values))), np.zeros(0)
            scale = 2.0 ** (LARGEST - math.frexp(self._largest)[1]) if self._largest else 1.0
            about = {
                "sampling": self.sampling.described(),
                "gradient_scale": min(1e30, max(1e-30, scale)),
                "mantissa_bits": self.sampling.mantissa_bits,
            }
            self.spec = self.spec.model_copy(update=about)
            self._begin(*self.sampling.draw(size, self.numels))

    def _begin(self, coordinate: Ints, weight: Floats) -> None:
        piece = np.searchsorted(np.cumsum(self.numels), coordinate, side="right")
        none = np.empty((0, len(coordinate)), np.float32)
        self._block = Block(none, piece, coordinate, weight, self.numels, shapes=self.shapes)
        dtype: Literal["float32", "float16"] = "float16" if isinstance(self.sampling, Sampling) else "float32"
        self._writer = TraceWriter(self.folder, self.spec, self.layers, dtype)


WHOLE = 64
"""Tensors of at most so many elements are recorded whole; of larger ones at least so many elements are."""


def find_share_problems(where: str, share: float, every: int, block: int) -> list[Problem]:
    """What is wrong with a share of the elements, or with the `block` of every so many iterations that are recorded."""
    made = []
    if not 0 < share <= 1:
        made.append(Problem(f"{where}: sample", "above 0, at most 1", format_value(share)))
    if not 1 <= block <= every:
        made.append(Problem(f"{where}: block", f"a number from 1 to every = {every}", format_value(block)))
    return made


class TensorSample:
    """The recorded elements of each tensor: a share of it, drawn from a seed. `parameters`: tensors by name."""

    def __init__(self, parameters: Mapping[str, Any], share: float, seed: int) -> None:
        self.share, self.seed = share, seed
        random = np.random.default_rng(seed)
        self._places: dict[str, Ints] = {}
        self._kept: dict[str, Any] = {}
        for name, parameter in parameters.items():
            numel = parameter.numel()
            count = min(numel, max(WHOLE, round(share * numel)))
            places = np.sort(random.choice(numel, count, replace=False, shuffle=False))
            self._places[name] = places
            self._kept[name] = torch.from_numpy(places).to(parameter.device) if count < numel else None

    def of(self, name: str, gradient: Any) -> Any:
        """The recorded elements of the gradient of a tensor, copied."""
        flat, kept = gradient.reshape(-1), self._kept[name]
        return flat.clone() if kept is None else flat.index_select(0, kept)

    def row(self, values: Mapping[str, Any], layers: Sequence[Layer], scale: float) -> np.ndarray:
        """The recorded elements of these layers by name, each divided by `scale`; 0 of those that have none, (m,)."""
        parts = [
            values[layer.name].float().cpu().numpy()
            if layer.name in values
            else np.zeros(len(self._places[layer.name]), np.float32)
            for layer in layers
        ]
        row: np.ndarray = np.concatenate(parts) / np.float32(scale)
        return row

    def coordinates(self, layers: Sequence[Layer]) -> tuple[Ints, Floats]:
        """Recorded positions in the flat vector of these layers, in their order, and the elements each stands for."""
        own = [self._places[layer.name] for layer in layers]
        starts = np.cumsum([0, *(layer.numel for layer in layers[:-1])])
        weights = [np.full(len(each), layer.numel / len(each)) for layer, each in zip(layers, own, strict=True)]
        return np.concatenate([start + each for start, each in zip(starts, own, strict=True)]), np.concatenate(weights)

    def described(self) -> str:
        """What trace.yaml says of it."""
        held = f"the share {self.share:g} of each tensor, but at least {WHOLE} elements or all of them"
        return f"uniform without replacement, seed {self.seed}, the same for all workers and iterations: {held}"
