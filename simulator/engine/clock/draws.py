"""How workers differ in one iteration."""

from __future__ import annotations

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.records import Record


class Draws(Record):
    """How the workers differ in one iteration: compute factors (p,) and standard normal draws of the selection (p,)."""

    compute: Floats
    selection: Floats


ALIKE = Draws(np.ones(1), np.zeros(1))
"""All workers are alike, so that one stands for all."""


def foremost_workers(compute: Floats, selection: Floats) -> Ints:
    """Indices of the workers that no other worker exceeds in both draws; the slowest at any time is among them."""
    # Most are behind one that is far ahead in both, which is cheaper to see than their order.
    first = int(np.argmax(_from_0_to_1(compute) + _from_0_to_1(selection)))
    behind = (compute <= compute[first]) & (selection <= selection[first])
    behind &= (compute < compute[first]) | (selection < selection[first])
    left = np.flatnonzero(~behind)
    compute, selection = compute[left], selection[left]
    order = np.lexsort((-selection, -compute))
    ahead = np.maximum.accumulate(selection[order])
    keep = np.ones(len(order), dtype=bool)
    keep[1:] = selection[order][1:] > ahead[:-1]
    return left[order[keep]]


def _from_0_to_1(values: Floats) -> Floats:
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.zeros_like(values)
