"""The work of one iteration: everything that does not depend on the network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from simulator.component import Spec
from simulator.engine.plan.setup import Setup
from simulator.engine.plan.work.division import Division
from simulator.engine.plan.work.exchanges import Exchanges, exchanges_of
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
from simulator.records import Record

Chain = tuple[Kernel | int, ...]
"""An exchange up to its last communication: kernels with their seconds, and indices of communication steps."""


class Work(Record):
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
    """The first and each later pass of a workload on one GPU, the optimiser's step alone and after an exchange, the
    forward seconds of each layer, and when the backward pass of each has ended after the start of the last one."""

    first: Workload
    later: Workload
    update_alone: float
    update: float
    layer_forward: Floats
    backward_end: Floats


_computes: LatestResults[_Compute] = LatestResults(64)


def _compute_of(setup: Setup) -> _Compute:
    """What does not depend on method, workers or network; remembered, since the points of a sweep repeat it."""
    workload, gpu, runtime = setup.workload, setup.gpu, setup.runtime

    def make() -> _Compute:
        alone = update_time(workload, gpu, runtime)
        first, later = passes_of(workload, alone)
        update = update_of(first, gpu, runtime, exchanged=True).seconds
        forward = np.array([layer.forward for layer in first.layers])
        ended = np.cumsum([layer.backward for layer in reversed(later.layers)])[::-1]
        return _Compute(first, later, alone, update, forward, ended)

    return _computes.get((workload.fingerprint, gpu.fingerprint, runtime.fingerprint), make)


def _prepare(setup: Setup, workers: int, division: Division) -> Work:
    buckets, compute = division.buckets, _compute_of(setup)
    workload, later, alone = compute.first, compute.later, compute.update_alone
    exchanges = exchanges_of(setup, workers, division)
    pricing = KernelPrices(setup.gpu, setup.runtime, widths_of(workload.precision, setup.sparsifier.has_residual))
    combine = np.zeros(len(buckets))
    backward = np.diff(compute.backward_end[division.ready_layers], prepend=0.0)
    passes, additions = price_passes(workload, later, buckets, pricing)
    backward += additions
    outer = price_outer_step(setup, buckets, pricing) if workers > 1 else None
    if setup.runtime.fills_buckets and setup.scheduler.period is None:
        buckets = division.filled
        for i, (there, back) in enumerate(map(filling_kernels, buckets)):
            backward[i] += pricing.cost(there)
            combine[i] = pricing.cost(back)
    emptying = math.fsum(combine)
    priced, steps, ahead = _price_exchanges(setup, workers, exchanges, pricing)
    select, spread, last = np.array([each[:3] for each in priced]).T[:, exchanges.number]
    combine += last
    left = ahead - workload.input_time - passes.forward - passes.earlier_backward
    select[-1] += max(0.0, left - float(backward.sum()))
    if outer is not None:
        select += outer.before
    of_bucket = [priced[number] for number in exchanges.number.tolist()]
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
        steps=steps,
        chains=tuple(each.chain for each in of_bucket),
        halves=tuple(each.half for each in of_bucket),
        uses=tuple((slot, step) for slot, each in enumerate(of_bucket) for step in each.steps),
        kernels=pricing.used_in(1 if setup.scheduler.period is None else setup.scheduler.period.steps),
        density=dict(exchanges.density),
        layer_forward=compute.layer_forward,
        layer_numel=workload.numels,
        covers=division.covers,
        begins_module=workload.begins_module,
        outer=np.zeros(0) if outer is None else outer.after,
    )


class _Exchange(NamedTuple):
    """One exchange, priced: seconds of the selection before it, their standard deviation, and seconds of the kernels
    after it; its chain, the half that follows after all reductions, and the communication steps in both."""

    selection: float
    spread: float
    after: float
    chain: Chain
    half: Chain
    steps: tuple[int, ...]


def _price_exchanges(
    setup: Setup, workers: int, exchanges: Exchanges, pricing: KernelPrices
) -> tuple[list[_Exchange], tuple[Communication, ...], float]:
    """Every different exchange, the communication steps of all, and seconds of what the host does ahead of them."""
    made, steps, ahead = list[_Exchange](), dict[Communication, int](), 0.0
    for (bucket, (before, between)), times in zip(exchanges.steps, np.bincount(exchanges.number).tolist(), strict=True):
        pricing.times = 1  # threads of the host do the same for several buckets side by side
        ahead = max([ahead, *(pricing.cost(item) for item in before if item.ahead)])
        pricing.times = times
        chosen = [item for item in before if not item.ahead]
        selection = math.fsum(pricing.cost(item) for item in chosen)
        spread = math.fsum(pricing.spread(item) for item in chosen)
        exchange, second = add_host_work(between, bucket, setup.runtime), list[Step]()
        if setup.scheduler.decoupled:
            exchange, second = _decouple(exchange, workers)
        chain, after = chain_steps(exchange, pricing, steps)
        half, _ = chain_steps(second, pricing, steps)
        used = tuple(item for item in (*chain, *half) if isinstance(item, int))
        made.append(_Exchange(selection, spread, after, chain, half, used))
    return made, tuple(steps), ahead


def _decouple(exchange: Sequence[Step], workers: int) -> tuple[list[Step], list[Step]]:
    """The exchange with its last all-reduce split into a reduce-scatter, and the all-gather that completes it."""
    places = [i for i, step in enumerate(exchange) if not isinstance(step, Compute)]
    last = exchange[places[-1]] if places else None
    if not isinstance(last, AllReduce):
        return list(exchange), []
    first: list[Step] = list(exchange)
    first[places[-1]] = ReduceScatter(last.nbytes)
    return first, [AllGather(last.nbytes / workers)]
