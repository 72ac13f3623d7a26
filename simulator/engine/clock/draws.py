"""How workers differ in one iteration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints


@dataclass(frozen=True, slots=True)
class Draws:
    """How the workers differ in one iteration: compute factors (p,) and standard normal draws of the selection (p,)."""

    compute: Floats
    selection: Floats


ALIKE = Draws(np.ones(1), np.zeros(1))
"""All workers are alike, so that one stands for all."""


def foremost_workers(compute: Floats, selection: Floats) -> Ints:
    """Indices of the workers that no other worker exceeds in both draws; the slowest at any time is among them."""
    order = np.lexsort((-selection, -compute))
    ahead = np.maximum.accumulate(selection[order])
    keep = np.ones(len(order), dtype=bool)
    keep[1:] = selection[order][1:] > ahead[:-1]
    return order[keep]
