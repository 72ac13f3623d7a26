"""Where a function changes its sign."""

from __future__ import annotations

import math
from collections.abc import Callable

Gap = Callable[[float], float | None]
"""A number whose sign says which of two methods is faster at a value; None where they cannot be run."""


def find_change(gap: Gap, low: float, high: float, precision: float) -> float:
    """The value between two others at which a gap changes its sign, within a share of `precision`.

    By regula falsi on the value's logarithm: each step goes to just behind the root of the straight line through both
    ends, on the side of the further end, so that both ends close in; every fourth goes to the middle, for jumps.
    """
    at_low, at_high = gap(low) or 0.0, gap(high) or 0.0
    rising, step = at_low < 0, 0
    while (width := math.log(high / low)) > math.log1p(precision):
        step += 1
        share = 0.5
        if step % 4 and at_low != at_high:
            root = at_low / (at_low - at_high)
            behind = 0.4 * precision / width
            share = min(1 - behind, max(behind, root + math.copysign(behind, 0.5 - root)))
        middle = low * math.exp(width * share)
        value = gap(middle)
        if value is None or (value < 0) != rising:
            high, at_high = middle, at_high if value is None else value
        else:
            low, at_low = middle, value
    return math.sqrt(low * high)
