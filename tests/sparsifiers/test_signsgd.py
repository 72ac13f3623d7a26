"""signSGD against a loop over elements, its bytes, and what error feedback mends."""

from itertools import pairwise

import numpy as np
import pytest
from common import block
from hypothesis import given
from hypothesis import strategies as st
from replayed import select

from simulator.models.exchange import AllGather, Bucket, PushPull
from simulator.models.gradients import Block
from simulator.sparsifiers.dense import Dense
from simulator.sparsifiers.signsgd import SignSGD


@pytest.mark.parametrize("error_feedback", [False, True])
def test_it_sends_signs_of_the_mean_magnitude_as_a_loop_does(error_feedback):
    numels, workers, draws = (30, 1, 12), 3, np.random.default_rng(6)
    member = SignSGD(error_feedback=error_feedback)
    d = sum(numels)
    state, residual = None, np.zeros((workers, d))
    for iteration in range(5):
        values = draws.standard_normal((workers, d)).astype(np.float32)
        values[:, 3] = 0
        state = member.start(block(values, numels)) if state is None else state
        state, selection, _, choice = select(member, state, block(values, numels, iteration))
        for worker in range(workers):
            own = [float(v) + (residual[worker][i] if error_feedback else 0) for i, v in enumerate(values[worker])]
            first = 0
            for numel in numels:
                tensor = own[first : first + numel]
                scale = sum(abs(x) for x in tensor) / numel
                expected = [scale if x >= 0 else -scale for x in tensor]
                np.testing.assert_allclose(choice.sent[worker, first : first + numel], expected, rtol=1e-4)
                residual[worker, first : first + numel] = np.subtract(tensor, expected)
                first += numel
        np.testing.assert_allclose(state["residual"], residual, atol=1e-5)
        assert selection.aggregated == d


def test_error_feedback_reaches_the_mean_gradient_where_signs_alone_do_not():
    """A constant gradient of unlike entries: the running mean of what is sent comes to it only with feedback."""
    g = np.array([[1.0, 0.1, -0.02, 3.0]], dtype=np.float32)
    distance = {}
    for error_feedback in (False, True):
        member, total = SignSGD(error_feedback=error_feedback), np.zeros((1, 4))
        state = member.start(block(g, (4,)))
        for iteration in range(400):
            state, _, _, choice = select(member, state, block(g, (4,), iteration))
            total += choice.sent
        distance[error_feedback] = float(np.abs(total / 400 - g).max())
    assert distance[True] < 0.1
    assert distance[False] > 1


@given(
    numels=st.lists(st.integers(1, 60), min_size=1, max_size=4), exponent=st.integers(-36, 16), seed=st.integers(0, 99)
)
def test_no_other_single_scale_loses_less(numels, exponent, seed):
    values = (10.0**exponent * np.random.default_rng(seed).standard_normal((2, sum(numels)))).astype(np.float32)
    sent = SignSGD().quantised(values, block(values, numels))
    assert np.isfinite(sent).all()
    first = np.cumsum([0, *numels])
    for begin, end in pairwise(first):
        own, kept = values[:, begin:end].astype(float), sent[:, begin:end].astype(float)
        for row, out in zip(own, kept, strict=True):
            lost = np.square(row - out).sum()
            for factor in (0.9, 1.1):
                assert lost <= np.square(row - factor * out).sum() * (1 + 1e-6)
            assert lost <= np.square(row).sum() * (1 + 1e-6)


@pytest.mark.parametrize("workers", [2, 8, 33])
def test_a_thirty_second_of_dense_travels(workers):
    bucket = Bucket(0, (3200, 320), 0)
    member = SignSGD()
    selection = member.expect(bucket, workers, 10.0)
    gather, *rest = member.exchange(selection, bucket, workers, "collective")
    assert not any(isinstance(step, AllGather) for step in rest)
    assert (workers - 1) * gather.sizes(workers).max() == (workers - 1) * 4 * bucket.numel / 32
    vote = member.exchange(selection, bucket, workers, "push_pull")[0]
    full = Dense().exchange(selection, bucket, workers, "push_pull")[1]
    assert isinstance(full, PushPull)
    assert vote == PushPull(full.push_nbytes / 32, full.pull_nbytes / 32)


def test_of_a_sample_the_scale_is_the_mean_of_all_that_it_stands_for():
    """One value stands for 7 elements, the other for itself; without a sample every element counts once."""
    values = np.array([[2.0, -10.0]], dtype=np.float32)
    sampled = Block(values, np.zeros(2, int), np.array([0, 7]), np.array([7.0, 1.0]), (8,))
    assert SignSGD().quantised(values, sampled).tolist() == [[3.0, -3.0]]
    assert SignSGD().quantised(values, block(values, (2,))).tolist() == [[6.0, -6.0]]
