"""The traffic matrix: bytes of a plan's rounds, summed over pairs of sender and receiver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.phases import phases_of
from simulator.models.exchange import Communication

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def traffic_between(
    steps: Sequence[Communication], uses: Sequence[tuple[int, int]], network: NetworkSetup, shared: bool
) -> csr_array:
    """Bytes (P, P), sparse, that each place (row) sends to each other (column) in one iteration.

    `uses` are pairs (slot of the bucket, place in `steps`). `shared`: exchanges meet more on the links than the job's
    own collectives; then all bytes of the protocol count. The prices' traffic, by sender, is what the rows sum to.
    """
    from scipy.sparse import coo_array, csr_array  # heavy, and only for who asks

    places = network.wiring.layout.places
    matrix = csr_array((places, places))
    # Only where exchanges meet others on the links do a bucket's messages depend on its slot.
    counts = Counter(uses if shared else [(0, place) for _, place in uses])
    for (slot, place), times in counts.items():
        rounds = [item for phase in phases_of(steps[place], slot, network, protocol=shared) for item in phase]
        if rounds:
            source, destination = (np.concatenate([getattr(item, end) for item in rounds]) for end in ("src", "dst"))
            nbytes = np.concatenate([times * item.repeat * item.nbytes[0] for item in rounds])
            matrix = matrix + coo_array((nbytes, (source, destination)), shape=(places, places)).tocsr()
    return matrix
