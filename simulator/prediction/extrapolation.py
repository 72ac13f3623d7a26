"""Selections of more workers than a trace has recorded, from what fewer of its workers were seen to select.

Every quantity is carried on by a law of its own, as a factor on what all recorded workers select, so that it is
continuous at their number N:

- the mean selection of a worker, and every quantity of the method's `detail`: a power of n, fitted to the largest
  observed counts; its exponent is 0 where workers select by themselves;
- the differences between workers, and so the largest selection, mean + (largest of N - mean) e(n) / e(N): with e(n),
  the expected largest of n draws from a normal distribution (Blom, Statistical Estimates and Transformed
  Beta-Variables, 1958);
- the union: K(n) = d (1 - (1 - rho)^(m(n))), where m(n), the number of workers who choose independently that would
  select as much, grows as in the overlap law with the observed rho;
- methods whose workers select in disjoint parts: K(n), the share of common elements, the padding and the elements that
  are scanned, each as a power of n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Bucket, Selection, alike
from simulator.models.overlap import Overlap, union_density
from simulator.prediction.growth import Growth, common_elements, growth_of, own_padding
from simulator.prediction.replay_by_workers import Observed
from simulator.records import Record, replace
from simulator.sparsifiers.base import Sparsifier

_BLOM = 0.375


class _Target(Record):
    """From how many workers to how many, and by what laws; no kernel makes more than `most_passes`."""

    growth: Growth
    law: Overlap
    recorded: int
    workers: int
    most_passes: float

    @property
    def times(self) -> float:
        """n over N."""
        return self.workers / self.recorded

    @property
    def further(self) -> float:
        """e(n) / e(N): by how much the worker who selects most is further from the mean."""
        return largest_of_normal(self.workers) / largest_of_normal(self.recorded) if self.recorded > 1 else 1.0


def extrapolate(
    sparsifier: Sparsifier, observed: Sequence[Observed], buckets: Sequence[Bucket], law: Overlap, workers: int
) -> tuple[Selection, ...]:
    """The selection of each bucket on `workers`, no fewer than the most that were observed."""
    first, last = observed[0], observed[-1]
    target = _Target(growth_of(sparsifier, observed), law, last.workers, workers, last.most_passes)
    grown = _exclusive if sparsifier.exclusive else _overlapping
    return tuple(
        grown(target, float(bucket.numel), alone, known)
        for bucket, alone, known in zip(buckets, first.selections, last.selections, strict=True)
    )


def largest_of_normal(draws: int) -> float:
    """The expected largest of n draws from a standard normal distribution, by Blom's formula; 0 for one draw.

    >>> [round(largest_of_normal(n), 2) for n in (1, 2, 16, 1024)]
    [0.0, 0.59, 1.77, 3.23]
    """
    return NormalDist().inv_cdf((draws - _BLOM) / (draws - 2 * _BLOM + 1))


def _overlapping(target: _Target, d: float, alone: Selection, known: Selection) -> Selection:
    """Workers who each select from the whole bucket of d elements; `alone` is what one of them selects."""
    growth, further = target.growth, target.further
    mean = float(known.selected.mean())
    selected = min(d, mean * target.times**growth.selected)
    if growth.grows:
        union = d * _union_share(target, known.aggregated / d, mean / d, selected / d)
    else:
        union = min(d, known.aggregated * target.times**growth.aggregated)
    spread = (known.largest - mean) * (selected / mean if mean else 1.0)
    passes = alone.passes + (known.passes - alone.passes) * further
    made = replace(
        known,
        selected=_each(known.selected, selected, further, target.workers),
        aggregated=union,
        largest=min(d, selected + spread * further),
        passes=min(passes, max(target.most_passes, known.passes)),
    )
    return _carry_on(target, known, made)


def _each(known: Floats, mean: float, further: float, workers: int) -> Floats:
    """The selection of each worker (n,): those that were observed in turn, `further` as far from their `mean`."""
    before = float(known.mean())
    if not before or float(np.ptp(known)) <= 1e-12 * before:
        return alike(workers, mean)
    made = np.maximum(0.0, 1 + further * (np.resize(known, workers) / before - 1))
    return made * (mean / math.fsum(made.tolist()) * workers)


def _union_share(target: _Target, union: float, mean: float, selected: float) -> float:
    """The share of a bucket that all aggregate, if the recorded workers do `union` of it and select `mean` each."""
    if min(union, mean) <= 0:
        return union
    if max(union, mean, selected) >= 1:
        return 1.0
    before = _independent(union_density(mean, target.recorded, target.law), mean)
    after = _independent(union_density(selected, target.workers, target.law), selected)
    return -math.expm1(_independent(union, mean) * after / before * math.log1p(-selected))


def _independent(union: float, selected: float) -> float:
    """How many workers who choose independently would select a union, each selecting the share `selected`."""
    return math.log1p(-min(union, 1 - 1e-12)) / math.log1p(-selected)


def _exclusive(target: _Target, d: float, alone: Selection, known: Selection) -> Selection:
    """Workers who select in disjoint parts; elements common to all count as selected by each."""
    growth, times, workers = target.growth, target.times, target.workers
    union = min(d, known.aggregated * times**growth.aggregated)
    common = union * common_elements(known, target.recorded) / known.aggregated if known.aggregated else 0.0
    own = (union - common) / workers
    padding = min(float(workers), max(1.0, own_padding(known, target.recorded) * times**growth.padding))
    scanned = max(d / workers, min(d, known.scanned * times**growth.scanned))
    made = replace(
        known,
        selected=alike(workers, own + common),
        aggregated=union,
        largest=min(own * padding, max(own, scanned)) + common,
        scanned=scanned,
    )
    return _carry_on(target, known, made)


def _carry_on(target: _Target, known: Selection, made: Selection) -> Selection:
    """What is left of a selection: figures of the method's own as powers of n, and the union's error in proportion."""
    detail = {key: value * target.times ** target.growth.detail[key] for key, value in known.detail.items()}
    relative = known.aggregated_error / known.aggregated if known.aggregated else 0.0
    return replace(made, detail=detail, aggregated_error=relative * made.aggregated)
