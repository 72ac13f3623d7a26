"""Natural compression against the bits of a float; its mean, its variance."""

import struct

import numpy as np
import pytest
from common import block

from simulator.sparsifiers.natural import Natural


def reference(x, draw):
    """One element, by sign, exponent and fraction of its 32 bits, coded into a byte and back."""
    (word,) = struct.unpack("<I", struct.pack("<f", x))
    sign, exponent, fraction = word >> 31, word >> 23 & 0xFF, word & 0x7FFFFF
    exponent += fraction > draw * 2**23
    code = min(max(exponent, 18), 145) - 18
    return 0.0 if not code else (-1) ** sign * 2.0 ** (code + 18 - 127)


def test_it_rounds_as_the_bits_of_each_element_do():
    draws = np.random.default_rng(2)
    values = (draws.standard_normal((2, 3000)) * 10.0 ** draws.integers(-37, 9, (2, 3000))).astype(np.float32)
    values[0, :4] = 0.0, 1.0, -(2.0**-40), 2.0**18
    sent = Natural(seed=4).quantised(values, block(values, (3000,), 7))
    for worker in range(2):
        chance = np.random.default_rng([4, 7, worker]).random(3000, dtype=np.float32)
        expected = [reference(float(x), float(draw)) for x, draw in zip(values[worker], chance, strict=True)]
        assert sent[worker].tolist() == expected


@pytest.mark.parametrize("bits", [8, 9])
def test_its_mean_is_the_gradient_and_its_variance_at_most_an_eighth_of_the_square(bits):
    """Mean over 4,000 draws within 5 standard errors; the paper's theorem gives the variance."""
    repeats, u = 4000, np.linspace(-3, 3, 121).astype(np.float32)
    values = np.tile(u, (repeats, 1))
    sent = Natural(bits=bits).quantised(values, block(values, (len(u),))).astype(float)
    variance = sent.var(axis=0)
    assert (np.abs(sent.mean(axis=0) - u) <= 5 * np.sqrt(variance / repeats) + 1e-9).all()
    assert (variance <= u.astype(float) ** 2 / 8 * 1.06 + 1e-12).all()
    assert (variance / np.maximum(u.astype(float) ** 2, 1e-12)).max() > 0.12


def test_nine_bits_keep_what_eight_cannot():
    values = np.array([[2.0**-120, 2.0**100, -3e38]], dtype=np.float32)
    item = block(values, (3,))
    assert Natural(bits=8).quantised(values, item).tolist() == [[0.0, 2.0**18, -(2.0**18)]]
    assert Natural(bits=9).quantised(values, item).tolist() == [[2.0**-120, 2.0**100, -(2.0**127)]]
