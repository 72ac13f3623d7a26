"""Gradient build-up in closed form: how many elements at least one of n workers selects."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np

from simulator.models.curves import Floats, map_each
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


class DensityLaw(Record):
    """A beta-binomial law whose concentration is a power of the density rho of one worker: c = scale * rho^exponent."""

    scale: float
    exponent: float

    def concentration(self, density: float) -> float:
        """c at a density above 0."""
        return self.scale * math.pow(density, self.exponent)


FittedOverlap = float | ScaleMixture
"""A law that unions were fitted by: the concentration of the beta-binomial law, or a scale mixture."""
Overlap = FittedOverlap | DensityLaw
"""How the selections of workers overlap."""
UNRECORDED = DensityLaw(1.91, -0.387)
"""The law where nobody recorded any selections: the larger magnitudes are sought, the less workers agree on them.

ln c is fitted to ln rho by least squares over the unions of 8 and of 16 workers of five small networks: a perceptron,
two convolutional networks, an LSTM and a transformer; Top-k of each layer and of the whole model at densities 0.001,
0.01 and 0.1 with error feedback, early, in the middle and late in training (180 unions; a test computes it). On a
network that was left out, unions are 14 % off in the median and 43 % in nine of ten cases; independence is 31 % and
102 % off. BERT over 128 GPUs (Zen, OSDI'25), which no fit saw, is at c = 28.9, and the law at 11.

On seven further small tasks of 64 workers it is 20 % and 66 % off at 8 to 64 workers, and a law of this form that is
fitted to the task itself 8 % and 30 %: the goal of 5 % and 15 % needs a recording (`simulator.traces.overlap_fit`).
Of eleven such tasks, each left out of the fit, granularity, batch size, iteration, elements, tensors and learning rate
beside the density bring the median from 18 % to 15 % at best, and nine of ten cases from 58 % to 56 %; nor does the
noise of the gradients help, if it is measured.

Kind and size of a layer, positions and iteration were tried beside the density on short recordings, of single tensors
and 64 workers; none made a network that was left out more exact.
"""
UNRECORDED_WIDTH = 5.4
"""Factor by which the concentration of a network that was left out is off in nine of ten cases."""


def union_density(density: float, workers: int, concentration: Overlap = INDEPENDENT) -> float:
    """Expected share of coordinates that at least one worker selects, K(n)/d.

    Beta-binomial law: each coordinate has its own chance q of being selected, q ~ Beta(a, b) with a = rho*c and
    b = (1 - rho)*c; then K(n)/d = 1 - B(a, b + n)/B(a, b). Independence is c -> infinity, 1 - (1 - rho)^n; identical
    choices c -> 0, rho. Of a `DensityLaw`, c is that at rho; with a `ScaleMixture`, its law holds instead. Zen
    (OSDI'25) measured 1.06 % -> 40.8 % over 128 GPUs for BERT gradients, c = 28.9:

    >>> round(union_density(0.0106, 128, 28.9), 3), round(union_density(0.0106, 128), 3)
    (0.408, 0.744)
    """
    if density <= 0 or workers <= 0:
        return 0.0
    if density >= 1:
        return 1.0
    if isinstance(concentration, ScaleMixture):
        return mixture_density(density, workers, concentration)
    if isinstance(concentration, DensityLaw):
        concentration = concentration.concentration(density)
    if concentration <= 0:
        return density
    if math.isinf(concentration):
        return -math.expm1(workers * math.log1p(-density))
    # The ratio of beta functions written out, prod over i < n of (b + i)/(c + i): no difference of large logarithms.
    later = np.arange(1, workers)
    log_missed = math.log1p(-density) + np.log1p(-density * (concentration / (concentration + later))).sum()
    return -math.expm1(float(log_missed))


def mean_unions(times: Floats, counts: Sequence[int]) -> dict[int, float]:
    """The share of coordinates that some of n draws select, the mean over all choices of n out of N draws, by n.

    `times` (N + 1,): how many coordinates 0, 1, ... N of the draws select. One that m select is missed by n with a
    chance of C(N - m, n) / C(N, n) (rarefaction: Hurlbert, Ecology 1971).

    >>> {n: round(union, 6) for n, union in mean_unions(np.array([6.0, 2.0, 2.0]), (1, 2)).items()}
    {1: 0.3, 2: 0.4}
    """
    draws, total = len(times) - 1, float(times.sum())
    logs = np.array([math.lgamma(k + 1) for k in range(draws + 1)])  # of factorials
    unions = {}
    for n in counts:
        left = draws - np.arange(draws - n + 1)  # draws that miss a coordinate, where at least n do
        missed = map_each(math.exp, logs[left] - logs[left - n] - logs[draws] + logs[draws - n])
        unions[n] = 1.0 - weigh(times[: draws - n + 1] / total, missed)
    return unions


@lru_cache(maxsize=4096)
def mixture_density(density: float, workers: int, law: ScaleMixture) -> float:
    """K(n)/d of a law for the density 0 < rho <= 1 of one worker."""
    from scipy.optimize import brentq  # heavy, and only for this law

    sure = law.core * density
    left = math.pow(density, law.silent) - sure
    rest = (density - sure) / left if left > 0 else 0.0
    if rest <= 0 or rest >= 1:
        return min(1.0, density)
    nodes, weights = _gauss()

    def chance(log_threshold: float) -> Floats:
        q: Floats = np.exp(-np.exp(np.minimum(log_threshold - law.spread * nodes, 50.0)))
        return q

    span = 50.0 + 25.0 * law.spread
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
