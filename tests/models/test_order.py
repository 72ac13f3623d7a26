"""Orders of values that differ by rounding only, and of links that are used alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.models.linear_algebra import SAME, largest_first

THIRD = 0.1 + 0.2


@pytest.mark.parametrize(
    ("values", "order"),
    [
        ([], []),
        ([0.3, THIRD, 0.3], [0, 1, 2]),
        ([1.0, 3.0, 2.0], [1, 2, 0]),
        ([0.0, 0.0, 5.0], [2, 0, 1]),
        ([1.0, 1 + 2 * SAME, 0.5, 0.5 * (1 + SAME / 2)], [1, 0, 2, 3]),
    ],
)
def test_equal_values_stay_in_their_order(values, order):
    assert THIRD != 0.3
    assert largest_first(np.array(values)).tolist() == order


@given(st.lists(st.sampled_from([0.0, 1.0, 1.5, 7.0]), max_size=20), st.integers(0, 99))
def test_rounding_changes_no_order(values, seed):
    exact = np.array(values)
    noise = 1 + 1e-15 * np.random.default_rng(seed).integers(-4, 5, len(values))
    assert largest_first(exact * noise).tolist() == largest_first(exact).tolist()
    assert largest_first(exact).tolist() == sorted(range(len(values)), key=lambda place: -values[place])
