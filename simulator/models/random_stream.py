"""The counter-based stream that all random differences come from: any part of it is drawn without the parts before."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What a draw is for; each purpose has draws of its own."""

    COMPUTE = 0
    SELECTION = 1
    FAILURES = 2


def random_stream(seed: int, purpose: Purpose, iteration: int) -> np.random.Generator:
    """The draws of one purpose in one iteration (Philox, Salmon et al. 2011), worker by worker from the start.

    More workers or iterations leave the draws of the others alone.

    >>> [round(float(random_stream(0, Purpose.COMPUTE, 3).standard_normal(n)[0]), 6) for n in (1, 1000)]
    [-1.744531, -1.744531]
    """
    return np.random.Generator(np.random.Philox(key=[seed, purpose], counter=[0, 0, iteration, 0]))
