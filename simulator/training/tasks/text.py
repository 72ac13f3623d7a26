"""Text for language models: a generated language with structure, or the characters of any text file."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from simulator.errors import InputError, Problem
from simulator.loading.documents import read_text

licence = "none needed: the text is generated, or it is that of the file in `text`"
metric, better = "nats_per_token", "lower"
LENGTH = 32
"""Tokens that a model sees at once."""
TOKENS, SUCCESSORS, PHRASE = 200_000, 8, 16
HELD_OUT, HELD_OUT_TEXTS = 0.1, 64
"""The last share of the text is held out, and so many pieces of it are measured."""
MOST_BYTES = 2**26


@lru_cache(maxsize=4)
def tokens(text: str, vocabulary: int) -> tuple[np.ndarray, int]:
    """The text as whole numbers, and how many different ones there may be; without a file it is generated.

    The generated language is a Markov chain: every token has 8 possible successors, whose chances fall as 1/rank, and
    common tokens follow more often (Zipf 1949). Every other phrase of 16 tokens is said twice, so that a model with a
    memory has more to learn than the chain. It is the same for every seed of a training. Raises InputError for a file
    that is too short.
    """
    if text:
        codes = np.array([ord(letter) for letter in read_text(Path(text), MOST_BYTES)])
        if len(codes) * HELD_OUT <= LENGTH + 1:
            least = round((LENGTH + 1) / HELD_OUT) + 1
            raise InputError(Problem(f"text {text}", f"at least {least} characters", f"{len(codes)}"))
        known, places = np.unique(codes, return_inverse=True)
        return places, len(known)
    random = np.random.default_rng(0)
    common = 1.0 / (5 + np.arange(vocabulary))
    common /= common.sum()
    successors = [random.choice(vocabulary, min(SUCCESSORS, vocabulary), replace=False, p=common) for _ in common]
    chances = 1.0 / np.arange(1, len(successors[0]) + 1)
    ranks = random.choice(len(chances), TOKENS, p=chances / chances.sum()).tolist()
    said = [0]
    for rank in ranks:
        said.append(int(successors[said[-1]][rank]))
    phrases = np.array(said[: TOKENS // PHRASE * PHRASE]).reshape(-1, PHRASE)
    return np.concatenate([phrases[::2], phrases[::2], phrases[1::2]], axis=1).ravel(), vocabulary


def batches(
    worker: int, workers: int, batch_size: int, seed: int, *, text: str = "", vocabulary: int = 64
) -> Iterator[Any]:
    """Endless (tokens, next tokens) of one worker, both (batch, 32), from random places of the text."""
    values, _ = tokens(text, vocabulary)
    random = np.random.default_rng([seed, workers, worker])
    end = round(len(values) * (1 - HELD_OUT)) - LENGTH
    while True:
        yield _texts(values, random.integers(end, size=batch_size))


def loss(model: Any, batch: Any) -> Any:
    """Cross-entropy of the next token in nats, mean over the tokens."""
    return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())


def evaluate(model: Any, text: str = "", vocabulary: int = 64) -> float:
    """The loss on held-out text, in nats per token."""
    values, _ = tokens(text, vocabulary)
    first = round(len(values) * (1 - HELD_OUT))
    places = np.linspace(first, len(values) - LENGTH - 1, HELD_OUT_TEXTS).astype(int)
    device = next(model.parameters()).device
    return float(loss(model, [item.to(device) for item in _texts(values, places)]))


def _texts(values: np.ndarray, places: np.ndarray) -> tuple[Any, Any]:
    found = torch.from_numpy(values[places[:, None] + np.arange(LENGTH + 1)])
    return found[:, :-1], found[:, 1:]
