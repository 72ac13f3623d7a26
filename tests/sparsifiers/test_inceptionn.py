"""INCEPTIONN against the bits that the released code shifts; its bytes and its closed form."""

import math
import struct

import numpy as np
import pytest
from common import block, sent_per_worker
from replayed import choose, select

from simulator.models.exchange import AllGather, Bucket, Compute, PushPull
from simulator.sparsifiers.inceptionn import Inceptionn


def reference(x, bound):
    """One element: bits that travel and the decoded value, by shifts of sign, exponent and fraction."""
    (word,) = struct.unpack("<I", struct.pack("<f", x))
    sign, exponent, fraction = word >> 31, word >> 23 & 0xFF, word & 0x7FFFFF
    lowest = 127 - bound
    if exponent >= 127:
        return 32, x
    if exponent < lowest:
        return 0, 0.0
    bits = 16 if exponent >= lowest + math.ceil(bound / 2) else 8
    coded = ((fraction >> 1 | 0x400000) >> (127 - exponent)) >> (24 - bits)
    coded = coded << 1 & (2**bits - 1)
    lead = coded.bit_length() - 1 if coded > 1 else 0
    shift = bits - lead
    magnitude = 2.0 ** (1 - shift) * (1 + (coded << shift & (2**bits - 1)) / 2**bits)
    return bits, -magnitude if sign else magnitude


@pytest.mark.parametrize("bound", [10, 7, 4])
def test_it_codes_as_the_shifts_of_the_released_code_do(bound):
    draws = np.random.default_rng(bound)
    values = (draws.standard_normal((2, 2000)) * 10.0 ** draws.uniform(-5, 1, (2, 2000))).astype(np.float32)
    values[:, :5] = 0.0, 1.0, -(2.0**-bound), 2.0**-5, np.nextafter(np.float32(1), np.float32(0))
    item, member = block(values, (1500, 500)), Inceptionn(bound_exponent=bound)
    _, selection, _, choice = select(member, member.start(item), item)
    expected = [[reference(float(x), bound) for x in row] for row in values]
    assert choice.sent.tolist() == [[value for _, value in row] for row in expected]
    for bits in (8, 16, 32):
        assert selection.detail[f"bits_{bits}"] == (sum(own == bits for row in expected for own, _ in row) / 2) > 0


def test_its_error_is_below_half_a_step_of_eight_bits():
    values = np.linspace(-2, 2, 4001, dtype=np.float32)[None]
    member, item = Inceptionn(), block(values, (4001,))
    error = np.abs(choose(member, values, item, {}).sent - values)[0]
    magnitude = np.abs(values[0])
    assert not error[magnitude >= 1].any()
    assert error[(magnitude >= 2**-5) & (magnitude < 1)].max() < 2**-14
    assert error.max() < 2**-6


def test_values_tags_and_lengths_travel():
    """Of 20 elements 2 take 32 bits, 3 take 16, 4 take 8; each tensor has a byte of tags more than n/4."""
    values = np.array([[5.0, -1.0, 0.5, 0.1, -0.04, 0.01, 0.02, -0.003, 0.001, *[1e-5] * 11]] * 4, dtype=np.float32)
    item, member, bucket = block(values, (13, 7)), Inceptionn(), Bucket(0, (13, 7), 0)
    selection = select(member, member.start(item), item)[1]
    steps = member.exchange(selection, bucket, 4, "collective")
    assert [step.nbytes for step in steps if isinstance(step, AllGather)] == [4, 6, 8, 4 + 2, 2 * 4 * 4]
    assert sent_per_worker(steps, 4) == pytest.approx([3 * 56] * 4)
    assert member.exchange(selection, bucket, 4, "push_pull")[0] == PushPull(24, 80)
    reads = [kernel.reads for kernel in member.compute(selection, bucket, 4) if isinstance(kernel, Compute)]
    assert sum(reads) == 2 * 3


def test_the_closed_form_is_what_laplace_gradients_give():
    scale, d = 5e-3, 200_000
    values = np.random.default_rng(9).laplace(0, scale / math.sqrt(2), (1, d)).astype(np.float32)
    member, item = Inceptionn(deviation=scale), block(values, (d,))
    drawn = select(member, member.start(item), item)[1].detail
    law = member.expect(Bucket(0, (d,), 0), 1, 1.0).detail
    for name in ("bits_8", "bits_16"):
        assert drawn[name] == pytest.approx(law[name], abs=5 * math.sqrt(law[name]) + 1)
    assert law["bits_8"] > 0.7 * d
    assert Inceptionn().expect(Bucket(0, (d,), 0), 1, 1.0).detail == {"bits_8": 0, "bits_16": d, "bits_32": 0}
