"""A sample of even chances: the same share of every tensor, drawn before anything is known of its gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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
