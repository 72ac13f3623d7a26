"""Who sends how much to whom: the rounds of a plan, summed over pairs of places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.engine.pricing import Wires, on_the_wire
from simulator.models.curves import Floats
from simulator.models.exchange import Communication


def traffic_between(
    steps: Sequence[Communication], uses: Sequence[tuple[int, int]], wires: Wires, live: bool
) -> Floats:
    """Bytes (P, P) that each place (row) sends to each other (column) in one iteration.

    `uses` are pairs (slot of the bucket, place in `steps`) and `live` is as for `price`: its traffic, by sender, is
    what the rows of this matrix sum to.
    """
    layout = wires.wiring.layout
    matrix = np.zeros(layout.places**2)
    for slot, place in uses:
        phases = on_the_wire(steps[place], slot, wires, protocols=live)
        for item in (item for rounds in phases for item in rounds):
            pair = item.src * layout.places + item.dst
            matrix += np.bincount(pair, weights=item.repeat * item.nbytes[0], minlength=len(matrix))
    return matrix.reshape(layout.places, layout.places)
