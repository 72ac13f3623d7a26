"""An LSTM on generated text, or on any text file: 86,848 parameters at width 96."""

from __future__ import annotations

from torch import Tensor, nn

from simulator.training.tasks.text import batches, better, evaluate, licence, loss, metric, tokens

__all__ = ["batches", "better", "evaluate", "licence", "loss", "metric", "model"]

batch_size, learning_rate = 8, 1.0


class LstmModule(nn.Module):
    """An embedding, LSTM layers of the same width, and a linear layer."""

    def __init__(self, vocabulary: int, width: int, depth: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.memory = nn.LSTM(width, width, depth, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens (batch, length) to logits (batch, length, vocabulary)."""
        return self.head(self.memory(self.token(x))[0])


def model(width: int = 96, depth: int = 1, text: str = "", vocabulary: int = 64) -> nn.Module:
    """`depth` layers of `width`; of a text file the vocabulary is its characters."""
    return LstmModule(tokens(text, vocabulary)[1], width, depth)
