"""Widths: factors within which a value is right, either way, in nine of ten cases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist

NORMAL_95 = NormalDist().inv_cdf(0.95)
"""Standard deviations between the median and the 95th percentile of a normal distribution."""
DEVIATION = math.sqrt(math.pi / 2)
"""Standard deviation of a normal error whose mean absolute value is 1."""
_MOST = 1000.0


@cache
def student_95(freedom: float) -> float:
    """The 95th percentile of Student's distribution."""
    from scipy.special import stdtrit  # heavy, and only for this width

    return -float(stdtrit(freedom, 0.05))


def width_of_deviation(deviation: float) -> float:
    """The factor exp(1.645 s) of a value whose logarithm has the standard deviation s; at most 1000."""
    return math.exp(min(NORMAL_95 * deviation, math.log(_MOST)))


def width_of_mape(error: float) -> float:
    """The factor of a value whose mean absolute relative error is m: exp(1.645 sqrt(pi / 2) m); at most 1000."""
    return width_of_deviation(DEVIATION * error)


def nine_in_ten(values: Sequence[float]) -> float:
    """What nine in ten of the values do not exceed; with fewer than ten, none does. Raises IndexError without any."""
    return sorted(values)[-(-9 * len(values) // 10) - 1]


def mape_of_width(width: float) -> float:
    """The mean absolute relative error of what is right within a factor in nine of ten cases: ln(w) / 1.645 / 1.253."""
    return math.log(width) / NORMAL_95 / DEVIATION
