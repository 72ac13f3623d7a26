"""Gradient build-up in closed form: how many elements at least one of n workers selects."""

from __future__ import annotations

import math
from functools import cache, lru_cache

import numpy as np

from simulator.models.curves import Floats
from simulator.models.linear_algebra import weigh
from simulator.records import Record

_NODES = 201
_OUTERMOST = 28.0
"""Just beyond the outermost node."""
INDEPENDENT = math.inf
"""Concentration at which workers choose independently."""


class ScaleMixture(Record):
    """Build-up if coordinates differ in scale by a log-normal factor, and all workers select a common core.

    K(n)/d = h rho + (rho^g - h rho) (1 - E[(1 - q)^n]), where q = exp(-t e^(-s z)) is the chance that a Laplace-tailed
    value of scale e^(s z), z standard normal, exceeds the threshold t, and t is such that K(1)/d = rho. `spread` s: log
    standard deviation of the scales, between layers and within them; 0 is independence. `core` h: the share of one
    worker's selection that every worker selects (persistently large coordinates); 1 is identical choices. `silent` g:
    a share 1 - rho^g of the coordinates is selected by nobody (those of units that no example of a batch excites).
    """

    spread: float
    core: float
    silent: float = 0.0


Overlap = float | ScaleMixture
"""How the selections of workers overlap: the concentration of the beta-binomial law, or a scale mixture."""
UNKNOWN_OVERLAP = (1.5, 320.0)
"""Concentrations between which nine in ten selections lie where nobody recorded any: most and least overlap.

The 5th and 95th percentile of the concentration that each measured union of the two shipped traces asks for: Top-k
with error feedback at a density of at most 1 %, 4, 8 and 16 workers, layer-wise and of the whole model, four iterations
early in training and three late (168 unions; a test computes it). Early selections overlap most. The median is 7; BERT
over 128 GPUs (Zen, OSDI'25) is at 28.9. Independence is further away than all of them. Both models are small: no union
of a large model at several iterations is published.
"""


def union_density(density: float, workers: int, concentration: Overlap = INDEPENDENT) -> float:
    """Expected share of coordinates that at least one worker selects, K(n)/d.

    Beta-binomial law: each coordinate has its own chance q of being selected, q ~ Beta(a, b) with a = rho*c and
    b = (1 - rho)*c; then K(n)/d = 1 - B(a, b + n)/B(a, b). Independence is c -> infinity, 1 - (1 - rho)^n; identical
    choices c -> 0, rho. With a `ScaleMixture` as `concentration`, its law holds instead. Zen (OSDI'25) measured
    1.06 % -> 40.8 % over 128 GPUs for BERT gradients, c = 28.9:

    >>> round(union_density(0.0106, 128, 28.9), 3), round(union_density(0.0106, 128), 3)
    (0.408, 0.744)
    """
    if density <= 0 or workers <= 0:
        return 0.0
    if density >= 1:
        return 1.0
    if isinstance(concentration, ScaleMixture):
        return mixture_density(density, workers, concentration.spread, concentration.core, concentration.silent)
    if concentration <= 0:
        return density
    if math.isinf(concentration):
        return -math.expm1(workers * math.log1p(-density))
    # The ratio of beta functions written out, prod over i < n of (b + i)/(c + i): no difference of large logarithms.
    later = np.arange(1, workers)
    log_missed = math.log1p(-density) + np.log1p(-density * (concentration / (concentration + later))).sum()
    return -math.expm1(float(log_missed))


@lru_cache(maxsize=4096)
def mixture_density(density: float, workers: int, spread: float, core: float, silent: float = 0.0) -> float:
    """K(n)/d of a `ScaleMixture` for the density 0 < rho <= 1 of one worker."""
    from scipy.optimize import brentq  # heavy, and only for this law

    sure = core * density
    left = math.pow(density, silent) - sure
    rest = (density - sure) / left if left > 0 else 0.0
    if rest <= 0 or rest >= 1:
        return min(1.0, density)
    nodes, weights = _gauss()

    def chance(log_threshold: float) -> Floats:
        q: Floats = np.exp(-np.exp(np.minimum(log_threshold - spread * nodes, 50.0)))
        return q

    span = 50.0 + 25.0 * spread
    threshold = float(brentq(lambda t: weigh(weights, chance(t)) - rest, -span, span, xtol=1e-12))
    missed = np.exp(workers * np.log1p(-np.minimum(chance(threshold), 1 - 1e-15)))
    return sure + left * (1 - weigh(weights, missed))


@cache
def _gauss() -> tuple[Floats, Floats]:
    """Nodes and weights of the mean over a standard normal: Gauss and Hermite's, 201 of them.

    Nodes are the roots of He_201, by Newton's method from changes of sign on a grid: the eigenvalues of a matrix, by
    which numpy finds them, differ in the last digits between processors.
    """
    grid = np.linspace(-_OUTERMOST, _OUTERMOST, 4000)
    nodes = grid[:-1][np.diff(np.sign(_hermite(grid)[1])) != 0]
    for _ in range(8):
        before, here = _hermite(nodes)
        nodes = nodes - here / (math.sqrt(_NODES) * before)
    weights = _hermite(nodes)[0] ** -2
    return nodes, weights / weights.sum()


def _hermite(x: Floats) -> tuple[Floats, Floats]:
    """Hermite's polynomials of degrees 200 and 201, of norm 1 under the standard normal, at x."""
    before, here = np.zeros(len(x)), np.ones(len(x))
    for degree in range(_NODES):
        before, here = here, (x * here - math.sqrt(degree) * before) / math.sqrt(degree + 1)
    return before, here
