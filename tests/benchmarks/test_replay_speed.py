"""Replay at full resolution and on a sample: seconds and memory."""

import resource
import time

import numpy as np

from simulator.engine.replay import replay
from simulator.models.gradients import Block
from simulator.sparsifiers.topk import TopK

SIZES = (2359296, 2359296, 2359296, 1179648, 589824, 589824, 589824, 294912, 500000, 400000)


def blocks(share, iterations=20, workers=8):
    """Iterations of an 11 M-parameter model, or of a sample of it; rolled, so that they differ at little cost."""
    held = [max(64, int(share * n)) for n in SIZES]
    draws = np.random.default_rng(0).standard_normal((workers, sum(held)), dtype=np.float32)
    piece = np.repeat(np.arange(len(SIZES)), held)
    ends = np.cumsum([0, *SIZES])
    places = [start + np.linspace(0, n - 1, m).astype(np.int64) for start, n, m in zip(ends, SIZES, held, strict=False)]
    weight = np.repeat(np.array(SIZES) / np.array(held), held)
    for t in range(iterations):
        yield Block(np.roll(draws, 1000 * t, axis=1), piece, np.concatenate(places), weight, SIZES, t)


def test_twenty_iterations_of_11_million_parameters_in_60_s_and_3_gib():
    start = time.perf_counter()
    assert sum(1 for _ in replay(TopK(density=0.01), blocks(1.0))) == 20
    assert time.perf_counter() - start <= 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss <= 3 * 2**20


def test_the_same_sampled_at_1_per_cent_in_2_s():
    start = time.perf_counter()
    assert sum(1 for _ in replay(TopK(density=0.01), blocks(0.01))) == 20
    assert time.perf_counter() - start <= 2
