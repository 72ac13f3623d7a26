"""Signum against a loop of momenta; EF-signSGD is signSGD with error feedback."""

import numpy as np
import pytest
from common import run

from simulator.models.exchange import AllGather, Bucket, PushPull
from simulator.sparsifiers.efsignsgd import EFSignSGD
from simulator.sparsifiers.onebit import OneBit
from simulator.sparsifiers.signsgd import SignSGD
from simulator.sparsifiers.signum import Signum


def test_it_sends_the_signs_of_the_momentum():
    gradients = np.random.default_rng(3).standard_normal((6, 2, 35)).astype(np.float32)
    momentum, opposite = np.zeros((2, 35)), 0
    for values, (*_, choice) in zip(gradients, run(Signum(momentum=0.8), gradients, (30, 5)), strict=True):
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
    members = EFSignSGD(), SignSGD(error_feedback=True)
    outcomes = [[choice.sent.tolist() for *_, choice in run(member, values)] for member in members]
    assert outcomes[0] == outcomes[1]
    bucket = Bucket(0, (13, 4, 8), 0)
    steps = [member.carry_out(member.expect(bucket, 4, 1.0), bucket, 4, "collective") for member in members]
    assert steps[0] == steps[1]


@pytest.mark.parametrize("kind", [SignSGD, Signum, EFSignSGD, OneBit])
def test_grace_sends_a_byte_per_code_unless_bits_are_stated(kind):
    """25 codes in three tensors."""
    members = [kind(), kind(implementation="grace"), kind(implementation="grace", bits=1)]
    assert [member.payload((13, 4, 8))[0] for member in members] == [4, 25, 4]
