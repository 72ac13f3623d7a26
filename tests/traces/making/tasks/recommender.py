"""Click prediction: six embedding tables, dot products of pairs, a perceptron on top; generated clicks, Zipf ids."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

batch_size, learning_rate, vectorised = 32, 0.3, True
ROWS, WIDTH, TABLES, DENSE = 500, 8, 6, 8


class Recommender(nn.Module):
    """Tables of ids and a perceptron of dense features, whose dot products go to another perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ParameterList([nn.Parameter(0.1 * torch.randn(ROWS, WIDTH)) for _ in range(TABLES)])
        self.bottom = nn.Sequential(nn.Linear(DENSE, 32), nn.ReLU(), nn.Linear(32, WIDTH))
        top = [nn.Linear((TABLES + 1) * TABLES // 2 + WIDTH, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU()]
        self.top = nn.Sequential(*top, nn.Linear(32, 1))

    def forward(self, dense: Tensor, ids: Tensor) -> Tensor:
        """Map features (batch, 8) and ids (batch, 6) to logits (batch,)."""
        below = self.bottom(dense)
        rows = torch.stack([below, *(F.embedding(ids[:, i], table) for i, table in enumerate(self.tables))], 1)
        first, second = torch.tril_indices(TABLES + 1, TABLES + 1, -1)
        return self.top(torch.cat([below, (rows @ rows.transpose(1, 2))[:, first, second]], 1)).squeeze(1)


def model() -> nn.Module:
    """28,585 parameters."""
    return Recommender()


def batches(worker: int, workers: int, batch_size: int, seed: int) -> Iterator[tuple[Tensor, ...]]:
    """Features, ids and clicks of one worker."""
    fixed = np.random.default_rng(7)
    effect, slope = fixed.standard_normal((TABLES, ROWS)), fixed.standard_normal(DENSE)
    chance = 1 / (3 + np.arange(ROWS))
    random = np.random.default_rng([seed, workers, worker])
    while True:
        dense = random.standard_normal((batch_size, DENSE))
        ids = random.choice(ROWS, (batch_size, TABLES), p=chance / chance.sum())
        logit = 0.5 * dense @ slope + 0.6 * effect[np.arange(TABLES), ids].sum(1)
        clicks = random.random(batch_size) < 1 / (1 + np.exp(-logit))
        yield torch.tensor(dense).float(), torch.tensor(ids), torch.tensor(clicks).float()


def loss(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
    """Cross-entropy of a click."""
    return F.binary_cross_entropy_with_logits(model(batch[0], batch[1]), batch[2])
