"""What all methods with a threshold of their own for every worker have in common: traffic, and counts of a sample."""

import numpy as np
import pytest
from common import block, once, sent_per_worker
from replayed import select

from simulator.component import build
from simulator.models.exchange import Bucket, PushPull
from simulator.models.gradients import Block
from simulator.sparsifiers.base import Sparsifier


@pytest.mark.parametrize("workers", [2, 3, 8])
@pytest.mark.parametrize("kind", ["dgc", "gaussiank", "redsync", "sidco", "sage"])
def test_traffic_is_the_largest_count_times_eight_bytes_to_everyone(kind, workers):
    """Of SAGE counts of 8 bytes first; the gradients of one worker are larger than those of another."""
    given = {"threshold": 4.0} if kind == "sage" else {}
    member, bucket = build(Sparsifier, {"kind": kind, "density": 0.01, **given}), Bucket(0, (5000, 3000), 0)
    draws = np.random.default_rng(workers).laplace(size=(workers, 8000)) * np.arange(1, workers + 1)[:, None]
    item = block(draws**3 if kind == "gaussiank" else draws, bucket.pieces)
    _, selection, _, choice = select(member, member.start(item), item)
    largest = int(choice.chosen.sum(axis=1).max())
    assert largest > 0
    sent = sent_per_worker(member.exchange(selection, bucket, workers, "collective"), workers)
    assert sent == pytest.approx((workers - 1) * (8 * (kind == "sage") + 8 * largest))
    push = next(s for s in member.exchange(selection, bucket, workers, "push_pull") if isinstance(s, PushPull))
    assert push.push_nbytes == pytest.approx(8 * choice.chosen.sum() / workers)
    assert push.pull_nbytes == 8 * choice.chosen.any(axis=0).sum()


@pytest.mark.parametrize("kind", ["dgc", "gaussiank", "sidco"])
def test_a_sample_of_coordinates_gives_the_counts_of_all(kind):
    draws, d = np.random.default_rng(2), 100_000
    values = (draws.standard_normal if kind == "gaussiank" else draws.laplace)(size=(4, d)).astype(np.float32)
    places = np.sort(draws.choice(d, 20_000, replace=False))
    part = Block(values[:, places], np.zeros(20_000, int), places, np.full(20_000, 5.0), (d,))
    member = build(Sparsifier, {"kind": kind, "density": 0.01, **({"stages": 2} if kind == "sidco" else {})})
    _, sampled, _, _ = select(member, member.start(part), part)
    _, whole, _, _ = once(member, values)
    assert sampled.selected == pytest.approx(whole.selected, rel=0.2)
    assert kind != "gaussiank" or sampled.passes == whole.passes == 1
    if kind == "dgc":
        assert 800 <= sampled.selected.min() <= sampled.selected.max() <= 1000
