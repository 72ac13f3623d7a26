"""What the ends of one input alone do to the 90 % interval."""

import math

from simulator.prediction.doubts.own_error import shipped_tails


def in_interval(seconds, time):
    """Seconds by which the interval of a time is longer where an end of an input adds so many, or takes them away."""
    return time * math.expm1(shipped_tails().stretch[90] * math.log1p(seconds / time))
