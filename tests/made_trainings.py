"""Folders of trainings whose iterations to a target follow a known law, with noise between seeds and batches."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from simulator.trainings.runs import CurvePoint, TrainingSpec, write_run

START, TARGET = 2.0, 0.5
SEED_NOISE, BATCH_NOISE = 0.06, 0.1
TOPK, RANDOMK, DENSE = ({"kind": "topk", "density": 0.01}, {"kind": "randomk", "density": 0.01}, {"kind": "dense"})
SLOWER = {"dense": 0.0, "topk": 2e-3, "randomk": 6e-2}
"""c of each method in steps = 80 (1 + 8 / B + c (1 / density - 1))."""


def true_steps(method: dict[str, Any], workers: int, batch_size: int) -> float:
    """The iterations to a loss of 0.5, without noise."""
    delay = SLOWER[method["kind"]] * (1 / method.get("density", 1.0) - 1)
    return 80 * (1 + 8 / (workers * batch_size) + delay)


def write_training(
    folder: Path, method: dict[str, Any], workers: int = 4, batch_size: int = 8, seed: int = 0, **changes: Any
) -> None:
    """A training whose loss falls as e^(-t), from 2.0 to 0.5 after the iterations of the law, and noise."""
    random = np.random.default_rng(
        [seed, workers, batch_size, round(1e6 * method.get("density", 1)), len(method["kind"])]
    )
    steps = true_steps(method, workers, batch_size) * math.exp(SEED_NOISE * random.normal())
    spec = TrainingSpec.model_validate(
        {
            "task": "made",
            "method": method,
            "workers": workers,
            "batch_size": batch_size,
            "iterations": 400,
            "learning_rate": 0.1,
            "metric": "accuracy",
            "better": "higher",
            "elements": 1000,
            "seed": seed,
            **changes,
        }
    )
    rate = math.log(START / TARGET) / steps
    points = []
    for iteration in range(spec.iterations):
        loss = START * math.exp(-rate * (iteration + 1))
        noisy = loss * (1 + BATCH_NOISE * random.normal())
        metric = 1 - loss / START if iteration % 5 == 4 else math.nan
        points.append(CurvePoint(iteration, noisy, metric, 0.01, 0.03, 0.5, 1.0))
    write_run(folder, spec, points)


def write_study(folder: Path, methods: list[dict[str, Any]], seeds: int = 3, **axes: tuple[int, ...]) -> Path:
    """Trainings of all combinations of methods, `workers` and `batch_size`; returns the folder."""
    places = [(w, b) for w in axes.get("workers", (4,)) for b in axes.get("batch_size", (8,))]
    for number, method in enumerate(methods):
        for workers, batch in places:
            for seed in range(seeds):
                write_training(folder / f"{number}-{workers}-{batch}-{seed}", method, workers, batch, seed)
    return folder
