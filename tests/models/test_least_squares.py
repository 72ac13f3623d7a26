"""Least squares: known minima, bounds, outliers, and SciPy's minima on random problems."""

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

from simulator.models.linear_algebra import least_squares

X = np.linspace(0, 3, 40)


def decay(noise=0.0, wild=0):
    """Residuals of a exp(-b x) + c, with parameters (2, 1.5, 0.3)."""
    measured = 2 * np.exp(-1.5 * X) + 0.3 + noise * np.random.default_rng(3).standard_normal(len(X))
    measured[:wild] += 20
    return lambda p: p[0] * np.exp(-p[1] * X) + p[2] - measured


def test_what_made_the_data_comes_back():
    found, least = least_squares(decay(), np.ones(3))
    assert found == pytest.approx([2, 1.5, 0.3], rel=1e-6)
    assert least < 1e-12


def test_wild_values_count_little_with_a_soft_loss():
    plain, _ = least_squares(decay(0.01, wild=2), np.ones(3))
    soft, _ = least_squares(decay(0.01, wild=2), np.ones(3), soft=0.03)
    assert abs(plain[0] - 2) > 1
    assert soft == pytest.approx([2, 1.5, 0.3], rel=0.15)


@pytest.mark.parametrize("soft", [np.inf, 0.05])
@given(st.integers(0, 99), st.floats(0.001, 0.3))
def test_no_minimum_is_above_scipys(soft, seed, noise):
    measured = 2 * np.exp(-1.5 * X) + 0.3 + noise * np.random.default_rng(seed).standard_normal(len(X))

    def residuals(p):
        return p[0] * np.exp(-p[1] * X) + p[2] - measured

    loss = {} if np.isinf(soft) else {"loss": "soft_l1", "f_scale": soft}
    start, bounds = np.array([1.0, 1.0, 0.0]), (np.array([0.0, 0.1, -1.0]), np.array([5.0, 4.0, 0.35]))
    found, least = least_squares(residuals, start, bounds, soft=soft)
    other = scipy.optimize.least_squares(residuals, start, bounds=bounds, **loss)
    assert (found >= bounds[0]).all()
    assert (found <= bounds[1]).all()
    assert least <= 2 * other.cost * (1 + 1e-6)


def test_a_minimum_beyond_a_bound_is_on_it():
    found, least = least_squares(lambda p: p - np.array([-1.0, 2.0]), np.array([0.5, 0.5]), (0.0, 5.0))
    assert found.tolist() == pytest.approx([0.0, 2.0], abs=1e-9)
    assert found[0] == 0
    assert least == pytest.approx(1.0)


def test_a_parameter_without_effect_keeps_its_start():
    found, least = least_squares(lambda p: np.array([p[0] - 3.0, 0.0]), np.array([1.0, 7.0]))
    assert found == pytest.approx([3.0, 7.0])
    assert least < 1e-15
    assert least_squares(lambda p: np.ones(2), np.ones(2))[1] == 2.0


def test_a_coarse_step_looks_over_the_stairs_of_a_function():
    found, _ = least_squares(lambda p: np.round(p, 3) - 2.0, np.array([1.0]), (0.1, 10.0), step=0.01, tolerance=1e-6)
    assert found == pytest.approx([2.0], abs=1e-3)
