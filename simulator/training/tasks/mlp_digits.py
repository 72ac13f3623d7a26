"""A perceptron with two hidden layers on scikit-learn's digits: 26,122 parameters at width 128."""

from torch import nn

from simulator.training.tasks.digits import LICENCE as licence
from simulator.training.tasks.digits import digit_accuracy as evaluate
from simulator.training.tasks.digits import digit_batches as batches
from simulator.training.tasks.digits import digit_loss as loss

__all__ = ["batches", "evaluate", "licence", "loss", "model"]

metric, better = "accuracy", "higher"
batch_size, learning_rate = 8, 0.05
vectorised = True


def model(width: int = 128) -> nn.Module:
    """64 -> width -> width -> 10, with ReLU."""
    hidden = [nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(width, 10))
