"""8-bit codes against the nearest of all magnitudes, and against magnitudes of the released table."""

import numpy as np
import pytest
from common import block

from simulator.sparsifiers.eight_bit import EightBit, magnitudes


def test_the_magnitudes_are_those_of_the_released_table():
    """GRACE's table, grace_dl/tensorflow/compressor/u8bit.py: the second value, borders of decades and halves."""
    made = magnitudes()
    assert len(made) == 127
    assert (np.diff(made) > 0).all()
    published = [2.75e-06, 7.25e-06, 1.875e-05, 8.6249995e-05, 1.4375e-04, 9.6562495e-03, 1.109375e-02]
    published += [9.8281242e-02, 1.0546875e-01, 4.4453126e-01, 4.5859376e-01, 9.9140614e-01]
    for value in published:
        assert np.abs(made / value - 1).min() < 1e-6
    assert made[[1, -1]] == pytest.approx([2.75e-6, 0.99140614])


def test_every_element_becomes_the_nearest_magnitude_of_its_tensor():
    numels, draws = (500, 1, 60), np.random.default_rng(5)
    values = (draws.standard_normal((2, 561)) ** 5).astype(np.float32)
    values[0, 500:] = 0.0
    values[1, 100] = 0.0
    sent = EightBit().quantised(values, block(values, numels))
    codes = [0.0, *magnitudes()[1:]]
    for row, out in zip(values, sent, strict=True):
        for begin, end in ((0, 500), (500, 501), (501, 561)):
            scale = max(abs(float(x)) for x in row[begin:end])
            for x, got in zip(row[begin:end], out[begin:end], strict=True):
                nearest = min(codes, key=lambda code, x=x: abs(code * scale - abs(float(x))))
                assert got == pytest.approx(np.copysign(nearest * scale, x), rel=1e-6)


def test_the_relative_error_is_small_over_five_decades():
    """At most half a cell: 0.55/64 of the largest in the last decade, about a half of the smallest magnitudes."""
    u = np.array([[*np.logspace(-5, 0, 5000), 1.0]], dtype=np.float32)
    error = np.abs(EightBit().quantised(u, block(u, (5001,))) - u)[0]
    assert error.max() <= 0.55 / 32 / 2 + 1e-6
    assert (error / u[0]).max() < 0.5
    assert (error / u[0])[u[0] > 0.1].max() < 0.06
