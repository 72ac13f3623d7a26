"""How a job's gradients are divided into buckets: before anything is selected, replayed or priced."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property, partial

import numpy as np

from simulator.component import Spec, expected
from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.setup import Setup
from simulator.engine.plan.work.casts import in_precision
from simulator.engine.plan.work.costs import CostTable, price_costs, tabulate_costs
from simulator.engine.plan.work.passes import passes_of
from simulator.engine.plan.work.update import update_time
from simulator.models.exchange import Bucket, Ints
from simulator.models.layers import Workload
from simulator.models.limits import refuse_collectives
from simulator.models.precision import FP32
from simulator.models.small_cache import LatestResults
from simulator.records import Record, replace
from simulator.schedulers.base import FREE, Costs


class Division(Record, eq=False, dict=True):
    """The buckets that a scheduler makes of a workload's layers, in the order of the backward pass."""

    buckets: tuple[Bucket, ...]

    @cached_property
    def covers(self) -> Ints:
        """Pairs of a bucket and a layer that it has a part of, (2, c)."""
        pairs = [(bucket.index, layer) for bucket in self.buckets for layer in bucket.layers]
        return np.array(pairs, dtype=np.int64).T

    @cached_property
    def ready_layers(self) -> Ints:
        """The layer whose backward pass completes each bucket, (b,)."""
        return np.array([bucket.ready_layer for bucket in self.buckets])

    @cached_property
    def first_layers(self) -> list[int]:
        """The first layer that needs each bucket."""
        return [min(bucket.layers) for bucket in self.buckets]

    @cached_property
    def nbytes(self) -> list[float]:
        """Bytes of each bucket as it travels uncompressed."""
        return [float(bucket.value_bytes * bucket.numel) for bucket in self.buckets]

    @cached_property
    def filled(self) -> tuple[Bucket, ...]:
        """The buckets of a runtime that copies gradients to them."""
        return tuple(replace(bucket, filled=True) for bucket in self.buckets)


_divisions: LatestResults[Division] = LatestResults(128)
_alike: LatestResults[Division] = LatestResults(64)
"""Divisions by their buckets, so that what is known of one serves all that are equal."""


def divide(setup: Setup, network: NetworkSetup) -> Division:
    """The buckets of a job. A scheduler that reads costs sees those of the closed form on this network.

    Raises an expected-error where a method that selects from the whole model meets several buckets, or where there are
    more collectives than can be followed.
    """
    workers = network.wiring.layout.workers
    division = _divided(setup, network)
    buckets = division.buckets
    refuse_collectives(workers, len(buckets))
    if setup.sparsifier.needs_whole_model() and len(buckets) > 1:
        hint = "selection over the whole model needs all gradients: use `scheduler: sequential` with one bucket"
        raise expected("one bucket", f"{len(buckets)} buckets from scheduler {setup.scheduler.kind}", hint)
    return division


def divide_together(jobs: Sequence[tuple[Setup, NetworkSetup]]) -> None:
    """Divide the jobs whose schedulers read costs, so that exchanges of all are priced together; `divide` knows them.

    Raises what the first one that cannot be divided raises; `divide` says it of each by itself.
    """
    wanted: dict[Hashable, tuple[Setup, NetworkSetup]] = {}
    for setup, network in jobs:
        if _reads_costs(setup, network) and (key := _key(setup, network)) not in _divisions:
            wanted[key] = setup, network
    if len(wanted) < 2:
        return
    costs = price_costs([_table_of(*job) for job in wanted.values()])
    for (key, (setup, _)), own in zip(wanted.items(), costs, strict=True):
        _divisions.get(key, partial(_plan_buckets, setup, own))


def _divided(setup: Setup, network: NetworkSetup) -> Division:
    """The division, made once for all points of a sweep that share what it depends on."""

    def plan_buckets() -> Division:
        (costs,) = price_costs([_table_of(setup, network)]) if _reads_costs(setup, network) else (FREE,)
        return _plan_buckets(setup, costs)

    return _divisions.get(_key(setup, network), plan_buckets)


def _reads_costs(setup: Setup, network: NetworkSetup) -> bool:
    return network.wiring.layout.workers > 1 and setup.scheduler.reads_costs


def _key(setup: Setup, network: NetworkSetup) -> Hashable:
    """What a division depends on."""
    update = update_time(setup.workload, setup.gpu, setup.runtime)
    specs: tuple[Spec, ...] = (setup.workload, setup.scheduler)
    reads_costs = _reads_costs(setup, network)
    if reads_costs:
        specs = (*specs, setup.gpu, setup.runtime, setup.sparsifier, setup.topology, setup.fabric)
    key: tuple[object, ...] = (*((type(spec), spec.fingerprint) for spec in specs), update)
    if reads_costs:
        placed = (network.wiring.layout.workers, setup.nodes, network.wiring.node.tobytes(), setup.conditions)
        key = (*key, placed, setup.topology.style, setup.concentration)
    return key


def _table_of(setup: Setup, network: NetworkSetup) -> CostTable:
    return tabulate_costs(setup, _passes_of(setup), network.wiring.layout.workers, network)


def _passes_of(setup: Setup) -> Workload:
    """The workload with what a step computes besides its passes."""
    return passes_of(setup.workload, update_time(setup.workload, setup.gpu, setup.runtime))[1]


def _plan_buckets(setup: Setup, costs: Costs) -> Division:
    precision = setup.workload.precision
    if precision != FP32:
        costs = replace(costs, value_bytes=precision.value_bytes, gradient_bytes=precision.gradient_bytes)
    buckets = setup.scheduler.plan(_passes_of(setup).layers, costs)
    made = tuple(in_precision(bucket, precision) for bucket in buckets)
    return _alike.get(made, lambda: Division(made))
