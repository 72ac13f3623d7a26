"""Orders of values, of which those that differ by rounding only are equal."""

from __future__ import annotations

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints

SAME = 1e-9
"""Share by which values differ that are not equal: rounding is far below it."""


def largest_first(values: Floats) -> Ints:
    """The places of values (n,), none below 0, from the largest to the smallest; equal ones in the order of places."""
    order = np.argsort(-values, kind="stable")
    falling = values[order]
    group = np.cumsum(np.concatenate([[False], falling[1:] < falling[:-1] * (1 - SAME)])) if len(order) else order
    return order[np.lexsort((order, group))]
