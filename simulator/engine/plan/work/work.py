"""The work of one iteration: everything that does not depend on the network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from simulator.component import Spec
from simulator.engine.plan.setup import Setup
from simulator.engine.plan.work.division import Division
from simulator.engine.plan.work.exchanges import exchanges_of
from simulator.engine.plan.work.kernels import (
    Kernel,
    KernelPrices,
    KernelUse,
    add_host_work,
    chain_steps,
    filling_kernels,
)
from simulator.engine.plan.work.outer_step import price_outer_step
from simulator.engine.plan.work.passes import Passes, passes_of, price_passes
from simulator.engine.plan.work.update import update_of, update_time
from simulator.hardware.precision import widths_of
from simulator.models.curves import Floats
from simulator.models.exchange import (
    AllGather,
    AllReduce,
    Bucket,
    Communication,
    Compute,
    Ints,
    ReduceScatter,
    Selection,
    Step,
)
from simulator.models.layers import Workload
from simulator.models.small_cache import LatestResults

Chain = tuple[Kernel | int, ...]
"""An exchange up to its last communication: kernels with their seconds, and indices of communication steps."""


@dataclass(frozen=True, slots=True)
class Work:
    """What an iteration does apart from the network: buckets in order, their compute, selection and exchange.

    `input_time`: how long an iteration waits for its data, and `input_alone` with one GPU by itself. `passes`: the
    forward and backward passes before the last backward pass. `update` is the optimiser's step after an exchange,
    `update_alone` that of one GPU by itself. `backward` is the last backward pass; it holds the additions to the
    gradients of earlier ones and the runtime's copies to buckets, and `combine` those back, which take `emptying`
    seconds in all.

    Arrays are (b,), one entry per bucket, in seconds. `selection_spread` is the standard deviation from worker to
    worker. `steps` are the communication steps, each kind once; `chains` the exchanges up to their last step; `halves`
    what follows after all reductions where an all-reduce is split in two; `uses` the pairs of bucket and step;
    `combine` the kernels after the last step. `layer_forward` and `layer_numel` (L,) are in forward order, `covers`
    (2, c) the pairs of bucket and layer, `begins_module` (L,) whether a layer is the first tensor of its module.
    `outer` (b,): the step after an exchange that ends local steps, in which case `update` is that of each local step;
    empty otherwise.
    """

    input_time: float
    input_alone: float
    passes: Passes
    update: float
    update_alone: float
    buckets: tuple[Bucket, ...]
    selections: tuple[Selection, ...]
    backward: Floats
    selection: Floats
    selection_spread: Floats
    combine: Floats
    emptying: float
    steps: tuple[Communication, ...]
    chains: tuple[Chain, ...]
    halves: tuple[Chain, ...]
    uses: tuple[tuple[int, int], ...]
    kernels: dict[str, KernelUse]
    density: dict[str, float]
    layer_forward: Floats
    layer_numel: Floats
    covers: Ints
    begins_module: tuple[bool, ...]
    outer: Floats

    @property
    def forward(self) -> float:
        """Seconds of all forward passes."""
        return self.passes.forward

    @property
    def before_last(self) -> float:
        """Seconds of compute before the last backward pass, in which nothing is exchanged."""
        return self.passes.forward + self.passes.earlier_backward

    @property
    def earlier_share(self) -> float:
        """The share of the backward passes in what comes before the last of them."""
        return self.passes.earlier_backward / self.before_last if self.before_last else 0.0

    @property
    def compute_alone(self) -> float:
        """Seconds of all forward and backward passes."""
        return self.before_last + float(self.backward.sum())

    def per_layer(self, values: Floats) -> Floats:
        """Values of buckets (b,), summed at the first layer that needs each bucket, (L,)."""
        first = [min(bucket.layers) for bucket in self.buckets]
        return np.bincount(first, weights=values, minlength=len(self.layer_forward)).astype(float)

    def update_shares(self) -> Floats:
        """Seconds of the update of each layer, in proportion to its elements, (L,)."""
        shares: Floats = self.update * self.layer_numel / self.layer_numel.sum()
        return shares

    def needed_at(self, done: Sequence[float]) -> Floats:
        """When the last bucket that holds a part of each layer is done, (L,)."""
        made = np.zeros(len(self.layer_forward))
        np.maximum.at(made, self.covers[1], np.asarray(done)[self.covers[0]])
        return made


_works: LatestResults[Work] = LatestResults(64)


def prepare_work(setup: Setup, workers: int, division: Division) -> Work:
    """The part of a plan that the network does not touch; remembered, since the points of a sweep repeat it."""
    if setup.selections is not None:
        return _prepare(setup, workers, division)
    specs: tuple[Spec, ...] = (setup.workload, setup.gpu, setup.runtime, setup.sparsifier)
    named = tuple((type(spec), spec.fingerprint) for spec in specs)
    how = setup.topology.style, setup.concentration, setup.scheduler.decoupled
    key: tuple[object, ...] = (division, *named, workers, *how)
    if setup.scheduler.period is not None:
        key = (*key, setup.scheduler.fingerprint)
    return _works.get(key, lambda: _prepare(setup, workers, division))


class _Compute(NamedTuple):
    """The first and each later pass of a workload on one GPU, the optimiser's step alone and after an exchange, and the
    forward seconds of each layer."""

    first: Workload
    later: Workload
    update_alone: float
    update: float
    layer_forward: Floats


_computes: LatestResults[_Compute] = LatestResults(64)


def _compute_of(setup: Setup) -> _Compute:
    """What does not depend on method, workers or network; remembered, since the points of a sweep repeat it."""
    workload, gpu, runtime = setup.workload, setup.gpu, setup.runtime

    def make() -> _Compute:
        alone = update_time(workload, gpu, runtime)
        first, later = passes_of(workload, alone)
        update = update_of(first, gpu, runtime, exchanged=True).seconds
        return _Compute(first, later, alone, update, np.array([layer.forward for layer in first.layers]))

    return _computes.get((workload.fingerprint, gpu.fingerprint, runtime.fingerprint), make)


def _prepare(setup: Setup, workers: int, division: Division) -> Work:
    buckets, compute = division.buckets, _compute_of(setup)
    workload, later, alone = compute.first, compute.later, compute.update_alone
    exchanges = exchanges_of(setup, workers, division)
    pricing = KernelPrices(setup.gpu, setup.runtime, widths_of(workload.precision, setup.sparsifier.has_residual))
    select, spread, combine = (np.zeros(len(buckets)) for _ in range(3))
    backward = _backward_times(later, buckets)
    passes, additions = price_passes(workload, later, buckets, pricing)
    backward += additions
    outer = price_outer_step(setup, buckets, pricing) if workers > 1 else None
    if setup.runtime.fills_buckets and setup.scheduler.period is None:
        buckets = division.filled
        for i, (there, back) in enumerate(map(filling_kernels, buckets)):
            backward[i] += pricing.cost(there)
            combine[i] = pricing.cost(back)
    emptying = math.fsum(combine)
    chains: list[Chain] = [()] * len(buckets)
    halves: list[Chain] = [()] * len(buckets)
    steps: dict[Communication, int] = {}
    ahead = 0.0
    asked: list[slice] = []
    for i, (same, (before, between)) in enumerate(exchanges.steps):
        if same < i:  # buckets of the same sizes have the same steps and prices
            select[i], spread[i], combine[i] = select[same], spread[same], combine[same]
            chains[i], halves[i] = chains[same], halves[same]
            asked.append(asked[same])
            pricing.ask_again(asked[same])
            continue
        ahead = max([ahead, *(pricing.cost(item) for item in before if item.ahead)])
        so_far, chosen = pricing.asked, [item for item in before if not item.ahead]
        select[i] = math.fsum(pricing.cost(item) for item in chosen)
        spread[i] = math.fsum(pricing.spread(item) for item in chosen)
        exchange = add_host_work(between, buckets[i], setup.runtime)
        second: list[Step] = []
        if setup.scheduler.decoupled:
            exchange, second = _decouple(exchange, workers)
        chains[i], last = chain_steps(exchange, pricing, steps)
        combine[i] += last
        halves[i] = chain_steps(second, pricing, steps)[0]
        asked.append(slice(so_far, pricing.asked))
    left = ahead - workload.input_time - passes.forward - passes.earlier_backward
    select[-1] += max(0.0, left - float(backward.sum()))
    if outer is not None:
        select += outer.before
    both = [(*chain, *half) for chain, half in zip(chains, halves, strict=True)]
    return Work(
        input_time=workload.input_time,
        input_alone=workload.input_time,
        passes=passes,
        update=compute.update if workers > 1 and outer is None else alone,
        update_alone=alone,
        buckets=buckets,
        selections=exchanges.selections,
        backward=backward,
        selection=select,
        selection_spread=spread,
        combine=combine,
        emptying=emptying,
        steps=tuple(steps),
        chains=tuple(chains),
        halves=tuple(halves),
        uses=tuple((slot, step) for slot, chain in enumerate(both) for step in chain if isinstance(step, int)),
        kernels=pricing.used_in(1 if setup.scheduler.period is None else setup.scheduler.period.steps),
        density=dict(exchanges.density),
        layer_forward=compute.layer_forward,
        layer_numel=workload.numels,
        covers=division.covers,
        begins_module=workload.begins_module,
        outer=np.zeros(0) if outer is None else outer.after,
    )


def _decouple(exchange: Sequence[Step], workers: int) -> tuple[list[Step], list[Step]]:
    """The exchange with its last all-reduce split into a reduce-scatter, and the all-gather that completes it."""
    places = [i for i, step in enumerate(exchange) if not isinstance(step, Compute)]
    last = exchange[places[-1]] if places else None
    if not isinstance(last, AllReduce):
        return list(exchange), []
    first: list[Step] = list(exchange)
    first[places[-1]] = ReduceScatter(last.nbytes)
    return first, [AllGather(last.nbytes / workers)]


def _backward_times(workload: Workload, buckets: Sequence[Bucket]) -> Floats:
    """Backward seconds between the previous bucket and this one; buckets follow each other in backward order."""
    ready = np.cumsum([layer.backward for layer in reversed(workload.layers)])
    last = len(workload.layers) - 1
    return np.diff([0.0, *(float(ready[last - bucket.ready_layer]) for bucket in buckets)])
