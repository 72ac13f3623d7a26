"""ResNet-14 on scikit-learn's digits: 174,778 parameters at width 16."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from simulator.training.tasks.digits import batches, better, evaluate, licence, loss, metric

__all__ = ["batches", "better", "evaluate", "licence", "loss", "metric", "model"]

batch_size, learning_rate = 8, 0.05
vectorised = True


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with group norm and a shortcut, which is projected where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.GroupNorm(4, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.GroupNorm(4, outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, inputs, h, w) to (batch, outputs, h / stride, w / stride)."""
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


def model(width: int = 16) -> nn.Module:
    """A convolution, six residual blocks of `width`, twice and four times as many channels, and a linear layer.

    These are the 6 * 2 + 2 layers of He et al. (CVPR 2016, section 4.2), with group norm (Wu and He, ECCV 2018) instead
    of batch norm: it has no running statistics, which would differ between workers.
    """
    stem = [nn.Conv2d(1, width, 3, 1, 1, bias=False), nn.GroupNorm(4, width), nn.ReLU()]
    stages = [ResidualBlock(width, width, 1), ResidualBlock(width, width, 1)]
    for inputs in (width, 2 * width):
        stages += [ResidualBlock(inputs, 2 * inputs, 2), ResidualBlock(2 * inputs, 2 * inputs, 1)]
    return nn.Sequential(*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 10))
