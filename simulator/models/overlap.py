"""Gradient build-up in closed form: how many coordinates are chosen by at least one of n workers."""

from __future__ import annotations

import math

import numpy as np

INDEPENDENT = math.inf
"""Concentration at which workers choose independently."""


def union_density(density: float, workers: int, concentration: float = INDEPENDENT) -> float:
    """Expected share of coordinates that at least one worker selects, K(n)/d.

    Beta-binomial law: each coordinate has its own chance q of being selected, q ~ Beta(a, b) with a = rho*c and
    b = (1 - rho)*c; then K(n)/d = 1 - B(a, b + n)/B(a, b). Independence is c -> infinity, 1 - (1 - rho)^n; identical
    choices c -> 0, rho. Zen (OSDI'25) measured 1.06 % -> 40.8 % over 128 GPUs for BERT gradients, c = 28.9:

    >>> round(union_density(0.0106, 128, 28.9), 3), round(union_density(0.0106, 128), 3)
    (0.408, 0.744)
    """
    if density <= 0 or workers <= 0:
        return 0.0
    if density >= 1:
        return 1.0
    if concentration <= 0:
        return density
    if math.isinf(concentration):
        return -math.expm1(workers * math.log1p(-density))
    # The ratio of beta functions written out, prod over i < n of (b + i)/(c + i): no difference of large logarithms.
    later = np.arange(1, workers)
    log_missed = math.log1p(-density) + np.log1p(-density * (concentration / (concentration + later))).sum()
    return -math.expm1(float(log_missed))
