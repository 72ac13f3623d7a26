"""signSGD: its scale, its bytes, and what error feedback mends."""

from itertools import pairwise

import numpy as np
from common import block, run
from hypothesis import given
from hypothesis import strategies as st

from simulator.models.gradients import Block
from simulator.sparsifiers.signsgd import SignSGD


def test_error_feedback_reaches_the_mean_gradient_where_signs_alone_do_not():
    """A constant gradient of unlike entries: the running mean of what is sent comes to it only with feedback."""
    g = np.array([[1.0, 0.1, -0.02, 3.0]], dtype=np.float32)
    distance = {}
    for error_feedback in (False, True):
        steps = run(SignSGD(error_feedback=error_feedback), [g] * 400)
        distance[error_feedback] = float(np.abs(sum(choice.sent.astype(float) for *_, choice in steps) / 400 - g).max())
    assert distance[True] < 0.1
    assert distance[False] > 1


@given(
    numels=st.lists(st.integers(1, 60), min_size=1, max_size=4), exponent=st.integers(-36, 16), seed=st.integers(0, 99)
)
def test_no_other_single_scale_loses_less(numels, exponent, seed):
    values = (10.0**exponent * np.random.default_rng(seed).standard_normal((2, sum(numels)))).astype(np.float32)
    sent = SignSGD().quantised(values, block(values, numels))
    assert np.isfinite(sent).all()
    for begin, end in pairwise(np.cumsum([0, *numels])):
        own, kept = values[:, begin:end].astype(float), sent[:, begin:end].astype(float)
        for row, out in zip(own, kept, strict=True):
            lost = np.square(row - out).sum()
            for factor in (0.9, 1.1):
                assert lost <= np.square(row - factor * out).sum() * (1 + 1e-6)
            assert lost <= np.square(row).sum() * (1 + 1e-6)


def test_of_a_sample_the_scale_is_the_mean_of_all_that_it_stands_for():
    """One value stands for 7 elements, the other for itself; without a sample every element counts once."""
    values = np.array([[2.0, -10.0]], dtype=np.float32)
    sampled = Block(values, np.zeros(2, int), np.array([0, 7]), np.array([7.0, 1.0]), (8,))
    assert SignSGD().quantised(values, sampled).tolist() == [[3.0, -3.0]]
    assert SignSGD().quantised(values, block(values, (2,))).tolist() == [[6.0, -6.0]]
