"""A perceptron with two hidden layers on scikit-learn's digits: 26,122 parameters at width 128."""

from torch import nn

from simulator.training.tasks.digits import batches, better, evaluate, licence, loss, metric

__all__ = ["batches", "better", "evaluate", "licence", "loss", "metric", "model"]

batch_size, learning_rate = 8, 0.05
vectorised = True


def model(width: int = 128) -> nn.Module:
    """64 -> width -> width -> 10, with ReLU."""
    hidden = [nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(width, 10))
