"""Token buckets of links: bytes that a link lets through at once after it was idle."""

from __future__ import annotations

from collections.abc import Sequence

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

    def take(self, numbers: Sequence[int], nbytes: Sequence[float]) -> list[float]:
        """Bytes that pass at once of messages of the types `numbers` that start together.

        What a bucket holds is shared evenly by those that start, and a message passes what the emptiest share on its
        way allows. Nothing is stored between links, so afterwards all buckets on the way hold as much as that share has
        left.
        """
        wanted, left = np.zeros_like(self.content), np.zeros_like(self.content)
        entries = [np.flatnonzero(self.rates.type_of == number) for number in numbers]
        for on in entries:
            np.add.at(wanted, self.rates.link_of[on], self.rates.messages[on])
        made = []
        for on, most in zip(entries, nbytes, strict=True):
            links, messages = self.rates.link_of[on], self.rates.messages[on]
            share = float((self.content[links] / wanted[links]).min())
            made.append(min(share, most))
            np.add.at(left, links, (share - made[-1]) * messages)
        self.content = np.where(wanted > 0, left, self.content)
        return made
