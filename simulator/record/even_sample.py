"""A sample of even chances: the same share of every tensor, drawn before anything is known of its gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from simulator.errors import Problem, format_value
from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.models.layers import Layer

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
