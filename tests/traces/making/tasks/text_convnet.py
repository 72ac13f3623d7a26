"""Dilated causal convolutions with group norm on generated text."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from simulator.training.tasks import text
from simulator.training.tasks.text import loss

__all__ = ["batches", "loss", "model"]
batch_size, learning_rate, vectorised = 8, 0.1, True
VOCABULARY, WIDTH, DEPTH = 64, 40, 4


class TextConvnet(nn.Module):
    """An embedding, residual convolutions of width 3, each reaching twice as far as the one before, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.convs = nn.ModuleList([nn.Conv1d(WIDTH, WIDTH, 3, dilation=2**i) for i in range(DEPTH)])
        self.norms = nn.ModuleList([nn.GroupNorm(1, WIDTH) for _ in range(DEPTH)])
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens (batch, length) to logits (batch, length, vocabulary)."""
        h = self.token(x).transpose(1, 2)
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            h = h + F.relu(conv(F.pad(norm(h), (2 * 2**i, 0))))
        return self.head(h.transpose(1, 2))


def model() -> nn.Module:
    """24,864 parameters."""
    return TextConvnet()


def batches(worker: int, workers: int, batch_size: int, seed: int) -> Iterator[Any]:
    """Tokens and next tokens of one worker."""
    return text.batches(worker, workers, batch_size, seed)
