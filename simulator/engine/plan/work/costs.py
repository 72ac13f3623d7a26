"""Costs that a scheduler may read: exchange and selection as functions of a bucket's elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

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


def price_costs(jobs: Sequence[Setup]) -> list[Costs]:
    """Exchange and selection of each job as functions of a bucket's elements, interpolated between some sizes.

    Exchanges of all jobs are priced together.
    """
    tables = [_tabulate(setup) for setup in jobs]
    lanes = [
        Lane(steps, [(0, place) for place in range(len(steps))], replace(setup.network, fidelity="fold"))
        for setup, (_, _, steps) in zip(jobs, tables, strict=True)
        if not setup.topology.concurrent
    ]
    priced, made = iter(price_lanes(lanes, with_reasons=False)), list[Costs]()
    for setup, (sizes, exchanges, steps) in zip(jobs, tables, strict=True):
        if setup.topology.concurrent:
            seconds = [_push_pull_time(step, setup.network, setup.runtime) for step in steps]
        else:
            seconds = (next(priced).seconds + software_times(steps, setup.runtime)).tolist()
        chains, selection = [each.chain for each in exchanges], [each.selection for each in exchanges]
        times = [math.fsum(it.seconds if isinstance(it, Kernel) else seconds[it] for it in chain) for chain in chains]
        method = setup.sparsifier
        density, by_tensor = getattr(method, "density", None), getattr(method, "granularity", "") == "layer"
        made.append(Costs(_interpolate(sizes, times), _interpolate(sizes, selection), density, by_tensor, method.kind))
    return made


def _tabulate(setup: Setup) -> tuple[Floats, list[PricedExchange], tuple[Communication, ...]]:
    """Buckets of rising sizes (n,), up to the model's: their exchanges, and the steps of these without prices."""
    method, precision = setup.sparsifier, setup.workload.precision
    # A scheduler may ask for a bucket at a higher density as for a larger one at the method's own.
    largest = setup.workload.numel / (getattr(method, "density", None) or 1.0)
    sizes = np.unique(np.rint(np.geomspace(1, largest, _GRID)))
    asked = []
    for numel in sizes:
        bucket = in_precision(Bucket(0, (int(numel),), 0, (0,)), precision)
        selection = method.expect(bucket, setup.workers, setup.concentration)
        asked.append((bucket, steps_of(setup, method, bucket, selection), 1))
    pricing = KernelPrices(setup.gpu, setup.runtime, widths_of(precision, method.has_residual))
    return sizes, *price_exchanges(setup, asked, pricing, decoupled=False)[:2]


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
