"""A hash of 64-bit integers that is the same in every process."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]


def splitmix64(values: Hashes) -> Hashes:
    """SplitMix64's finaliser (Steele, Lea and Flood 2014), one-to-one: different values stay different."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
