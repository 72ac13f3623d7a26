"""How a job's gradients are divided into buckets: before anything is selected, replayed or priced."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from simulator.component import Spec, expected
from simulator.engine.plan.setup import Setup
from simulator.engine.plan.work.casts import in_precision
from simulator.engine.plan.work.costs import price_costs
from simulator.engine.plan.work.passes import compute_of
from simulator.models.exchange import Bucket
from simulator.models.limits import refuse_collectives
from simulator.models.precision import FP32
from simulator.models.small_cache import LatestResults
from simulator.records import replace
from simulator.schedulers.base import FREE, Costs

_divisions: LatestResults[tuple[Bucket, ...]] = LatestResults(128)
_costs: LatestResults[Costs] = LatestResults(1024)
"""What schedulers read, the same for all that divide one job: as many as a batch may have."""
_alike: LatestResults[tuple[Bucket, ...]] = LatestResults(64)
"""Buckets by their values, so that what is known of one division serves all that are equal."""


def divide(setup: Setup) -> tuple[Bucket, ...]:
    """The buckets of a job, in the order of the backward pass; the same object for all jobs that share them.

    A scheduler that reads costs sees those of the closed form on this network. Raises an expected-error where a method
    that selects from the whole model meets several buckets, or where there are more collectives than can be followed.
    """

    def plan_buckets() -> tuple[Bucket, ...]:
        priced = _reads_costs(setup)
        return _plan_buckets(setup, _costs.get(_costs_key(setup), lambda: price_costs([setup])[0]) if priced else FREE)

    buckets = _divisions.get(_key(setup), plan_buckets)
    refuse_collectives(setup.workers, len(buckets))
    if setup.sparsifier.needs_whole_model() and len(buckets) > 1:
        hint = "selection over the whole model needs all gradients: use `scheduler: sequential` with one bucket"
        raise expected("one bucket", f"{len(buckets)} buckets from scheduler {setup.scheduler.kind}", hint)
    return buckets


def price_together(jobs: Sequence[Setup]) -> None:
    """Price what schedulers of jobs read, the exchanges of all jobs together; `divide` knows it.

    Raises what the first one raises that cannot be priced; `divide` says it of each by itself.
    """
    new = {_costs_key(setup): setup for setup in jobs if _reads_costs(setup) and _key(setup) not in _divisions}
    new = {key: setup for key, setup in new.items() if key not in _costs}
    priced = iter(price_costs([*new.values()]) if new else ())
    for key in new:
        _costs.get(key, lambda: next(priced))


def _reads_costs(setup: Setup) -> bool:
    return setup.workers > 1 and setup.scheduler.reads_costs


def _key(setup: Setup) -> Hashable:
    """What a division depends on."""
    scheduler, sharding = setup.scheduler, setup.sharding
    own = setup.workload.fingerprint, type(scheduler), scheduler.fingerprint, compute_of(setup).update_alone
    return *own, sharding and sharding.tensors, _costs_key(setup)


def _costs_key(setup: Setup) -> Hashable:
    """What the costs depend on that a scheduler reads; nothing where it reads none."""
    if not _reads_costs(setup):
        return ()
    specs: tuple[Spec, ...] = (setup.gpu, setup.runtime, setup.sparsifier, setup.topology, setup.fabric)
    placed = (setup.workers, setup.nodes, setup.network.wiring.node.tobytes(), setup.conditions)
    also = setup.workload.fingerprint, placed, setup.topology.style, setup.concentration, setup.scheduler.streams
    return (*((type(spec), spec.fingerprint) for spec in specs), *also)


def _plan_buckets(setup: Setup, costs: Costs) -> tuple[Bucket, ...]:
    precision = setup.workload.precision
    if precision != FP32:
        costs = replace(costs, value_bytes=precision.value_bytes, gradient_bytes=precision.gradient_bytes)
    layers, sharding = compute_of(setup).later.layers, setup.sharding
    if sharding is not None:
        whole = zip(layers, sharding.numels, strict=True)
        layers = tuple(replace(layer, numel=numel) for layer, numel in whole)
    buckets = setup.scheduler.plan(layers, costs)
    if sharding is not None:
        sizes = sharding.sizes
        buckets = [replace(each, pieces=_parts(each, sizes)) for each in buckets]
    made = tuple(in_precision(bucket, precision) for bucket in buckets)
    return _alike.get(made, lambda: made)


def _parts(bucket: Bucket, sizes: Sequence[int]) -> tuple[int, ...]:
    """What a GPU has of each piece, where so many share each tensor."""
    return tuple(-(-n // sizes[layer]) for n, layer in zip(bucket.pieces, bucket.layers, strict=True))
