"""A tanh autoencoder of scikit-learn's 8x8 digits, through 16 units."""

from torch import Tensor, nn
from torch.nn import functional as F

from simulator.training.tasks.digits import batches

__all__ = ["batches", "loss", "model"]
batch_size, learning_rate, vectorised = 16, 0.2, True


def model() -> nn.Module:
    """26,000 parameters."""
    narrow = [nn.Linear(64, 160), nn.Tanh(), nn.Linear(160, 16), nn.Tanh()]
    return nn.Sequential(nn.Flatten(), *narrow, nn.Linear(16, 160), nn.Tanh(), nn.Linear(160, 64))


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Mean squared error of the pixels."""
    return F.mse_loss(model(batch[0]), batch[0].flatten(1))
