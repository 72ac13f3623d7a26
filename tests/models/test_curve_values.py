"""Curves beyond their points and exactly at their limits."""

import math

import pytest

from simulator.models.curves import Affine, NLogN, Piecewise
from simulator.models.widths import (
    PER_DOUBLING,
    UNSTATED_ERROR,
    curve_width,
    mape_of_width,
    nine_in_ten,
    width_of_deviation,
    width_of_mape,
)

POINTS = ((1e3, 1e-5), (1e5, 2e-5), (1e7, 1e-3))


@pytest.mark.parametrize(
    ("size", "seconds"),
    [
        # Halfway between two points, as logarithms, is the geometric mean of their times.
        (1e4, math.sqrt(1e-5 * 2e-5)),
        (1e6, math.sqrt(2e-5 * 1e-3)),
        # Twice in 100 below the first points, and 50 times in 100 above the last ones; also for less than one element.
        (1e1, 1e-5 / 2),
        (1e-1, 1e-5 / 4),
        (1e9, 1e-3 * 50),
        (1e11, 1e-3 * 2500),
    ],
)
def test_a_piecewise_curve_is_straight_on_logarithmic_axes(size, seconds):
    assert Piecewise(points=POINTS).time(size) == pytest.approx(seconds)


def test_a_time_that_no_float_can_hold_is_infinite():
    """n^19 seconds: 2^1007 at 2^53 elements, and 2^1026, more than the largest float, at 2^54."""
    curve = Piecewise(points=((1, 1), (2, 2**19)))
    assert curve.time(2.0**53) == pytest.approx(2.0**1007)
    assert curve.time(2.0**54) == math.inf


def test_a_range_holds_its_ends_and_nothing_beside_them():
    curve = Affine(range=(10, 100))
    assert [curve.in_range(sizes) for sizes in ([10, 100], [9, 50], [50, 101], [9, 101], 10, 9)] == [
        True, False, False, False, True, False,
    ]  # fmt: skip


def test_n_log_n_of_one_element_or_none_is_its_intercept():
    """log2(1) = 0, and there is no logarithm of 0 elements."""
    curve = NLogN(intercept=2e-6, coefficient=1.0)
    assert curve.time([0, 1]).tolist() == [2e-6, 2e-6]
    assert curve.time(2) == pytest.approx(2 + 2e-6)


@pytest.mark.parametrize(
    ("known", "size", "beyond", "side"),
    [
        *[((1, 8), 0.5, 1, "smaller"), ((1, 8), 0.25, 2, "smaller"), ((1, 8), 0.125, 3, "smaller")],
        *[((0.5, 1), 2.0, 1, "larger"), ((0.5, 1), 1.0, 0, "larger")],
    ],
)
def test_a_doubling_beyond_what_was_measured_counts_alike_around_one_element(known, size, beyond, side):
    """Curves measured from 1 to 8 elements, and from half an element to one."""
    curve = Affine(slope=1.0, range=known, held_out_mape=0.0)
    assert math.log(curve_width(curve, size)) == pytest.approx(beyond * math.log(PER_DOUBLING["affine", side]))


def test_nothing_is_not_beyond_any_range():
    """No number of doublings leads from 0 elements to some."""
    assert curve_width(Affine(slope=1.0, range=(10, 20)), 0.0) == pytest.approx(width_of_mape(UNSTATED_ERROR))


def test_widths_are_at_most_1000_and_nine_in_ten_of_the_normal_distribution():
    """1.645 standard deviations hold 95 % on one side; a mean absolute error of 1 is sqrt(pi / 2) of them."""
    assert width_of_deviation(1.0) == pytest.approx(math.exp(1.6448536269514722))
    assert width_of_mape(0.5) == pytest.approx(math.exp(1.6448536269514722 * math.sqrt(math.pi / 2) / 2))
    assert width_of_deviation(4.0) == pytest.approx(math.exp(4 * 1.6448536269514722))
    assert width_of_deviation(5.0) == pytest.approx(1000)
    for error in (0.01, 0.3, 2.0):
        assert mape_of_width(width_of_mape(error)) == pytest.approx(error)


@pytest.mark.parametrize("count", range(1, 31))
def test_nine_in_ten_leave_at_most_a_tenth_above(count):
    """The smallest of the values that at least nine in ten do not exceed."""
    values = range(count)
    least = next(value for value in values if 10 * sum(other <= value for other in values) >= 9 * count)
    assert nine_in_ten(values) == least
    with pytest.raises(IndexError):
        nine_in_ten([])
