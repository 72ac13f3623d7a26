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
  are scanned, each as a power of n."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from statistics import NormalDist, fmean, stdev
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simulator.engine.replay import Steps, add_steps, mean_selection, replay_methods
from simulator.engine.settling import Settled, settle
from simulator.models.curves import Floats
from simulator.models.exchange import Bucket, Selection, alike
from simulator.models.overlap import Overlap, mean_unions, union_density
from simulator.records import Record, replace
from simulator.sparsifiers.base import Sparsifier

if TYPE_CHECKING:
    from simulator.traces.format.trace import Trace  # brings pyarrow, which a scenario without a trace does not need

_GROUPS = 4
"""Groups of each size that are replayed where every one of them takes a replay of its own."""


class Observed(Record):
    """What some number of the recorded workers selected together.

    `selections`: of each bucket, the mean over iterations and over disjoint groups of workers. `union`: the share of
    all elements that a group aggregates. `error`: its relative standard error, from the differences between groups and
    from the sampling of coordinates. `most_passes`: of any bucket, the most in one iteration. `together`: the union of
    n selections of any of these workers in any of the last iterations, by n; empty where the replay was cut short.
    """

    workers: int
    selections: tuple[Selection, ...]
    union: float
    error: float
    most_passes: float
    together: Mapping[int, float] = {}


class Seen(NamedTuple):
    """What some workers selected over a trace: `rows`, one per recorded iteration, `settled`, the part of them that is
    priced, and `selections`, the mean of every bucket over that part, with the `most_passes` of any in one iteration.
    `together`: as in `Observed`.
    """

    selections: tuple[Selection, ...]
    rows: tuple[dict[str, float], ...]
    settled: Settled
    most_passes: float
    together: Mapping[int, float]


def see_steps(steps: Steps, since: int | None) -> Seen:
    """What was selected in the steps of a replay; `since`: from where on it is priced, by default `settle`'s."""
    together = [add_steps(each) for each in steps]
    settled = settle(together, since)
    priced = steps[-settled.iterations :]
    means = tuple(mean_selection([step.selection for step in one]) for one in zip(*priced, strict=True))
    passes = max(step.selection.passes for each in priced for step in each)
    unions = _unions_together(together[-1].sent_times, len(means[0].selected))
    return Seen(means, tuple(step.row() for step in together), settled, passes, unions)


