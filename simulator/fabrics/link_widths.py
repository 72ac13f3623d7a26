"""Placeholder until measured."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from simulator.fabrics.base import Fabric


class LinkWidth(NamedTuple):
    """Factors by which a link law may be wrong."""

    rate: float
    start_up: float
    level: Literal["measured", "transferred", "assumed"]
    source: str


def link_width(network: Fabric, nodes: int) -> LinkWidth:
    """Between nodes."""
    if network.held_out_mape is not None:
        width = math.exp(1.6449 * math.sqrt(math.pi / 2) * network.held_out_mape)
        return LinkWidth(width, 1.5, "measured", "held-out error")
    return LinkWidth(1.25, 2.0, "assumed", "prior")


def link_width_inside(network: Fabric) -> LinkWidth:
    """Inside a node."""
    return LinkWidth(1.1, 1.5, "assumed", "prior")
