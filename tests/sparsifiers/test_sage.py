"""SAGE against its scaling rules in plain Python, and against the fixed threshold that it replaces."""

import math

import numpy as np
import pytest
from common import block, run
from hypothesis import given
from hypothesis import strategies as st
from replayed import replay, select

from simulator.models.gradients import Block
from simulator.sparsifiers.sage import Sage
from simulator.sparsifiers.threshold import Threshold


@pytest.mark.parametrize("start", [None, 0.5, 1e-3, 50.0])
def test_replay_is_the_published_loop(start):
    """From a good start, from one that gamma has to lower and from one that it has to raise."""
    numels, density, workers, seed = (300, 200), 0.01, 3, 4
    member, draws = Sage(density=density, threshold=start, seed=seed), np.random.default_rng(1)
    residual, d = np.zeros((workers, 500), np.float32), 500
    size = int(d / (1 + d * 0.05 * 0.05))
    thresholds, before, factors = [start or 1 / (2 * math.sqrt(5))] * workers, [0.0] * workers, set()
    state = member.start(block(residual, numels))
    for iteration in range(12):
        item = block(draws.standard_normal((workers, 500)) * 1.1**iteration, numels, iteration)
        state, selection, _, choice = select(member, state, item)
        residual += item.values
        for worker in range(workers):
            u = residual[worker].tolist()
            picks = np.random.default_rng([seed, iteration, worker]).integers(d, size=size)
            mean = sum(abs(u[j]) for j in picks) / size
            if iteration:
                alpha = mean / before[worker]
                exam = sum(abs(value) >= thresholds[worker] * alpha for value in u) / d
                beta = 2 / (1 + math.exp(density - exam))
                gamma = 0.95 if exam / density < 0.1 else 1.05 if exam / density > 10 else 1.0
                thresholds[worker] *= alpha * beta * gamma
                factors.add(gamma)
            before[worker] = mean
            indices = [j for j, value in enumerate(u) if abs(value) >= thresholds[worker]]
            assert np.flatnonzero(choice.chosen[worker]).tolist() == indices
            residual[worker, indices] = 0
        np.testing.assert_array_equal(state["residual"], residual)
        np.testing.assert_allclose(state["thresholds"], thresholds, rtol=1e-5)
        assert selection.passes == (2 if iteration else 1)
    assert factors >= {None: set(), 0.5: set(), 1e-3: {1.05}, 50.0: {0.95}}[start]


@pytest.mark.long
@pytest.mark.parametrize("feedback", [False, True])
@pytest.mark.parametrize("growth", [0.95, 1.05])
def test_density_is_held_better_than_by_a_fixed_threshold_when_the_scale_drifts(growth, feedback):
    """Both start at the right threshold; gradients grow or shrink 130-fold over 100 iterations.

    Mean |ln(selected/asked)| of the last 50: 0.14 for SAGE, 4.5 (growing) and 6.7 (shrinking) for the fixed threshold;
    with error feedback 0.35 and 0.86 against 4.5 and 5.0.
    """
    draws, d, density = np.random.default_rng(3), 40_000, 0.01
    right = -math.log(density)
    blocks = [block(growth**t * draws.laplace(size=(2, d)), (d,), t) for t in range(100)]
    wrong = {}
    for kind in (Threshold, Sage):
        steps = replay(kind(density=density, threshold=right), blocks, feedback)
        ratios = np.array([max(step.selection.selected.mean(), 0.5) / (density * d) for step in steps])
        wrong[kind] = float(np.abs(np.log(ratios[50:])).mean())
    assert wrong[Sage] < (1.0 if feedback else 0.25)
    assert wrong[Threshold] > 4.0


@given(seed=st.integers(0, 2**32), exponent=st.integers(-20, 20), density=st.floats(0.001, 0.5))
def test_a_change_of_scale_changes_the_threshold_alike_and_the_choice_not_at_all(seed, exponent, density):
    draws, member, factor = np.random.default_rng(seed), Sage(density=density, threshold=2.0), 2.0**exponent
    first, second = block(draws.laplace(size=(2, 1000)), (1000,)), draws.laplace(size=(2, 1000))
    state, _, _, _ = select(member, member.start(first), first)
    plain, scaled = ({**state, "residual": np.zeros((2, 1000), np.float32)} for _ in range(2))
    plain, _, _, choice = select(member, plain, block(second, (1000,), 1))
    scaled, _, u, same = select(member, scaled, block(second.astype(np.float32) * np.float32(factor), (1000,), 1))
    np.testing.assert_allclose(scaled["thresholds"], factor * plain["thresholds"], rtol=1e-12)
    np.testing.assert_array_equal(same.chosen, choice.chosen)
    for row, mask, threshold in zip(u, same.chosen, scaled["thresholds"], strict=True):
        np.testing.assert_array_equal(mask, np.abs(row) >= np.float32(threshold))


def test_a_sample_of_coordinates_gives_the_counts_and_thresholds_of_all():
    """Two tensors of different scale, one of them sampled ten times as densely as the other."""
    draws, d, member = np.random.default_rng(2), 100_000, Sage(density=0.01, threshold=4.0)
    values = draws.laplace(size=(3, 2, d)).astype(np.float32)
    values[:, :, 50_000:] *= 0.1
    places = np.concatenate([np.arange(0, 50_000, 10), np.arange(50_000, d)])
    piece, weight = np.repeat([0, 1], [5000, 50_000]), np.repeat([10.0, 1.0], [5000, 50_000])
    whole = part = None
    for t, item in enumerate(values):
        full = block(item, (50_000, 50_000), t)
        some = Block(item[:, places], piece, places, weight, (50_000, 50_000), t)
        whole, every, _, _ = select(member, whole or member.start(full), full)
        part, sampled, _, _ = select(member, part or member.start(some), some)
        np.testing.assert_allclose(part["sampled_means"], whole["sampled_means"], rtol=0.3)
        assert 0.4 < sampled.selected.mean() / every.selected.mean() < 2.5


NONE, EVERYTHING = 0.95 * 2 / (1 + math.exp(0.01)), 1.05 * 2 / (1 + math.exp(0.01 - 1))


@pytest.mark.parametrize(
    ("sizes", "factors"),
    [
        ((1.0, 0.0, 3.0), (1, NONE, NONE * 3 * EVERYTHING)),
        ((0.0, 20.0), (1, EVERYTHING)),
        ((0.0,) * 4, (1, NONE, NONE**2, NONE**3)),
    ],
)
def test_gradients_of_zero_leave_the_mean_that_the_next_ones_are_compared_with(sizes, factors):
    """Magnitudes above the threshold are all sent: alpha is 1 without a mean, also the first one, then their ratio."""
    member, d = Sage(density=0.01, threshold=0.5), 200
    steps = list(run(member, [np.full((1, d), size) for size in sizes]))
    assert [selection.largest for _, selection, _, _ in steps] == [d if size else 0 for size in sizes]
    found = [choice.detail["threshold"] for *_, choice in steps]
    assert found == pytest.approx([0.5 * factor for factor in factors], rel=1e-6)
    assert (member.samples(1), member.samples(2)) == (1, 1)