def _unions_together(times: Floats | None, workers: int) -> Mapping[int, float]:
    """Unions of 1, of as many selections as there are workers, twice as many, four times ..."""
    if times is None:
        return {}
    draws = len(times) - 1
    return mean_unions(times, [1, *(workers << i for i in range((draws // workers).bit_length()))])


def replay_by_workers(
    sparsifier: Sparsifier, buckets: Sequence[Bucket], trace: Trace, since: int | None = None
) -> tuple[tuple[Observed, ...], Settled]:
    """Replays of 1, 2, 4, ... and all recorded workers: disjoint groups of them, each over the trace.

    Groups of workers who select alone are taken from one replay of all: as many as there are. Of others, up to four are
    replayed; how far their mean may be off for it is in the `error` of what was observed.
    All of them are priced over the same iterations, those in which all recorded workers have settled.
    """
    recorded = trace.spec.workers
    counts = sorted({2**i for i in range(recorded.bit_length())} - {recorded})
    most = recorded if sparsifier.selects_alone else _GROUPS
    groups = [_groups(count, recorded, most) for count in counts]
    asked = [range(recorded), *chain.from_iterable(groups)]
    replays = replay_methods([(sparsifier, workers) for workers in asked], buckets, trace)
    whole = see_steps(next(replays), since)
    fewer = ([see_steps(next(replays), whole.settled.first) for _ in each] for each in groups)
    numel = sum(bucket.numel for bucket in buckets)
    return tuple(_observe(groups, numel) for groups in (*fewer, [whole])), whole.settled


def _groups(count: int, recorded: int, most: int) -> list[range]:
    """Disjoint groups of so many workers, at most `most`, as far apart as can be."""
    every = [range(first, first + count) for first in range(0, recorded - count + 1, count)]
    return every[:: -(-len(every) // most)]


def _observe(groups: Sequence[Seen], numel: int) -> Observed:
    unions = [math.fsum(item.aggregated for item in seen.selections) / numel for seen in groups]
    errors = [math.hypot(*(item.aggregated_error for item in seen.selections)) / numel for seen in groups]
    union = fmean(unions)
    between = stdev(unions) / math.sqrt(len(unions)) if len(unions) > 1 else 0.0
    error = math.hypot(between, fmean(errors)) / union if union else 0.0
    selections = tuple(mean_selection(one) for one in zip(*(seen.selections for seen in groups), strict=True))
    count = len(selections[0].selected)
    together = {n: fmean(seen.together[n] for seen in groups) for n in groups[0].together}
    return Observed(count, selections, union, error, max(seen.most_passes for seen in groups), together)


_LATEST = 3
"""Exponents are fitted to so many counts, the largest ones: the last factor of four."""


class Growth(Record):
    """How the observed quantities of a method change with the number of workers: exponents of n.

    `selected`: of a worker's selection; `aggregated`: of K, where it follows no overlap law; `padding`, `scanned` of
    methods that select in disjoint parts; `detail`: of the method's other figures. `grows`: K follows the overlap law.
    """

    selected: float
    aggregated: float
    padding: float
    scanned: float
    detail: Mapping[str, float]
    grows: bool


def growth_of(sparsifier: Sparsifier, observed: Sequence[Observed]) -> Growth:
    """The exponents of what was observed, of all buckets together."""

    def exponent(quantity: Callable[[Selection], float], least: int = 1) -> float:
        known = (item for item in observed if item.workers >= least)
        return fit_exponent({item.workers: math.fsum(map(quantity, item.selections)) for item in known})

    def of_detail(key: str) -> float:
        # Groups of workers who select alone have no figure of all together: 0, which no power of n is fitted to.
        return exponent(lambda one: one.detail.get(key, 0.0))

    aggregated = attrgetter("aggregated")
    last = observed[-1].selections
    total = math.fsum(_mean(one) for one in last)
    overlapping = not sparsifier.exclusive and not sparsifier.drops_globally
    return Growth(
        selected=exponent(_mean),
        aggregated=exponent(aggregated),
        padding=exponent(lambda one: own_padding(one) * one.aggregated, 2) - exponent(aggregated, 2),
        scanned=exponent(attrgetter("scanned")),
        detail={key: of_detail(key) for key in (last[0].detail if last else ())},
        grows=overlapping and total > 0 and math.fsum(one.aggregated for one in last) > total * (1 + 1e-9),
    )


def fit_exponent(points: Mapping[int, float]) -> float:
    """b of a power law c n^b by least squares on logarithms, drawn towards 0 as far as it is uncertain.

    The factor is b^2 / (b^2 + v), v being the variance of b by the scatter of the points. 0 where fewer than two
    points are above 0.

    >>> round(fit_exponent({1: 8.0, 2: 4.0, 4: 2.0}), 6), fit_exponent({1: 5.0, 2: 5.0, 4: 5.0}), fit_exponent({4: 2.0})
    (-1.0, 0.0, 0.0)
    """
    latest = sorted(points.items())[-_LATEST:]
    if len(latest) < 2 or min(value for _, value in latest) <= 0:
        return 0.0
    x, y = ([math.log(pair[axis]) for pair in latest] for axis in (0, 1))
    middle, level = fmean(x), fmean(y)
    width = math.fsum((a - middle) ** 2 for a in x)
    slope = math.fsum((a - middle) * (b - level) for a, b in zip(x, y, strict=True)) / width
    if not slope or len(x) < 3:
        return slope
    scatter = math.fsum((b - level - slope * (a - middle)) ** 2 for a, b in zip(x, y, strict=True))
    return slope**3 / (slope**2 + scatter / (len(x) - 2) / width)


def common_elements(one: Selection) -> float:
    """Elements that every worker selects: sum k_i = K + (n - 1) C."""
    others = len(one.selected) - 1
    return max(0.0, float(one.selected.sum()) - one.aggregated) / others if others else 0.0


def own_padding(one: Selection) -> float:
    """Largest over mean of what workers select without the common elements."""
    common = common_elements(one)
    own = float(one.selected.mean()) - common
    return (one.largest - common) / own if own > 0 else 1.0


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
    common = union * common_elements(known) / known.aggregated if known.aggregated else 0.0
    own = (union - common) / workers
    padding = min(float(workers), max(1.0, own_padding(known) * times**growth.padding))
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


LEAST_ERROR = 0.05
"""ln of the factor that no extrapolation over four times the workers is taken to be better than, in nine of ten cases.

Nine in ten unions of five small networks, extrapolated from 4 workers to 16, are within it (a test computes it).
"""
_TIMES = 4


def first_quarter(observed: Sequence[Observed]) -> tuple[Observed, ...]:
    """What at most a quarter of the recorded workers selected; empty where that is less than two worker counts."""
    few = tuple(item for item in observed if _TIMES * item.workers <= observed[-1].workers)
    return few if len(few) > 1 else ()


def selections_within(
    made: Sequence[Selection],
    missed: Sequence[Selection],
    observed: Sequence[Observed],
    buckets: Sequence[Bucket],
    workers: int,
) -> tuple[tuple[Selection, ...], ...]:
    """The selections `made` for `workers` at the lower and the upper end of what the extrapolation may miss.

    Its error over four times the workers is what `missed`, the extrapolation from a quarter of the recorded workers,
    misses all of them by, but at least `LEAST_ERROR`; it grows with the logarithm of the workers. The selection of a
    worker, the largest one and the union each have an error of their own, and all are wrong the same way.
    """
    steps = math.log(workers / observed[-1].workers) / math.log(_TIMES)

    def error(quantity: Callable[[Selection], float]) -> float:
        totals = [math.fsum(map(quantity, item.selections)) for item in observed]
        if len(totals) > 1 and max(totals) - min(totals) <= 1e-9 * max(totals):
            return 0.0  # no number of workers changes it
        found = math.fsum(map(quantity, missed))
        apart = abs(math.log(found / totals[-1])) if min(found, totals[-1]) > 0 else 0.0
        return max(apart, LEAST_ERROR) * steps

    by = [error(quantity) for quantity in (_mean, attrgetter("largest"), attrgetter("aggregated"))]
    return tuple(
        tuple(_scaled(one, bucket, [end * item for item in by]) for one, bucket in zip(made, buckets, strict=True))
        for end in (-1.0, 1.0)
    )


def _mean(one: Selection) -> float:
    return float(one.selected.mean())


def _scaled(one: Selection, bucket: Bucket, logs: Sequence[float]) -> Selection:
    """The selection with its mean, its largest and its union times e to these logarithms, none above the bucket."""
    means, largest, union = (math.exp(item) for item in logs)
    d, mean = float(bucket.numel), _mean(one)
    most = min(d, one.largest * largest)
    apart = (most / mean / means - 1) / (one.largest / mean - 1) if one.largest > mean > 0 else 1.0
    selected = mean * means * (1 + max(0.0, apart) * (one.selected / mean - 1)) if mean else one.selected
    return replace(
        one,
        selected=np.clip(selected, 0.0, d),
        largest=max(most, min(d, mean * means)),
        aggregated=min(d, one.aggregated * union),
    )
