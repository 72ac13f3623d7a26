"""Train a small network with 16 data-parallel workers in one process and record their gradients as a trace.

    python tests/traces/record.py resnet|transformer OUT_DIR [--seed 0]

Needs torch, scikit-learn, pandas, pyarrow and PyYAML. Every worker has its own mini-batch and its own residual:
layer-wise Top-k at density 0.01 of gradient + residual is sent, what was sent leaves the residual, and the mean over
the workers feeds SGD with momentum 0.9 at the server. What is kept, for two blocks of consecutive iterations:

- ``gradients.parquet``: raw gradients (before the residual is added) at a fixed uniform sample of coordinates;
- ``residuals.parquet``: the residuals at the start of each block, at the same coordinates, so that replay can start;
- ``union.csv``: the union of the workers' Top-k indices, measured on the full gradients;
- ``layers.csv``, ``trace.yaml``: the tensors in forward order, and how the trace was made.
"""

import argparse
import csv
import datetime
import importlib.metadata
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import yaml
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

WORKERS, BLOCK, EARLY, DENSITY, MOMENTUM = 16, 16, 5, 0.01, 0.9
SUBSETS, COORDINATES, WHOLE = 8, 4400, 64
COLUMNS = [f"w{worker}" for worker in range(WORKERS)]
Batches = Callable[[], tuple[Tensor, Tensor]]  # inputs and targets, (workers, batch, ...)


class Residual(nn.Module):
    """Two 3x3 convolutions with batch norm and a shortcut, projected where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, inputs, h, w) to (batch, outputs, h / stride, w / stride)."""
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


