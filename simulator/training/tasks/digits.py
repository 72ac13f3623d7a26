"""Scikit-learn's 8x8 digits: mini-batches for every worker, and held-out samples."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch.nn import functional as F

from simulator.errors import InputError, Problem

licence = "UCI Optical Recognition of Handwritten Digits, CC BY 4.0, as shipped with scikit-learn"
metric, better = "accuracy", "higher"
HELD_OUT = 5
"""Every fifth of the 1,797 samples is held out."""
NOISE = 0.1


@lru_cache(maxsize=1)
def samples() -> tuple[np.ndarray, np.ndarray]:
    """Images (1797, 8, 8), from 0 to 1, and their digits. Raises InputError where scikit-learn is missing."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        hint = 'it comes with the extra: pip install "sparsim[train]"'
        raise InputError(Problem("digits", "scikit-learn", "no module named sklearn", hint)) from None
    data = load_digits()
    return (data.images / 16).astype(np.float32), data.target


def batches(worker: int, workers: int, batch_size: int, seed: int) -> Iterator[Any]:
    """Endless (images, digits) of one worker: its part of every epoch, moved by up to one pixel, with noise.

    All workers shuffle an epoch alike, and each takes every n-th sample of it.
    """
    images, digits = samples()
    places = np.flatnonzero(np.arange(len(images)) % HELD_OUT)
    windows = sliding_window_view(np.pad(images, ((0, 0), (1, 1), (1, 1))), (8, 8), axis=(1, 2))
    random = np.random.default_rng([seed, 1, worker])
    queue, epoch = np.empty(0, dtype=int), 0
    while True:
        while len(queue) < batch_size:
            order = np.random.default_rng([seed, 0, epoch]).permutation(places)
            queue, epoch = np.concatenate([queue, order[worker::workers]]), epoch + 1
        now, queue = queue[:batch_size], queue[batch_size:]
        down, right = random.integers(3, size=(2, batch_size))
        moved = windows[now, down, right] + NOISE * random.standard_normal((batch_size, 8, 8), dtype=np.float32)
        yield torch.from_numpy(moved[:, None].astype(np.float32)), torch.from_numpy(digits[now])


def loss(model: Any, batch: Any) -> Any:
    """Cross-entropy in nats, mean over the batch."""
    return F.cross_entropy(model(batch[0]), batch[1])


def evaluate(model: Any) -> float:
    """Share of the held-out samples whose digit is recognised."""
    images, digits = samples()
    held_out = np.arange(len(images)) % HELD_OUT == 0
    device = next(model.parameters()).device
    guess = model(torch.from_numpy(images[held_out][:, None]).to(device)).argmax(1).cpu().numpy()
    return float((guess == digits[held_out]).mean())
