"""Widths from errors, and what holds nine in ten."""

import math

import pytest

from simulator.models.widths import nine_in_ten, width_of_deviation, width_of_mape


def test_a_width_holds_nine_in_ten_of_normal_errors():
    from scipy.stats import norm

    width = width_of_mape(0.1)
    deviation = 0.1 * math.sqrt(math.pi / 2)  # of a normal error with this mean absolute value
    assert norm.cdf(math.log(width) / deviation) - norm.cdf(-math.log(width) / deviation) == pytest.approx(
        0.9, abs=1e-4
    )
    assert width_of_deviation(0.0) == 1
    assert width_of_deviation(1e9) == pytest.approx(1000)


def test_nine_in_ten_are_not_above():
    assert nine_in_ten(range(1, 11)) == 9
    assert nine_in_ten(range(1, 21)) == 18
    assert nine_in_ten([3, 1, 2]) == 3
