"""QSGD against a loop over elements; its bias, its variance, its bytes."""

import math
from itertools import pairwise

import numpy as np
import pytest
from common import block, run
from hypothesis import given
from hypothesis import strategies as st

from simulator.sparsifiers.qsgd import QSGD


def reference(u, numels, size, levels, draws):
    """One worker: each tensor cut into buckets, each element rounded by its own draw."""
    out, position = [], 0
    for numel in numels:
        tensor = u[position : position + numel]
        for begin in range(0, numel, size):
            bucket = tensor[begin : begin + size]
            norm = math.sqrt(sum(float(x) ** 2 for x in bucket))
            for x in bucket:
                draw = draws[position]
                position += 1
                exact = levels * abs(float(x)) / norm if norm else 0.0
                out.append(math.copysign(norm * (math.floor(exact) + (draw < exact - math.floor(exact))) / levels, x))
    return np.array(out)


@pytest.mark.parametrize("error_feedback", [False, True])
@pytest.mark.parametrize(("size", "levels"), [(8, 4), (16, 127), (1000, 1)])
def test_it_rounds_as_a_loop_over_elements_does(size, levels, error_feedback):
    numels, workers = (37, 1, 64), 3
    gradients = np.random.default_rng(3).standard_normal((4, workers, d := sum(numels))).astype(np.float32)
    member = QSGD(bucket_size=size, levels=levels, error_feedback=error_feedback, seed=5)
    residual = np.zeros((workers, d))
    for iteration, (state, selection, u, choice) in enumerate(run(member, gradients, numels)):
        values = gradients[iteration]
        for worker in range(workers):
            own = residual[worker] + values[worker] if error_feedback else values[worker]
            chance = np.random.default_rng([5, iteration, worker]).random(d, dtype=np.float32)
            sent = reference(own, numels, size, levels, chance)
            np.testing.assert_allclose(choice.sent[worker], sent, rtol=2e-5, atol=1e-6)
            residual[worker] = own - sent
        np.testing.assert_allclose(state["residual"], residual, atol=1e-5)
        np.testing.assert_allclose(state["residual"] + choice.sent, u, atol=1e-5)
        assert selection.aggregated == selection.largest == selection.target == d


def test_its_mean_is_the_gradient_and_its_variance_the_papers():
    """Mean over 4,000 draws within 5 standard errors; the lemma bounds E|Q(u)-u|^2 by min(d/s^2, sqrt(d)/s) |u|^2."""
    size, levels, repeats = 128, 4, 4000
    u = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    member = QSGD(levels=levels)
    sent = member.quantised(np.tile(u, (repeats, 1)), block(np.tile(u, (repeats, 1)), (size,))).astype(float)
    step = float(np.linalg.norm(u)) / levels
    up = np.abs(u) / step % 1
    error = step * np.sqrt(up * (1 - up) / repeats)
    assert (np.abs(sent.mean(axis=0) - u) < 5 * error + 1e-4).all()
    assert error.max() < 0.05
    assert 0.1 < (((sent - u) ** 2).sum(axis=1).mean() / float(u @ u)) < min(size / levels**2, math.sqrt(size) / levels)
    assert np.abs(sent - u).max() > 0.1


def test_more_levels_and_smaller_buckets_lose_less():
    u = np.random.default_rng(1).standard_normal((2, 4096)).astype(np.float32)
    lost = [
        float(np.square(QSGD(levels=levels, bucket_size=size).quantised(u, block(u, (4096,))) - u).sum())
        for levels, size in [(1, 4096), (8, 4096), (127, 4096), (127, 128), (127, 16)]
    ]
    assert all(after < before for before, after in pairwise(lost))


@given(
    numels=st.lists(st.integers(1, 300), min_size=1, max_size=4), exponent=st.integers(-35, 16), seed=st.integers(0, 99)
)
def test_what_is_sent_is_a_level_of_a_norm(numels, exponent, seed):
    """No element changes sign, or moves by more than one step."""
    values = (10.0**exponent * np.random.default_rng(seed).standard_normal((2, sum(numels)))).astype(np.float32)
    item = block(values, numels)
    sent = QSGD(bucket_size=32).quantised(values, item)
    assert np.isfinite(sent).all()
    assert (sent * values >= 0).all()
    norm = np.sqrt(np.square(values, dtype=float).sum(axis=1, keepdims=True))
    assert (np.abs(sent.astype(float) - values) <= norm / 127 * (1 + 1e-3) + 1e-44).all()


def test_two_bytes_hold_more_levels():
    """s = 32767 loses a 258th of the step of s = 127, as the variance bound d / s^2 has it, and twice the bytes."""
    u = np.random.default_rng(2).standard_normal((1, 1280)).astype(np.float32)
    fine, coarse = QSGD(levels=32767, level_bytes=2), QSGD()
    lost = [float(np.square(member.quantised(u, block(u, (1280,))) - u).sum()) for member in (fine, coarse)]
    assert lost[0] * (32767 / 127) ** 2 == pytest.approx(lost[1], rel=0.1)
    assert fine.payload((128, 3)) == (262, 8)
    assert coarse.payload((128, 3)) == (131, 8)
