"""Where a function changes its sign."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import TypeVar

Gap = Callable[[float], float | None]
"""A number whose sign says which of two methods is faster at a value; None where they cannot be run."""
Found = TypeVar("Found")
Search = Generator[float, None, Found]
"""A search in steps: it hands out each value whose gap it asks for next, and returns what it found. So the gaps of many
searches can be computed together."""


def find_change(gap: Gap, low: float, high: float, precision: float) -> Search[float]:
    """The value between two others at which a gap changes its sign, within a share of `precision`.

    By regula falsi on the value's logarithm: each step goes to just behind the root of the straight line through both
    ends, on the side of the further end, so that both ends close in; every fourth goes to the middle, for jumps.
    """
    yield low
    yield high
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
        yield middle
        value = gap(middle)
        if value is None or (value < 0) != rising:
            high, at_high = middle, at_high if value is None else value
        else:
            low, at_low = middle, value
    return math.sqrt(low * high)


def find_whole_change(gap: Gap, low: float, high: float, share: float) -> Search[float]:
    """The last whole number on the faster side of a change of sign between two others, within a `share` of it."""
    yield low
    rising = (gap(low) or 0.0) < 0
    while high - low > max(1, low * share):
        middle = float((low + high) // 2)
        yield middle
        value = gap(middle)
        if value is None or (value < 0) != rising:
            high = middle
        else:
            low = middle
    return low if rising else high
