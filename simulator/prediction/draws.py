"""The random differences between workers, iteration by iteration."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice

import numpy as np

from simulator.engine.clock.draws import ALIKE, Draws
from simulator.engine.plan.plan import Plan
from simulator.models.curves import Floats
from simulator.models.limits import refuse_draws, refuse_turns
from simulator.scenario.cluster import Stragglers
from simulator.scenario.scenario import Scenario

_FEW_DRAWS = 2**18
"""Draws of no more than so many are remembered."""
_MANY_DRAWS, _TOGETHER = 2**21, 16
"""Draws that are made together, at least of so many iterations."""


def draw_differences(scenario: Scenario, plan: Plan, consecutive: bool) -> Iterable[Draws]:
    """One set of per-worker differences per counted iteration; a single one where it repeats itself.

    Each worker and purpose has a stream of its own, so that adding a worker leaves the others' draws alone. Iterations
    are `consecutive` where other jobs run, since the jobs shift against each other in time, and where links remember
    what they carried; then those of the warm-up are kept.

    Raises an expected-error for more than can be followed.
    """
    stragglers, p = scenario.cluster.stragglers, scenario.cluster.workers
    random = stragglers.jitter > 0 or bool(plan.selection_spread.any())
    count = scenario.warmup + scenario.iterations
    if consecutive or (random and p > 1):
        _refuse(plan, p, count, random)
    if p == 1 or not (random or stragglers.slow):
        return [ALIKE] * (count if consecutive else 1)
    fixed = np.ones(p)
    for item in stragglers.slow:
        fixed[item.worker] *= item.factor
    if not random:
        return [Draws(fixed, np.zeros(p))] * (count if consecutive else 1)
    return islice(_drawn(scenario, fixed, count), 0 if consecutive else scenario.warmup, None)


def _refuse(plan: Plan, workers: int, count: int, random: bool) -> None:
    """Raise an expected-error for more iterations than can be followed in half a minute."""
    gated, work = plan.scheduler.gated, plan.work
    turns = max(len(work.buckets), len(work.layer_forward)) if gated else len(work.buckets)
    layered = gated or plan.slowdown > 0
    refuse_turns(workers if random else 1, turns, count, layered=layered, live=plan.live)
    if random:
        refuse_draws(workers, count)


def _drawn(scenario: Scenario, fixed: Floats, count: int) -> Iterator[Draws]:
    """The random differences of every iteration, warm-up first."""
    p = len(fixed)
    few = p * count <= _FEW_DRAWS
    for normal in [_normal(scenario.seed, p, count)] if few else _normal_in_parts(scenario.seed, p, count):
        compute = fixed[:, None] * factors(scenario.cluster.stragglers, normal[:p])
        yield from map(Draws, compute.T, normal[p:].T)


@lru_cache(maxsize=4)  # a sweep draws the same numbers again and again
def _normal(seed: int, workers: int, count: int) -> Floats:
    """Standard normal draws (2p, count), each row a stream of its own: compute of every worker, then selection."""
    return np.concatenate(list(_normal_in_parts(seed, workers, count)), axis=1)


def _normal_in_parts(seed: int, workers: int, count: int) -> Iterator[Floats]:
    """The same draws (2p, n), some iterations at a time: memory does not grow with their number."""
    seeds = np.random.SeedSequence(seed).spawn(2 * workers)
    some = max(_TOGETHER, _MANY_DRAWS // workers)
    streams = [np.random.default_rng(item) for item in seeds] if count > some else map(np.random.default_rng, seeds)
    for first in range(0, count, some):
        yield np.array([stream.standard_normal(min(some, count - first)) for stream in streams])


def factors(stragglers: Stragglers, normal: Floats) -> Floats:
    """Factors of mean 1 and standard deviation `jitter` from standard normal draws, by their quantiles."""
    jitter = stragglers.jitter
    if stragglers.distribution == "normal" or not jitter:
        return np.maximum(1 + jitter * normal, 0.1)
    if stragglers.distribution == "lognormal":
        sigma = math.sqrt(math.log1p(jitter**2))
        return np.exp(sigma * normal - sigma**2 / 2)
    from scipy.special import log_ndtr, ndtr

    if stragglers.distribution == "uniform":
        return np.maximum(1 + jitter * math.sqrt(12) * (np.asarray(ndtr(normal)) - 0.5), 0.1)
    # A floor of 1 - jitter, and an exponential tail above it whose mean and deviation are both `jitter`.
    return np.maximum(1 - jitter - jitter * np.asarray(log_ndtr(-normal)), 0.1)
