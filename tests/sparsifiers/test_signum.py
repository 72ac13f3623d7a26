"""Signum against a loop of momenta; EF-signSGD is signSGD with error feedback."""

import numpy as np
import pytest
from common import block
from replayed import select

from simulator.models.exchange import AllGather, Bucket, PushPull
from simulator.sparsifiers.efsignsgd import EFSignSGD
from simulator.sparsifiers.signsgd import SignSGD
from simulator.sparsifiers.signum import Signum


def test_it_sends_the_signs_of_the_momentum():
    draws, numels = np.random.default_rng(3), (30, 5)
    member, state, momentum = Signum(momentum=0.8), None, np.zeros((2, 35))
    opposite = 0
    for iteration in range(6):
        values = draws.standard_normal((2, 35)).astype(np.float32)
        item = block(values, numels, iteration)
        state = member.start(item) if state is None else state
        state, _, _, choice = select(member, state, item)
        momentum = 0.8 * momentum + 0.2 * values
        assert (np.sign(choice.sent) == np.sign(momentum)).all()
        opposite += int((np.sign(choice.sent) != np.sign(values)).sum())
        for worker, (begin, end) in ((worker, part) for worker in range(2) for part in ((0, 30), (30, 35))):
            scale = np.abs(momentum[worker, begin:end]).mean()
            np.testing.assert_allclose(np.abs(choice.sent[worker, begin:end]), scale, rtol=1e-5)
    assert opposite > 50


@pytest.mark.parametrize(("bits", "codes"), [(1, 4.0), (8, 25.0)])
@pytest.mark.parametrize(("kind", "scales"), [(SignSGD, 0), (Signum, 0), (EFSignSGD, 12)])
def test_signs_are_packed_or_a_byte_each(kind, scales, bits, codes):
    """25 signs in three tensors; servers return the vote, or the sum where magnitudes travel."""
    member, bucket = kind(bits=bits), Bucket(0, (13, 4, 8), 0)
    selection = member.expect(bucket, 4, 1.0)
    gathers = [
        step.nbytes for step in member.exchange(selection, bucket, 4, "collective") if isinstance(step, AllGather)
    ]
    assert gathers == [codes, scales][: 1 + bool(scales)]
    pulled = 100.0 if scales else codes
    assert member.exchange(selection, bucket, 4, "push_pull")[0] == PushPull(codes + scales, pulled)


def test_ef_signsgd_is_signsgd_with_error_feedback():
    values = np.random.default_rng(4).standard_normal((2, 3, 20)).astype(np.float32)
    outcomes = []
    for member in (EFSignSGD(), SignSGD(error_feedback=True)):
        state = None
        for iteration, each in enumerate(values):
            item = block(each, (20,), iteration)
            state, _, _, choice = select(member, member.start(item) if state is None else state, item)
        outcomes.append(choice.sent.tolist())
    assert outcomes[0] == outcomes[1]
