"""TernGrad against a loop over elements; its bias, its bytes."""

import math
from itertools import pairwise

import numpy as np
import pytest
from common import block, run
from hypothesis import given
from hypothesis import strategies as st

from simulator.models.gradients import Block
from simulator.sparsifiers.terngrad import TernGrad


def reference(u, numels, clip, draws):
    out, position = [], 0
    for numel in numels:
        tensor = [float(x) for x in u[position : position + numel]]
        mean = sum(tensor) / numel
        limit = clip * math.sqrt(sum((x - mean) ** 2 for x in tensor) / numel) if clip else math.inf
        clipped = [max(-limit, min(limit, x)) for x in tensor]
        scale = max(abs(x) for x in clipped)
        for x in clipped:
            out.append(math.copysign(scale, x) if draws[position] * scale < abs(x) else 0.0)
            position += 1
    return np.array(out)


@pytest.mark.parametrize("error_feedback", [False, True])
@pytest.mark.parametrize("clip", [2.5, 1.0, None])
def test_it_rounds_as_a_loop_over_elements_does(clip, error_feedback):
    numels, workers, d = (50, 1, 33), 3, 84
    gradients = (np.random.default_rng(2).standard_normal((4, workers, d)) ** 3).astype(np.float32)
    member, residual = TernGrad(clip=clip, error_feedback=error_feedback, seed=9), np.zeros((workers, d))
    for iteration, (state, selection, u, choice) in enumerate(run(member, gradients, numels)):
        values = gradients[iteration]
        for worker in range(workers):
            own = residual[worker] + values[worker] if error_feedback else values[worker]
            chance = np.random.default_rng([9, iteration, worker]).random(d, dtype=np.float32)
            sent = reference(own, numels, clip, chance)
            np.testing.assert_allclose(choice.sent[worker], sent, rtol=1e-4, atol=1e-6)
            residual[worker] = own - sent
        np.testing.assert_allclose(state["residual"] + choice.sent, u, atol=1e-5)
        assert selection.aggregated == d


@pytest.mark.long
@pytest.mark.parametrize("clip", [2.5, None])
def test_its_mean_is_the_clipped_gradient(clip):
    """4,000 draws of 200 elements, mean within 5 standard errors; without clipping it is the gradient itself."""
    repeats = 4000
    u = np.random.default_rng(4).standard_normal(200).astype(np.float32)
    u[0] = 5.0
    sent = (
        TernGrad(clip=clip).quantised(np.tile(u, (repeats, 1)), block(np.tile(u, (repeats, 1)), (200,))).astype(float)
    )
    limit = clip * u.std(dtype=float) if clip else math.inf
    clipped = np.clip(u, -limit, limit).astype(float)
    error = np.sqrt((np.abs(clipped).max() * np.abs(clipped) - clipped**2) / repeats)
    assert (np.abs(sent.mean(axis=0) - clipped) <= 5 * error + 1e-5).all()
    assert error.max() < 0.05
    assert (abs(sent.mean(axis=0)[0] - 5.0) > 1) == (clip is not None)


@given(
    numels=st.lists(st.integers(1, 100), min_size=1, max_size=4), exponent=st.integers(-36, 16), seed=st.integers(0, 99)
)
def test_three_values_per_tensor_and_worker(numels, exponent, seed):
    values = (10.0**exponent * np.random.default_rng(seed).standard_normal((2, sum(numels)))).astype(np.float32)
    sent = TernGrad(seed=seed).quantised(values, block(values, numels))
    assert np.isfinite(sent).all()
    assert (sent * np.sign(values) >= 0).all()
    for begin, end in pairwise(np.cumsum([0, *numels])):
        for row, own in zip(sent[:, begin:end], values[:, begin:end], strict=True):
            assert len(set(np.abs(row[row != 0]).tolist())) <= 1
            assert np.abs(row).max() <= np.abs(own).max()
            if end - begin == 1:
                assert row[0] == 0


def test_a_sampled_tensor_takes_its_deviation_from_the_sample():
    rng = np.random.default_rng(8)
    whole = rng.standard_normal((1, 20_000)).astype(np.float32)
    held = np.sort(rng.choice(20_000, 2000, replace=False))
    part = Block(whole[:, held], np.zeros(2000, dtype=np.int64), held, np.full(2000, 10.0), (20_000,))
    scales = [float(np.abs(TernGrad().quantised(item.values, item)).max()) for item in (block(whole, (20_000,)), part)]
    assert scales[0] == pytest.approx(2.5, rel=0.03)
    assert scales[1] == pytest.approx(scales[0], rel=0.05)


def test_codes_of_two_bits_are_packed_tensor_by_tensor():
    assert TernGrad(bits=2).payload((3, 80)) == (1 + 20, 2 * 4)
