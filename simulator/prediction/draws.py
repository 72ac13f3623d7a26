"""The random differences between workers, iteration by iteration."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from simulator.engine.clock.numbers import ALIKE, Draws
from simulator.engine.plan.plan import Plan
from simulator.models.curves import Floats
from simulator.models.limits import refuse_draws, refuse_turns
from simulator.models.sampling import Purpose, random_stream
from simulator.models.small_cache import LatestResults
from simulator.scenario.cluster import Stragglers
from simulator.scenario.scenario import Scenario

_ONE_BY_ONE = 256
"""Local steps of a period that are drawn one by one."""
_TOGETHER = 2**18
"""Draws that are made together: memory does not grow with the number of iterations."""


def draw_differences(scenario: Scenario, plan: Plan, consecutive: bool) -> Iterable[Draws]:
    """One set of per-worker differences per counted iteration; a single one where it repeats itself.

    All come from one counter-based stream, so that adding a worker leaves the others' draws alone. Iterations are
    `consecutive` where other jobs run, since the jobs shift against each other in time, and where links remember what
    they carried; then those of the warm-up are kept.

    Raises an expected-error for more than can be followed.
    """
    stragglers, p = scenario.cluster.stragglers, scenario.cluster.workers
    spread = bool(plan.work.selection_spread.any())
    random = stragglers.jitter > 0 or spread
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
    return islice(_drawn(scenario, fixed, count, spread, plan.steps), 0 if consecutive else scenario.warmup, None)


def _refuse(plan: Plan, workers: int, count: int, random: bool) -> None:
    """Raise an expected-error for more iterations than can be followed in half a minute."""
    gated, work = plan.setup.scheduler.gated, plan.work
    turns = max(len(work.buckets), len(work.layer_forward)) if gated else len(work.buckets)
    layered = gated or plan.slowdown > 0
    unlike = random and max(len(work.pace), len(work.selection)) > 1
    refuse_turns(workers if random else 1, turns, count, layered=layered, live=plan.live, unlike=unlike)
    if random:
        refuse_draws(workers, count * min(plan.steps, _ONE_BY_ONE))


def _drawn(scenario: Scenario, fixed: Floats, count: int, spread: bool, steps: int) -> Iterator[Draws]:
    """The random differences of every iteration, warm-up first; those of the selection where its kernels `spread`.

    A period of local `steps` takes each worker as long as the mean of as many draws says.
    """
    p, stragglers = len(fixed), scenario.cluster.stragglers
    drawn = steps if stragglers.jitter and steps <= _ONE_BY_ONE else 1
    if drawn < steps:
        # The mean of many independent draws is normal, whatever the shape of one.
        stragglers = stragglers.model_copy(
            update={"jitter": stragglers.jitter / math.sqrt(steps), "distribution": "normal"}
        )
    some = max(1, _TOGETHER // (p * drawn))
    for first in range(0, count, some):
        numbers = (first, min(count, first + some))
        normal = _normal(scenario.seed, Purpose.COMPUTE, p, *(drawn * number for number in numbers))
        each = factors(stragglers, normal)
        compute = fixed * (each if drawn == 1 else each.reshape(-1, drawn, p).mean(axis=1))
        selection = _normal(scenario.seed, Purpose.SELECTION, p, *numbers) if spread else np.zeros_like(compute)
        yield from map(Draws, compute, selection)


def _normal(seed: int, purpose: Purpose, workers: int, first: int, end: int) -> Floats:
    """Standard normal draws (n, p) of the iterations from `first` up to `end`; the latest are remembered."""

    def draw() -> Floats:
        return np.array([random_stream(seed, purpose, item).standard_normal(workers) for item in range(first, end)])

    return _remembered.get((seed, purpose, workers, first, end), draw)


_remembered: LatestResults[Floats] = LatestResults(8)
"""For a sweep, whose points draw the same numbers again and again."""


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
