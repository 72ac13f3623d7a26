"""A small decoder-only transformer on generated text, or on any text file: 109,184 parameters at width 64, depth 2."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.training.tasks.text import LENGTH, batches, better, evaluate, licence, loss, metric, tokens

__all__ = ["batches", "better", "evaluate", "licence", "loss", "metric", "model"]

batch_size, learning_rate = 8, 0.1
vectorised = True
_HEADS = 4


class DecoderBlock(nn.Module):
    """Pre-norm block: causal self-attention, then a GELU network four times as wide, both residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width, bias=False)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, length, width) to the same shape."""
        batch, length, width = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, _HEADS, width // _HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        # Not `scaled_dot_product_attention`, for which vmap has no rule on a processor.
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        likeness = (query @ key.transpose(2, 3) / (width // _HEADS) ** 0.5).masked_fill(later, -torch.inf)
        attended = likeness.softmax(3) @ value
        x = x + self.proj(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """Decoder-only transformer with learned token and position embeddings and a head of its own."""

    def __init__(self, vocabulary: int, width: int, depth: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(LENGTH, width)
        nn.init.normal_(self.token.weight, std=0.1)
        nn.init.normal_(self.position.weight, std=0.1)
        self.blocks = nn.Sequential(*(DecoderBlock(width) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens (batch, length) to logits (batch, length, vocabulary)."""
        return self.head(self.norm(self.blocks(self.token(x) + self.position.weight)))


def model(width: int = 64, depth: int = 2, text: str = "", vocabulary: int = 64) -> nn.Module:
    """`depth` blocks of `width`, a multiple of 4; of a text file the vocabulary is its characters."""
    return Decoder(tokens(text, vocabulary)[1], width, depth)
