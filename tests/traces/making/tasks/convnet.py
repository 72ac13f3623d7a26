"""Two convolutions without norm on scikit-learn's 8x8 digits."""

from torch import nn

from simulator.training.tasks.digits import batches, loss

__all__ = ["batches", "loss", "model"]
batch_size, learning_rate, vectorised = 16, 0.03, True


def model() -> nn.Module:
    """38,282 parameters."""
    convolutions = [nn.Conv2d(1, 16, 3, 1, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()]
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10))
