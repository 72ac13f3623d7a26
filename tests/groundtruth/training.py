"""Data-parallel training of a small convolutional network in numpy, dense or Top-k with error feedback."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from groundtruth.collectives import ring_all_gather, ring_all_reduce
from groundtruth.connections import Connections, Floats

PHASES = ("forward", "backward", "selection", "communication", "combine", "update")
SIDE, CHANNELS, HIDDEN, CLASSES = 16, 16, 1024, 10


@dataclass(frozen=True, slots=False)
class Job:
    """`density` of the Top-k over the whole gradient; 0: dense."""

    density: float
    iterations: int
    warm_up: int = 3
    batch: int = 32
    rate: float = 0.05


class Network:
    """3x3 convolution, ReLU, 2x2 mean, two dense layers, softmax; parameters and gradient are flat vectors."""

    def __init__(self) -> None:
        flat = CHANNELS * (SIDE // 2) ** 2
        shapes = [(9, CHANNELS), (CHANNELS,), (flat, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,)]
        sizes = [int(np.prod(shape)) for shape in shapes]
        self.weights, self.gradient = (np.zeros(sum(sizes), dtype=np.float32) for _ in range(2))
        bounds = np.cumsum(sizes)[:-1]
        self.w, self.g = (
            [part.reshape(shape) for part, shape in zip(np.split(whole, bounds), shapes, strict=True)]
            for whole in (self.weights, self.gradient)
        )
        draw = np.random.default_rng(0)
        for part in self.w[::2]:
            part[:] = draw.standard_normal(part.shape) * np.sqrt(2 / part.shape[0])

    def forward(self, images: Floats) -> Floats:
        """Class scores (b, classes) of images (b, side, side)."""
        padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
        self.columns = np.ascontiguousarray(windows).reshape(-1, 9)
        self.convolved = np.maximum(self.columns @ self.w[0] + self.w[1], 0)
        half = SIDE // 2
        self.pooled = self.convolved.reshape(-1, half, 2, half, 2, CHANNELS).mean(axis=(2, 4)).reshape(len(images), -1)
        self.hidden = np.maximum(self.pooled @ self.w[2] + self.w[3], 0)
        return self.hidden @ self.w[4] + self.w[5]

    def backward(self, scores: Floats, labels: np.ndarray) -> float:
        """Gradient of the mean cross-entropy, into `gradient`; the loss."""
        exponent = np.exp(scores - scores.max(axis=1, keepdims=True))
        error, rows = exponent / exponent.sum(axis=1, keepdims=True), np.arange(len(labels))
        loss = float(-np.log(error[rows, labels]).mean())
        error[rows, labels] -= 1
        error /= np.float32(len(labels))
        np.matmul(self.hidden.T, error, out=self.g[4])
        self.g[5][:] = error.sum(axis=0)
        error = (error @ self.w[4].T) * (self.hidden > 0)
        np.matmul(self.pooled.T, error, out=self.g[2])
        self.g[3][:] = error.sum(axis=0)
        half = SIDE // 2
        error = (error @ self.w[2].T).reshape(-1, half, 1, half, 1, CHANNELS) / np.float32(4)
        error = np.broadcast_to(error, (len(labels), half, 2, half, 2, CHANNELS)).reshape(-1, CHANNELS)
        error = error * (self.convolved > 0)
        np.matmul(self.columns.T, error, out=self.g[0])
        self.g[1][:] = error.sum(axis=0)
        return loss


def train(net: Connections, workers: int, job: Job) -> dict[str, Any]:
    """Train; when each phase of each iteration ended, (iterations, phases + 1) with its start first, and the losses.

    Raises AssertionError where the workers' parameters do not stay the same, or nothing is learned.
    """
    model, draw = Network(), np.random.default_rng(1 + net.me)
    centres = np.random.default_rng(0).standard_normal((CLASSES, SIDE, SIDE)).astype(np.float32)
    residual, space = np.zeros_like(model.gradient), np.ones_like(model.gradient)
    selected, marks, losses = max(1, round(job.density * len(residual))), [], []
    for _ in range(job.warm_up + job.iterations):
        mark, labels = [time.monotonic()], draw.integers(CLASSES, size=job.batch)
        scores = model.forward(centres[labels] + draw.standard_normal((job.batch, SIDE, SIDE)).astype(np.float32))
        mark.append(time.monotonic())
        losses.append(model.backward(scores, labels))
        mark.append(time.monotonic())
        if job.density:
            total = _sparse(net, workers, model.gradient, residual, selected=selected, mark=mark)
        else:
            mark.append(time.monotonic())
            ring_all_reduce(net, workers, model.gradient, space)
            total = model.gradient
            mark += 2 * [time.monotonic()]
        model.weights -= np.float32(job.rate / workers) * total
        mark.append(time.monotonic())
        marks.append(mark)
    some = np.empty((workers, 1000), dtype=np.float32)
    some[net.me] = model.weights[-1000:]
    ring_all_gather(net, workers, some.reshape(-1), space)
    assert np.array_equal(some, np.broadcast_to(some[0], some.shape)), "the workers have drifted apart"
    assert np.mean(losses[-3:]) < losses[0], "nothing was learned"
    return {"marks": marks[job.warm_up :], "numel": len(model.weights), "selected": selected}


def _sparse(
    net: Connections, workers: int, gradient: Floats, residual: Floats, *, selected: int, mark: list[float]
) -> Floats:
    """Top-k of residual and gradient; pairs are gathered and added up."""
    residual += gradient
    places = np.argpartition(np.abs(residual), -selected)[-selected:]
    indices, values = np.empty((workers, selected), dtype=np.int32), np.empty((workers, selected), dtype=np.float32)
    indices[net.me], values[net.me] = places, residual[places]
    residual[places] = 0
    mark.append(time.monotonic())
    for part in (values, indices.view(np.float32)):
        ring_all_gather(net, workers, part.reshape(-1), part)
    mark.append(time.monotonic())
    total = np.zeros_like(gradient)
    for worker in range(workers):
        total[indices[worker]] += values[worker]  # a worker names each place once
    mark.append(time.monotonic())
    return total
