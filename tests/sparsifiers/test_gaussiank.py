"""Gaussian-k against the released loop in plain Python, and what its bounds are worth."""

import statistics

import numpy as np
import pytest
from common import follow, once
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from simulator.models.exchange import Bucket, Selection
from simulator.models.overlap import INDEPENDENT
from simulator.sparsifiers.gaussiank import GaussianK


def reference(u, density, loops):
    """Indices, passes and whether the loop stopped by itself, of one unit."""
    k = round(density * len(u))
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
    gradients = np.random.default_rng(loops + power).standard_normal((8, 3, 500)) ** power + 0.1
    for _ in follow(GaussianK(density=0.05, loops=loops), gradients, (300, 200), lambda u: reference(u, 0.05, loops)):
        pass


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
    _, normal, _, _ = once(GaussianK(density=0.001), draws.standard_normal((4, d)))
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


def test_scans_cost_as_often_as_the_loop_looked():
    member, bucket = GaussianK(density=0.01), Bucket(0, (5000, 3000), 0)
    closed = member.expect(bucket, 4, INDEPENDENT)
    looked = Selection(closed.selected, closed.aggregated, closed.largest, closed.target, 8000.0, 2.5)
    for selection, passes, calls in ((closed, 1.0, 6), (looked, 2.5, 15)):
        kernels = {item.kernel: item for item in member.compute(selection, bucket, 4)}
        assert sum(kernels["threshold_scan"].elements) == passes * 8000
        assert (kernels["threshold_scan"].calls, sum(kernels["statistics"].elements)) == (calls, 8000)
        assert sum(kernels["gather"].elements) == closed.largest == 80


@pytest.mark.parametrize(("loops", "chosen"), [(1, 0), (2, 4), (3, 4)])
def test_values_at_the_threshold_are_not_above_it(loops, chosen):
    """Equal values have no deviation: the threshold is their mean, which none exceeds, then half of it, then 0.75."""
    _, selection, _, choice = once(GaussianK(density=0.25, loops=loops), np.full((2, 4), 2.0))
    assert (choice.chosen.sum(axis=1).tolist(), selection.passes) == ([chosen, chosen], loops)
