"""Costs that a scheduler may read: exchange and selection as functions of a bucket's elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.prices import Lane, price_lanes
from simulator.engine.plan.setup import Setup
from simulator.engine.plan.work.casts import in_precision, steps_with_casts
from simulator.engine.plan.work.kernels import Kernel, KernelPrices, add_host_work, chain_steps
from simulator.engine.rounds.fold import fold
from simulator.hardware.precision import widths_of
from simulator.hardware.runtime import Runtime
from simulator.models.curves import Floats
from simulator.models.exchange import (
    AllGather,
    Bucket,
    Communication,
    PushPull,
)
from simulator.models.layers import Workload
from simulator.records import Record, replace
from simulator.schedulers.base import Costs

_GRID = 49


class CostTable(Record):
    """What a job's buckets of rising sizes (n,) are asked: seconds of selection (n,), and the stages of each exchange.

    `chains`: kernels, and numbers of `steps`, which have no prices yet.
    """

    setup: Setup
    network: NetworkSetup
    sizes: Floats
    selection: list[float]
    chains: list[tuple[Kernel | int, ...]]
    steps: tuple[Communication, ...]


def tabulate_costs(setup: Setup, workload: Workload, workers: int, network: NetworkSetup) -> CostTable:
    """The table of a job, for sizes up to the model's."""
    density = getattr(setup.sparsifier, "density", None)
    # A scheduler may ask for a bucket at a higher density as for a larger one at the method's own.
    largest = workload.numel / (density or 1.0)
    sizes = np.unique(np.rint(np.geomspace(1, largest, _GRID)))
    method, precision = setup.sparsifier, workload.precision
    pricing = KernelPrices(setup.gpu, setup.runtime, widths_of(precision, method.has_residual))
    steps = dict[Communication, int]()
    select, chains = [], []
    for numel in sizes:
        bucket = in_precision(Bucket(0, (int(numel),), 0, (0,)), precision)
        selection = method.expect(bucket, workers, setup.concentration)
        chosen, exchange = steps_with_casts(
            method, selection, bucket, workers, setup.topology.style, precision=precision
        )
        select.append(math.fsum(pricing.cost(item) for item in chosen if not item.ahead))
        exchange = add_host_work(exchange, bucket, setup.runtime)
        chains.append(chain_steps(exchange, pricing, steps)[0])
    return CostTable(setup, network, sizes, select, chains, tuple(steps))


def price_costs(tables: Sequence[CostTable]) -> list[Costs]:
    """Exchange and selection of each job as functions of a bucket's elements, interpolated between the sizes.

    Exchanges of all jobs are priced together.
    """
    at_once = [table for table in tables if not table.setup.topology.concurrent]
    lanes = [
        Lane(each.steps, [(0, place) for place in range(len(each.steps))], replace(each.network, fidelity="fold"))
        for each in at_once
    ]
    priced = iter(price_lanes(lanes, with_reasons=False))
    return [_costs_of(table, None if table.setup.topology.concurrent else next(priced).seconds) for table in tables]


def _costs_of(table: CostTable, priced: Floats | None) -> Costs:
    setup, runtime = table.setup, table.setup.runtime
    if priced is None:
        seconds = [_push_pull_time(step, table.network, runtime) for step in table.steps]
    else:
        seconds = (priced + [software_time(step, runtime) for step in table.steps]).tolist()
    times = [math.fsum(s.seconds if isinstance(s, Kernel) else seconds[s] for s in chain) for chain in table.chains]
    method = setup.sparsifier
    density, by_tensor = getattr(method, "density", None), getattr(method, "granularity", "") == "layer"
    exchange_time, selection_time = (_interpolate(table.sizes, np.array(each)) for each in (times, table.selection))
    return Costs(exchange_time, selection_time, density, by_tensor, method.kind)


def _interpolate(sizes: Floats, seconds: Floats) -> Callable[[Floats | float], Floats]:
    return lambda numel: np.asarray(np.interp(numel, sizes, seconds))


def _push_pull_time(step: Communication, network: NetworkSetup, runtime: Runtime) -> float:
    """Seconds of one push and pull on an idle network."""
    clock = np.zeros(len(network.wiring.node))
    for phase in network.topology.rounds(step, network.wiring.layout):
        clock[:] = fold(phase, network.wiring, clock, overhead=runtime.message_overhead).max()
    return float(clock.max())


def software_time(step: Communication, runtime: Runtime) -> float:
    """Seconds that the runtime adds to a call."""
    if isinstance(step, PushPull):
        return 0.0
    return runtime.negotiation + runtime.gather_overhead * isinstance(step, AllGather)
