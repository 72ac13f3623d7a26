"""How errors of predictions are distributed: how far measured times lie out, in units of what the doubts say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from statistics import NormalDist

from simulator.models.widths import NORMAL_95
from simulator.records import Record, field

SHARES = (50, 80, 90)
"""Per cent of cases that intervals are to hold."""
_NORMAL = {percent: NormalDist().inv_cdf(0.5 + percent / 200) / NORMAL_95 for percent in SHARES}


class Tails(Record):
    """The half-width of an interval over the half-width that the ends of all doubts give, by per cent of cases.

    The ends of a doubt are those of nine cases in ten, so that 1 at 90 % says that the doubts are right about
    themselves. The default is the normal distribution; measured rows have more small and more large errors than it has
    (`simulator.studies.validate.model_error` fits them).
    """

    stretch: Mapping[int, float] = field(default_factory=lambda: _NORMAL)

    def beyond(self, distance: float) -> float:
        """The probability that an error is larger than `distance`, in units of what the doubts give.

        By straight lines between the shares that are known, in the logarithm of the probability, and beyond the last
        one by its last slope.
        """
        distance = abs(distance)
        known = [(0.0, 0.0), *((self.stretch[percent], math.log(1 - percent / 100)) for percent in SHARES)]
        for (start, above), (end, below) in pairwise(known):
            slope = (below - above) / (end - start) if end > start else -math.inf
            if distance <= end:
                return math.exp(above + slope * (distance - start)) if distance > start else math.exp(above)
        return math.exp(below + slope * (distance - end))


NORMAL = Tails()
