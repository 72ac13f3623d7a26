"""Number formats of few bits against all of their numbers, and against plain loops."""

import numpy as np
import pytest

from simulator.sparsifiers.quantised_all_reduce import FORMATS


def nearest(values, magnitudes):
    """The nearest of all numbers of a format, of which the largest stands for the largest magnitude."""
    top = max(abs(x) for x in values)
    numbers = [sign * m * top / max(magnitudes) for m in magnitudes for sign in (1, -1)]
    return [min(abs(x - number) for number in numbers) for x in values]


E4M3 = [m / 8 * 2.0**-6 for m in range(8)] + [
    (1 + m / 8) * 2.0**e for e in range(-6, 9) for m in range(8) if (e, m) != (8, 7)
]
ALL = {"int8": list(range(128)), "int4": list(range(8)), "fp8": E4M3, "e3m0": [0.0] + [2.0**e for e in range(7)]}


@pytest.mark.parametrize("name", ALL)
def test_a_value_becomes_the_nearest_number(name):
    assert max(E4M3) == 448
    values = (np.random.default_rng(6).standard_normal(400) ** 3).tolist()
    values += [max(values) * 2.0**-k * s for k in (5, 8, 14, 16, 18) for s in (1.1, 1.3, 1.45, 1.6)]  # where steps end
    decoded = FORMATS[name].rounded(np.array(values), len(values))
    np.testing.assert_allclose(np.abs(decoded - values), nearest(values, ALL[name]), atol=1e-12)
    assert len(np.unique(np.abs(decoded))) <= len(ALL[name])


def test_signs_keep_the_norm():
    values = np.array([3.0, -4.0, 0.0, 5.0])
    decoded = FORMATS["sign"].rounded(values, 4)
    assert np.sign(decoded).tolist() == [1, -1, 1, 1]
    assert np.linalg.norm(decoded) == pytest.approx(np.linalg.norm(values))


@pytest.mark.parametrize("name", FORMATS)
def test_every_row_has_a_scale_of_its_own_and_the_last_may_be_shorter(name):
    values = np.random.default_rng(8).standard_normal(70) * np.repeat([1.0, 1e6, 1e-6], [32, 32, 6])
    whole = FORMATS[name].rounded(values, 32)
    parts = [FORMATS[name].rounded(part, len(part)) for part in (values[:32], values[32:64], values[64:])]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    np.testing.assert_array_equal(FORMATS[name].rounded(np.zeros(5), 2), np.zeros(5))
    assert len(FORMATS[name].rounded(np.zeros(0), 1)) == 0
