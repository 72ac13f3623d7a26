"""Regression on a smooth generated function, by a GELU network with layer norm."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

batch_size, learning_rate, vectorised = 64, 0.05, True


def model() -> nn.Module:
    """36,740 parameters."""
    first = [nn.Linear(20, 128), nn.GELU(), nn.LayerNorm(128)]
    second = [nn.Linear(128, 128), nn.GELU(), nn.LayerNorm(128)]
    return nn.Sequential(*first, *second, nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 4))


def batches(worker: int, workers: int, batch_size: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs (batch, 20) and noisy targets (batch, 4) of one worker."""
    fixed = np.random.default_rng(3)
    inner, outer = fixed.standard_normal((20, 12)) / 4, fixed.standard_normal((12, 4)) / 2
    random = np.random.default_rng([seed, workers, worker])
    while True:
        x = random.standard_normal((batch_size, 20))
        y = np.sin(2 * x @ inner) @ outer + 0.1 * random.standard_normal((batch_size, 4))
        yield torch.tensor(x).float(), torch.tensor(y).float()


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Mean squared error."""
    return F.mse_loss(model(batch[0]), batch[1])
