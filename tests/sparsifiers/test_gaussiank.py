"""Gaussian-k against the released loop in plain Python, and what its bounds are worth."""

import statistics

import numpy as np
import pytest
from common import block, once, sent_per_worker
from hypothesis import given
from hypothesis import strategies as st
from replayed import select
from scipy.stats import norm

from simulator.models.exchange import Bucket, PushPull, Selection
from simulator.models.gradients import Block
from simulator.models.overlap import INDEPENDENT
from simulator.sparsifiers.gaussiank import GaussianK


def reference(u, density, k, loops):
    """Indices, passes and whether the loop stopped by itself, of one unit."""
    threshold = statistics.fmean(u) - norm.ppf(density / 2) * statistics.stdev(u)
    for passes in range(1, loops + 1):
        indices = [j for j, value in enumerate(u) if abs(value) > threshold]
        if len(indices) < 2 * k / 3:
            threshold *= 0.5
        elif len(indices) > 4 * k / 3:
            threshold *= 1.5
        else:
            return indices, passes, True
    return indices, loops, False


@pytest.mark.parametrize(("loops", "power"), [(3, 1), (3, 3), (5, 3), (1, 3), (8, 5)])
def test_replay_is_the_released_loop(loops, power):
    numels, member, draws = (300, 200), GaussianK(density=0.05, loops=loops), np.random.default_rng(loops + power)
    state = member.start(block(np.zeros((3, 500)), numels))
    residual = np.zeros((3, 500), np.float32)
    for iteration in range(8):
        item = block(draws.standard_normal((3, 500)) ** power + 0.1, numels, iteration)
        state, selection, u, choice = select(member, state, item)
        residual += item.values
        np.testing.assert_array_equal(u, residual)
        looked, stopped = np.zeros(3), []
        for worker in range(3):
            for start, stop, k in ((0, 300, 15), (300, 500, 10)):
                indices, passes, converged = reference(u[worker, start:stop].tolist(), 0.05, k, loops)
                assert np.flatnonzero(choice.chosen[worker, start:stop]).tolist() == indices
                residual[worker, [start + j for j in indices]] = 0
                looked[worker] += passes * (stop - start)
                stopped.append(converged)
        np.testing.assert_array_equal(state["residual"], residual)
        assert selection.passes == pytest.approx(looked.max() / 500)
        assert choice.detail["converged"] == pytest.approx(np.mean(stopped))


@given(
    seed=st.integers(0, 2**32), scale=st.floats(1e-6, 1e6), power=st.sampled_from([1, 3, 5]), loops=st.integers(1, 6)
)
def test_counts_are_within_the_bounds_exactly_where_the_loop_stopped(seed, scale, power, loops):
    values = scale * np.random.default_rng(seed).standard_normal((1, 5000)) ** power
    _, selection, _, choice = once(GaussianK(density=0.01, loops=loops), values)
    inside = 2 * 50 / 3 <= selection.largest <= 4 * 50 / 3
    assert (choice.detail["converged"] == 1.0) == inside
    assert selection.passes <= loops
    if not inside:
        assert selection.passes == loops


def test_normal_gradients_take_one_pass_and_heavy_tails_end_anywhere():
    draws, d = np.random.default_rng(1), 200_000
    member = GaussianK(density=0.001)
    _, normal, _, _ = once(member, draws.standard_normal((4, d)))
    assert normal.passes == 1
    assert normal.selected.mean() == pytest.approx(200, rel=0.15)
    # Laplace at 1 % ends at 6.5 k (halved once too often), cubed normal at 0.1 % at 2.2 k, and at 1 % at 0.5 k.
    cubed = draws.standard_normal((4, d)) ** 3
    for values, density, ratio in ((draws.laplace(size=(4, d)), 0.01, 6.5), (cubed, 0.001, 2.2), (cubed, 0.01, 0.49)):
        _, heavy, _, choice = once(GaussianK(density=density), values)
        assert choice.detail["converged"] == 0
        assert heavy.passes == 3
        assert heavy.selected.mean() == pytest.approx(ratio * density * d, rel=0.1)


def test_more_loops_are_no_cure_where_the_factors_jump_over_the_bounds():
    """The density falls from above 4k/3 to below 2k/3 between thresholds 1.5 apart: any number of passes is used up."""
    draws = np.random.default_rng(5)
    values = np.concatenate([np.full(900, 1e-3), draws.choice([-1.0, 1.0], 100)])[None] + 1e-7
    for loops in (3, 50):
        _, selection, _, choice = once(GaussianK(density=0.01, loops=loops), values)
        assert choice.detail["converged"] == 0
        assert selection.passes == loops
        assert selection.largest in (0, 100, 1000)


def test_a_sample_of_coordinates_gives_the_counts_of_all():
    draws, d = np.random.default_rng(2), 100_000
    values = draws.standard_normal((2, d)).astype(np.float32)
    places = np.sort(draws.choice(d, 20_000, replace=False))
    part = Block(values[:, places], np.zeros(20_000, int), places, np.full(20_000, 5.0), (d,))
    member = GaussianK(density=0.01)
    _, sampled, _, _ = select(member, member.start(part), part)
    _, whole, _, _ = once(member, values)
    assert sampled.selected == pytest.approx(whole.selected, rel=0.2)
    assert sampled.passes == whole.passes == 1


@pytest.mark.parametrize("workers", [2, 3, 8])
def test_traffic_is_the_largest_count_times_eight_bytes_to_everyone(workers):
    member, bucket = GaussianK(density=0.01), Bucket(0, (5000, 3000), 0)
    values = np.random.default_rng(workers).standard_normal((workers, 8000)) * np.arange(1, workers + 1)[:, None] ** 3
    item = block(values**3, bucket.pieces)
    _, selection, _, choice = select(member, member.start(item), item)
    largest = max(int(row.sum()) for row in choice.chosen)
    sent = sent_per_worker(member.exchange(selection, bucket, workers, "collective"), workers)
    assert sent == pytest.approx((workers - 1) * 8 * largest)
    push = next(s for s in member.exchange(selection, bucket, workers, "push_pull") if isinstance(s, PushPull))
    assert push.push_nbytes == pytest.approx(8 * choice.chosen.sum() / workers)
    assert push.pull_nbytes == 8 * choice.chosen.any(axis=0).sum()


def test_scans_cost_as_often_as_the_loop_looked():
    member, bucket = GaussianK(density=0.01), Bucket(0, (5000, 3000), 0)
    closed = member.expect(bucket, 4, INDEPENDENT)
    looked = Selection(closed.selected, closed.aggregated, closed.largest, closed.target, 8000.0, 2.5)
    for selection, passes, calls in ((closed, 1.0, 6), (looked, 2.5, 15)):
        kernels = {item.kernel: item for item in member.compute(selection, bucket, 4)}
        assert sum(kernels["threshold_scan"].elements) == passes * 8000
        assert kernels["threshold_scan"].calls == calls
        assert sum(kernels["statistics"].elements) == 8000
        assert sum(kernels["gather"].elements) == closed.largest == 80


@pytest.mark.parametrize(("loops", "chosen"), [(1, 0), (2, 4), (3, 4)])
def test_values_at_the_threshold_are_not_above_it(loops, chosen):
    """Equal values have no deviation: the threshold is their mean, which none exceeds, then half of it, then 0.75."""
    _, selection, _, choice = once(GaussianK(density=0.25, loops=loops), np.full((2, 4), 2.0))
    assert (choice.chosen.sum(axis=1).tolist(), selection.passes) == ([chosen, chosen], loops)
