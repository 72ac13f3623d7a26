"""The draws of workers: one counter-based stream, of which a part does not depend on how long the rest is."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.engine.clock.numbers import foremost_workers
from simulator.prediction.draws import draw_differences, factors
from simulator.prediction.run import plan_of
from simulator.scenario.cluster import Stragglers
from simulator.scenario.reading import load

SPREAD = {"kind": "topk", "density": 0.01}


def draws(workers, *, iterations=3, warmup=1, seed=0, jitter=0.1, consecutive=False, **more):
    changes = {
        "cluster.nodes": workers,
        "cluster.gpus_per_node": 1,
        "cluster.stragglers.jitter": jitter,
        "iterations": iterations,
        "warmup": warmup,
        "seed": seed,
        "sparsifier": SPREAD,
        **more,
    }
    scenario = load("quickstart", changes)
    return list(draw_differences(scenario, plan_of(scenario), consecutive))


def test_more_workers_or_iterations_leave_the_draws_of_the_others_alone():
    few, many, longer = draws(3), draws(700), draws(3, iterations=8)
    assert len(few) == len(many) == 3
    for one, other, third in zip(few, many, longer, strict=False):
        np.testing.assert_array_equal(one.compute, other.compute[:3])
        np.testing.assert_array_equal(one.compute, third.compute)
        np.testing.assert_array_equal(one.selection, other.selection[:3])


def test_each_part_of_a_long_run_is_drawn_by_itself(monkeypatch):
    whole = draws(40, iterations=9)
    monkeypatch.setattr("simulator.prediction.draws._TOGETHER", 100)  # two iterations at a time
    for one, other in zip(whole, draws(40, iterations=9), strict=True):
        np.testing.assert_array_equal(one.compute, other.compute)


def test_the_warm_up_takes_the_first_draws():
    np.testing.assert_array_equal(draws(4)[0].compute, draws(4, consecutive=True)[1].compute)


@pytest.mark.parametrize("steps", [1, 4, 256, 257])
def test_a_period_of_steps_takes_as_long_as_the_mean_of_their_draws(steps):
    """An exponential draw is never below 1 - jitter; the mean of many has the deviation jitter / sqrt(steps)."""
    shape = {"cluster.stragglers.distribution": "exponential", "scheduler": {"kind": "diloco", "inner_steps": steps}}
    compute = np.array([item.compute for item in draws(500, jitter=0.5, **shape)])
    error = 0.5 / math.sqrt(steps)
    assert compute.mean() == pytest.approx(1, abs=5 * error / math.sqrt(compute.size))
    assert compute.std() == pytest.approx(error, rel=0.15)
    assert (compute.min() == pytest.approx(0.5, abs=0.01)) == (steps == 1)


def test_seeds_workers_and_iterations_are_independent():
    """Of 1,000 x 20 normal draws each: means within 5 standard errors, and no correlation beyond it."""
    one = np.array([item.compute for item in draws(1000, iterations=20)]) - 1
    other = np.array([item.compute for item in draws(1000, iterations=20, seed=1)]) - 1
    error = 1 / np.sqrt(one.size)
    assert abs(one.mean()) < 5 * 0.1 * error and one.std() == pytest.approx(0.1, rel=5 * error)
    for left, right in ((one, other), (one[:, 1:], one[:, :-1]), (one[1:], one[:-1])):
        assert abs(np.corrcoef(left.ravel(), right.ravel())[0, 1]) < 5 * error


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(-3, 3)), min_size=1, max_size=60))
def test_foremost_workers_are_those_whom_nobody_exceeds(pairs):
    values = np.array(pairs, dtype=float)
    kept = foremost_workers(values[:, 0], values[:, 1])
    best = {pair for pair in pairs if not any(a >= pair[0] and b >= pair[1] and (a, b) != pair for a, b in pairs)}
    assert sorted(pairs[index] for index in kept) == sorted(best)


@pytest.mark.parametrize("jitter", [0.02, 0.2])
@pytest.mark.parametrize("shape", ["normal", "lognormal", "uniform", "exponential"])
def test_jitter_has_mean_1_and_the_stated_deviation(shape, jitter):
    """20,000 draws: the mean within 5 standard errors, and so, for the longest tail, a deviation within 5 %.

    The uniform ends at 1 -+ sqrt(3) jitter, the exponential begins at 1 - jitter, the logarithm of the lognormal is
    normal around -sigma^2 / 2.
    """
    normal = np.random.default_rng(7).standard_normal(20_000)
    drawn = factors(Stragglers(jitter=jitter, distribution=shape), normal)
    assert drawn.mean() == pytest.approx(1, abs=5 * jitter / math.sqrt(20_000))
    assert drawn.std() == pytest.approx(jitter, rel=0.05)
    assert drawn.min() > 0
    assert np.all(np.diff(drawn[np.argsort(normal)]) >= 0)
    if shape == "uniform":
        half = math.sqrt(3) * jitter
        assert 1 - half <= drawn.min() <= 1 - 0.99 * half < 1 + 0.99 * half <= drawn.max() <= 1 + half
    if shape == "exponential":
        assert drawn.min() == pytest.approx(1 - jitter, abs=1e-3 * jitter)
        assert drawn.min() >= 1 - jitter
    if shape == "lognormal":
        sigma = math.sqrt(math.log1p(jitter**2))
        np.testing.assert_allclose(np.log(drawn), sigma * normal - sigma**2 / 2, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shape", ["normal", "lognormal", "uniform", "exponential"])
def test_a_wild_jitter_never_makes_time_run_backwards(shape):
    drawn = factors(Stragglers(jitter=3, distribution=shape), np.linspace(-6, 6, 1001))
    assert drawn.min() > 0
    assert np.isfinite(drawn).all()
