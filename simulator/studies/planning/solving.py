"""The value of an unknown from which on, or up to which, a margin is not below 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

Margin = Callable[[float], float | None]
"""By which share a target is exceeded at a value; None where the scenario cannot be run there."""
_TIGHT = 1e-7
"""Relative width of the last interval of a bisection."""
_CLOSE = 1e-6
"""A margin at which a bisection ends."""


class Solution(NamedTuple):
    """`value`: the border, on the side where the target is met; None where no value tried meets it, or all do.

    `status`: `found`, `always` or `never`. `best`: the value tried with the largest margin. `upwards`: whether the
    target is met from the value on; otherwise up to it. `again`: whether it is met and missed in turn elsewhere.
    """

    status: str
    best: float
    value: float | None = None
    upwards: bool = True
    again: bool = False


def find_border(margin: Margin, tried: Sequence[float], least: bool, whole: bool = False) -> Solution | None:
    """Where the target begins to be met; None where no value tried could be run.

    `tried` rise. Of several stretches that meet the target, that which holds the end where most is spent counts: a
    larger value if the `least` is asked for; where that end misses it, the stretch at the other end, or any.
    """
    known = [(value, found) for value in tried if (found := margin(value)) is not None]
    if not known:
        return None
    best = max(known, key=lambda item: item[1])[0]
    met = [found >= 0 for _, found in known]
    if not any(met):
        return Solution("never", best)
    if all(met):
        return Solution("always", best)
    changes = sum(one != other for one, other in pairwise(met))
    upwards = met[-1] if least else not met[0]
    if met[0] == met[-1]:  # inside or outside of a stretch: what is asked for is its least, or most, value
        upwards = least
    order = range(len(met) - 2, -1, -1) if upwards else range(len(met) - 1)
    place = next(i for i in order if met[i] != met[i + 1] and met[i + 1] == upwards)
    low, high = known[place][0], known[place + 1][0]
    return Solution("found", best, _bisect(margin, low, high, upwards, whole), upwards, changes > 1)


def _bisect(margin: Margin, low: float, high: float, upwards: bool, whole: bool) -> float:
    """The border between two values, on the side that meets the target."""
    good, bad = (high, low) if upwards else (low, high)
    while abs(good - bad) > 1 if whole else abs(math.log(good / bad)) > _TIGHT:
        middle = round((good + bad) / 2) if whole else math.sqrt(good * bad)
        if middle in (good, bad):
            break
        found = margin(middle)
        if found is not None and found >= 0:
            good = middle
            if not whole and found < _CLOSE:
                break
        else:
            bad = middle
    return good
