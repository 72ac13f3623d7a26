"""Gaussian-k: a threshold from a normal distribution."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import ClassVar

import numpy as np
from pydantic import Field

from simulator.models.gradients import Block, Choice, Mask, State, Values
from simulator.models.sampling import mean_of, moments_of
from simulator.sparsifiers.estimated import EstimatedThreshold, Unit


class GaussianK(EstimatedThreshold, kind="gaussiank"):
    """Gaussian-k: the threshold for the density under a normal distribution, corrected in a few passes.

    With mean mu and standard deviation sigma of u over a unit, threshold = mu + sigma z, z = ppf(1 - density/2); one
    pass counts |u| > threshold. For counts below 2k/3 the threshold is halved, for counts above 4k/3 it is multiplied
    by 1.5, and otherwise the loop stops; it ends after `loops` passes in any case (Shi et al. 2019, 1911.08772; the
    released GaussianK-SGD has 3, its variant without residuals 5). The count is in [2k/3, 4k/3] only if the loop
    stopped before its limit, which heavy tails often prevent. `converged` in the detail is the share of units where it
    did. The closed form takes u as normal: one pass, k elements. Pairs are gathered at the largest count.
    """

    statistics_read: ClassVar[int] = 2

    loops: int = Field(default=3, ge=1, le=100)

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """All |u| above the threshold of the last pass."""
        z = -NormalDist().inv_cdf(self.density / 2)

        def search(unit: Unit) -> tuple[Mask, float, bool]:
            # A single element has no deviation: its threshold starts at its own value and is then halved.
            alone = len(unit.values) < 2
            of = unit.values, unit.weight
            mean, variance = (mean_of(*of), 0.0) if alone else moments_of(*of, ddof=1)
            threshold = mean + math.sqrt(variance) * z
            magnitudes, k = np.abs(unit.values), unit.k
            passes, low, high = 0, True, True
            while passes < self.loops and (low or high):
                passes += 1
                mask = magnitudes > threshold
                count = unit.count(mask)
                low, high = 3 * count < 2 * k, 3 * count > 4 * k
                threshold *= 0.5 if low else 1.5 if high else 1.0
            return mask, passes, not (low or high)

        return self.searched(u, block, search)
