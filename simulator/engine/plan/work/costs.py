"""Costs that a scheduler may read: exchange and selection as functions of a bucket's elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.prices import price_steps
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
from simulator.schedulers.base import Costs

_GRID = 49


def costs_of(setup: Setup, workload: Workload, workers: int, network: NetworkSetup) -> Costs:
    """Exchange and selection as functions of a bucket's elements, interpolated between sizes up to the model's."""
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
    every = tuple(steps)
    if setup.topology.concurrent:
        seconds = np.array([_push_pull_time(step, network, setup.runtime) for step in every])
    else:
        seconds = price_steps(
            every, [(0, place) for place in range(len(every))], replace(network, fidelity="fold")
        ).seconds
        seconds = seconds + [software_time(step, setup.runtime) for step in every]
    times = [math.fsum(s.seconds if isinstance(s, Kernel) else float(seconds[s]) for s in chain) for chain in chains]
    by_tensor = getattr(setup.sparsifier, "granularity", "") == "layer"
    exchange_time, selection_time = (_interpolate(sizes, np.array(values)) for values in (times, select))
    return Costs(exchange_time, selection_time, density, by_tensor, setup.sparsifier.kind)


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
