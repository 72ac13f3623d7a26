"""Token buckets of links: bytes that a link lets through at once after it was idle."""

from __future__ import annotations

import numpy as np

from simulator.engine.rounds.max_min_rates import MaxMinRates
from simulator.models.curves import Floats


class TokenBuckets:
    """How many bytes the token bucket of a link of each class holds (L,); all are full at first.

    A bucket fills at the link's rate less what the link carries (RFC 3290), so that it stays empty while a message
    keeps the link busy.
    """

    def __init__(self, depth: Floats, rates: MaxMinRates) -> None:
        self.depth, self.content, self.rates = depth, depth.copy(), rates

    def fill(self, active: Floats, rates: Floats, seconds: float) -> None:
        """Fill the buckets for `seconds` in which flows of each type were `active` at these rates, both (T,)."""
        spare = np.maximum(self.rates.capacity - self.rates.load(active, rates), 0.0)
        self.content = np.minimum(self.depth, self.content + spare * seconds)

    def take(self, number: int, nbytes: float) -> float:
        """Bytes of a message of type `number` that pass at once: what the emptiest bucket on its way holds.

        Nothing is stored between links, so all buckets on the way hold equally much afterwards.
        """
        on = self.rates.type_of == number
        links, messages = self.rates.link_of[on], self.rates.messages[on]
        most = float((self.content[links] / messages).min())
        passed = min(most, nbytes)
        self.content[links] = (most - passed) * messages
        return passed
