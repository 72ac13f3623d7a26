"""Costs that a scheduler may read: exchange and selection as functions of a bucket's elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.prices import Lane, price_lanes
from simulator.engine.plan.setup import Setup
from simulator.engine.plan.work.casts import in_precision
from simulator.engine.plan.work.exchanges import PricedExchange, price_exchanges, steps_of
from simulator.engine.plan.work.kernels import Kernel, KernelPrices
from simulator.engine.rounds.fold import fold
from simulator.hardware.precision import widths_of
from simulator.hardware.runtime import Runtime
from simulator.models.curves import Floats
from simulator.models.exchange import AllGather, Bucket, Communication, PushPull
from simulator.records import replace
from simulator.schedulers.base import Costs

_GRID = 49


class _CostTable(NamedTuple):
    """A job's buckets of rising sizes (n,): their selections and exchanges, whose `steps` have no prices yet."""

    setup: Setup
    sizes: Floats
    exchanges: list[PricedExchange]
    steps: tuple[Communication, ...]


def price_costs(jobs: Sequence[Setup]) -> list[Costs]:
    """Exchange and selection of each job as functions of a bucket's elements, interpolated between some sizes.

    Exchanges of all jobs are priced together.
    """
    tables = [_tabulate(setup) for setup in jobs]
    lanes = [
        Lane(steps, [(0, place) for place in range(len(steps))], replace(setup.network, fidelity="fold"))
        for setup, _, _, steps in tables
        if not setup.topology.concurrent
    ]
    priced = iter(price_lanes(lanes, with_reasons=False))
    return [_costs_of(table, None if table.setup.topology.concurrent else next(priced).seconds) for table in tables]


def _tabulate(setup: Setup) -> _CostTable:
    """The table of a job, for sizes up to the model's."""
    method, precision = setup.sparsifier, setup.workload.precision
    # A scheduler may ask for a bucket at a higher density as for a larger one at the method's own.
    largest = setup.workload.numel / (getattr(method, "density", None) or 1.0)
    sizes = np.unique(np.rint(np.geomspace(1, largest, _GRID)))
    buckets = [in_precision(Bucket(0, (int(numel),), 0, (0,)), precision) for numel in sizes]
    asked = [
        (bucket, steps_of(setup, method, bucket, method.expect(bucket, setup.workers, setup.concentration)), 1)
        for bucket in buckets
    ]
    pricing = KernelPrices(setup.gpu, setup.runtime, widths_of(precision, method.has_residual))
    exchanges, steps, _ = price_exchanges(setup, asked, pricing, decoupled=False)
    return _CostTable(setup, sizes, exchanges, steps)


def _costs_of(table: _CostTable, priced: Floats | None) -> Costs:
    setup, sizes, exchanges, steps = table
    runtime, method = setup.runtime, setup.sparsifier
    if priced is None:
        seconds = [_push_pull_time(step, setup.network, runtime) for step in steps]
    else:
        seconds = (priced + software_times(steps, runtime)).tolist()
    times = [math.fsum(s.seconds if isinstance(s, Kernel) else seconds[s] for s in each.chain) for each in exchanges]
    exchange_time, selection_time = _interpolate(sizes, times), _interpolate(sizes, [it.selection for it in exchanges])
    by_tensor = getattr(method, "granularity", "") == "layer"
    return Costs(exchange_time, selection_time, getattr(method, "density", None), by_tensor, method.kind)


def _interpolate(sizes: Floats, seconds: list[float]) -> Callable[[Floats | float], Floats]:
    known = np.array(seconds)
    return lambda numel: np.asarray(np.interp(numel, sizes, known))


def _push_pull_time(step: Communication, network: NetworkSetup, runtime: Runtime) -> float:
    """Seconds of one push and pull on an idle network."""
    clock = np.zeros(len(network.wiring.node))
    for phase in network.topology.rounds(step, network.wiring.layout):
        clock[:] = fold(phase, network.wiring, clock, overhead=runtime.message_overhead).max()
    return float(clock.max())


def software_times(steps: Sequence[Communication], runtime: Runtime) -> Floats:
    """Seconds that the runtime adds to each call."""
    called = np.array([not isinstance(step, PushPull) for step in steps], dtype=float)
    gathers = np.array([isinstance(step, AllGather) for step in steps], dtype=float)
    return called * runtime.negotiation + gathers * runtime.gather_overhead