class Attention(nn.Module):
    """Pre-norm decoder block: causal self-attention and a GELU network four times as wide, both residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width, bias=False)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, length, width) to the same shape."""
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """Decoder-only transformer with learned token and position embeddings and an untied head."""

    def __init__(self, vocabulary: int, length: int, width: int, depth: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(length, width)
        nn.init.normal_(self.token.weight, std=0.1)
        nn.init.normal_(self.position.weight, std=0.1)
        self.blocks = nn.Sequential(*(Attention(width, 4) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens (batch, length) to logits (batch, vocabulary, length)."""
        return self.head(self.norm(self.blocks(self.token(x) + self.position.weight))).transpose(1, 2)


def digits(batch: int, rng: torch.Generator) -> Batches:
    """Make batches of scikit-learn's 8x8 digits, shuffled every epoch, rolled by -1..1 pixel, with noise of 0.1."""
    data = load_digits()
    images = torch.tensor(data.images / 16, dtype=torch.float32).unsqueeze(1)
    labels, queue = torch.tensor(data.target), list[int]()

    def draw() -> tuple[Tensor, Tensor]:
        if len(queue) < WORKERS * batch:
            queue[:] = torch.randperm(len(labels), generator=rng).tolist()
        picked = torch.tensor([queue.pop() for _ in range(WORKERS * batch)])
        shifts = torch.randint(-1, 2, (len(picked), 2), generator=rng).tolist()
        moved = torch.stack([images[i].roll(s, (1, 2)) for i, s in zip(picked.tolist(), shifts, strict=True)])
        moved += 0.1 * torch.randn(moved.shape, generator=rng)
        return moved.unflatten(0, (WORKERS, batch)), labels[picked].unflatten(0, (WORKERS, batch))

    return draw


def language(batch: int, vocabulary: int, length: int, rng: torch.Generator) -> Batches:
    """Make sentences of a Markov chain (8 successors a token, Zipf frequencies); half of them say everything twice."""
    zipf = 1 / (5 + torch.arange(vocabulary, dtype=torch.float32))
    successors = torch.multinomial(zipf.repeat(vocabulary, 1), 8, generator=rng)
    chances = (1 / torch.arange(1, 9)).repeat(WORKERS * batch, 1)

    def draw() -> tuple[Tensor, Tensor]:
        tokens = [torch.multinomial(zipf, WORKERS * batch, True, generator=rng)]
        for _ in range(length):
            rank = torch.multinomial(chances, 1, generator=rng).squeeze(1)
            tokens.append(successors[tokens[-1], rank])
        text = torch.stack(tokens, 1)
        text[::2, length // 2 : 2 * (length // 2)] = text[::2, : length // 2]
        text = text.unflatten(0, (WORKERS, batch))
        return text[..., :-1], text[..., 1:]

    return draw


def build(name: str, rng: torch.Generator) -> tuple[nn.Module, Batches, dict[str, Any]]:
    """Return the network, its data and its settings."""
    if name == "resnet":
        stem = [nn.Conv2d(1, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
        stages = [Residual(32, 32, 1), Residual(32, 64, 2), Residual(64, 128, 2)]
        pool = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)]
        licence = "UCI Optical Recognition of Handwritten Digits, CC BY 4.0, as shipped with scikit-learn (BSD-3-Clause)"
        about = {"model": "ResNet-8 (3 residual blocks, batch norm) on scikit-learn digits", "data_licence": licence}
        settings = {"batch_size": 32, "iterations": 220, "learning_rate": 0.05}
        return nn.Sequential(*stem, *stages, *pool), digits(32, rng), about | settings
    licence = "none needed: generated by the script from the seed"
    about = {"model": "decoder-only transformer, 3 layers, width 96, on a generated language", "data_licence": licence}
    settings = {"batch_size": 16, "iterations": 300, "learning_rate": 0.2}
    return Decoder(512, 32, 96, 3), language(16, 512, 32, rng), about | settings


def select(values: Tensor, sizes: Sequence[int], density: float) -> Tensor:
    """Mark the Top-k of each row of ``values`` (workers, d) in every layer; a value of zero is never selected."""
    mask = torch.zeros_like(values, dtype=torch.bool)
    for part, chosen in zip(values.split(list(sizes), 1), mask.split(list(sizes), 1), strict=True):
        chosen.scatter_(1, part.abs().topk(max(1, round(density * part.shape[1])), 1).indices, True)
    return mask & (values != 0)


def unions(values: Tensor, sizes: Sequence[int], rng: torch.Generator) -> list[tuple[str, float, int, float, float]]:
    """Measure the union of Top-k over subsets of workers: granularity, density, workers, union / d, standard error."""
    rows = []
    orders = [torch.randperm(WORKERS, generator=rng) for _ in range(SUBSETS)]
    for granularity, parts in (("layer", sizes), ("model", [values.shape[1]])):
        for density in (0.001, 0.01, 0.1):
            mask = select(values, parts, density)
            for n in (1, 2, 4, 8, 16):
                seen = [mask[order[:n]].any(0).float().mean().item() for order in orders[: SUBSETS if n < WORKERS else 1]]
                error = statistics.stdev(seen) / len(seen) ** 0.5 if len(seen) > 1 else 0.0
                rows.append((granularity, density, n, statistics.fmean(seen), error))
    return rows


def layer_times(model: nn.Module, x: Tensor, y: Tensor) -> tuple[list[float], list[float]]:
    """Time each tensor: median gap to the previous gradient in backward; forward shared out in the same proportion."""
    parameters, ready, forward, backward = list(model.parameters()), dict[int, float](), [], []
    hooks = [p.register_post_accumulate_grad_hook(lambda p: ready.update({id(p): time.perf_counter()})) for p in parameters]
    for _ in range(30):
        start = time.perf_counter()
        loss = F.cross_entropy(model(x), y)
        ready.clear()
        last = time.perf_counter()
        forward.append(last - start)
        loss.backward()
        gaps = {}
        for key, moment in sorted(ready.items(), key=lambda item: item[1]):
            gaps[key], last = moment - last, moment
        backward.append([gaps[id(p)] for p in parameters])
    for hook in hooks:
        hook.remove()
    model.zero_grad()
    medians = np.median(backward[5:], axis=0)
    return list(statistics.median(forward[5:]) * medians / medians.sum()), list(medians)
