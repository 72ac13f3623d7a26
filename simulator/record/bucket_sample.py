"""The elements of a job's gradients that are recorded, taken from buckets, and put in the order of the forward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.models.layers import Layer
from simulator.record.even_sample import draw_coordinates


class BucketSample:
    """An equal share of every tensor, at positions that are the same on all ranks.

    `parameters`: the tensors by name; `device`: where they are.
    """

    def __init__(self, parameters: Mapping[str, Any], device: str, share: float, seed: int) -> None:
        self.names = {id(parameter): name for name, parameter in parameters.items()}
        self.layers = {name: Layer(name=name, numel=item.numel()) for name, item in parameters.items()}
        places, weights = draw_coordinates(tuple(self.layers.values()), share, seed)
        self._own: dict[str, tuple[Ints, Floats]] = {}
        self._kept: dict[str, Any] = {}
        start = 0
        for name, layer in self.layers.items():
            first, end = np.searchsorted(places, (start, start + layer.numel))
            own = places[first:end] - start
            self._own[name] = own, weights[first:end]
            self._kept[name] = torch.from_numpy(own).to(device) if len(own) < layer.numel else None
            start += layer.numel

    def of_bucket(self, bucket: Any) -> Mapping[str, Any]:
        """The recorded elements of every tensor of a bucket, copied."""
        made = {}
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
            name = self.names[id(parameter)]
            flat, kept = gradient.detach().reshape(-1), self._kept[name]
            made[name] = flat.clone() if kept is None else flat.index_select(0, kept)
        return made

    def coordinates(self, layers: Sequence[Layer]) -> tuple[Ints, Floats]:
        """Recorded positions in the flat vector of these layers, in their order, and the elements each stands for."""
        places, weights, start = [], [], 0
        for layer in layers:
            own, weight = self._own[layer.name]
            places.append(start + own)
            weights.append(weight)
            start += layer.numel
        return np.concatenate(places), np.concatenate(weights)
