"""Token buckets of links: what passes at once after a link was idle."""

from __future__ import annotations

import numpy as np

from simulator.engine.rounds.sharing import Sharing
from simulator.models.curves import Floats


class Buckets:
    """What the token bucket of a link of each class holds, in bytes; full at first.

    A bucket fills at the link's rate while the link carries less than that (RFC 3290, token buckets), so that it never
    holds anything behind a message that keeps the link busy.
    """

    def __init__(self, depth: Floats, sharing: Sharing) -> None:
        self.depth, self.held, self.sharing = depth, depth.copy(), sharing

    def fill(self, active: Floats, rates: Floats, seconds: float) -> None:
        """Time has passed in which flows were under way at these rates (T,)."""
        spare = np.maximum(self.sharing.capacity - self.sharing.load(active, rates), 0.0)
        self.held = np.minimum(self.depth, self.held + spare * seconds)

    def take(self, number: int, nbytes: float) -> float:
        """Bytes of a message of type `number` that pass at once: what the buckets on its way hold for it.

        Nothing is stored between links, so the fuller bucket has no more left afterwards than the other.
        """
        on = self.sharing.type_of == number
        links, messages = self.sharing.link_of[on], self.sharing.messages[on]
        most = float((self.held[links] / messages).min())
        passed = min(most, nbytes)
        self.held[links] = (most - passed) * messages
        return passed
