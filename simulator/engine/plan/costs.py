"""Costs that a scheduler may look at: exchange and selection as functions of a bucket's elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from simulator.engine.plan.kernels import Kernel, Kernels, chained
from simulator.engine.plan.pricing import Wires, price
from simulator.engine.plan.setup import Setup
from simulator.engine.rounds.fold import fold
from simulator.models.curves import Floats
from simulator.models.exchange import (
    AllGather,
    Bucket,
    Communication,
    PushPull,
)
from simulator.models.hardware import Runtime
from simulator.models.layers import Workload
from simulator.schedulers.base import Costs

_GRID = 49


def costs_of(setup: Setup, workload: Workload, workers: int, wires: Wires) -> Costs:
    """Exchange and selection as functions of a bucket's elements: straight between sizes spread over the model's."""
    density = getattr(setup.sparsifier, "density", None)
    # A scheduler may ask for a bucket at a higher density as for a larger one at the method's own.
    largest = workload.numel / (density or 1.0)
    sizes = np.unique(np.rint(np.geomspace(1, largest, _GRID)))
    pricing, steps = Kernels(setup.gpu, setup.runtime), dict[Communication, int]()
    select, chains = [], []
    for numel in sizes:
        bucket = Bucket(0, (int(numel),), 0, (0,))
        selection = setup.sparsifier.expect(bucket, workers, setup.concentration)
        select.append(math.fsum(pricing.cost(item) for item in setup.sparsifier.compute(selection, bucket, workers)))
        exchange = setup.sparsifier.exchange(selection, bucket, workers, setup.topology.style)
        chains.append(chained(exchange, pricing, steps)[0])
    every = tuple(steps)
    if setup.topology.concurrent:
        seconds = np.array([_alone(step, wires, setup.runtime) for step in every])
    else:
        seconds = price(every, [(0, place) for place in range(len(every))], replace(wires, fidelity="fold")).seconds
        seconds = seconds + [software_time(step, setup.runtime) for step in every]
    times = [math.fsum(s.seconds if isinstance(s, Kernel) else float(seconds[s]) for s in chain) for chain in chains]
    by_tensor = getattr(setup.sparsifier, "granularity", "") == "layer"
    return Costs(
        _straight(sizes, np.array(times)), _straight(sizes, np.array(select)), density, by_tensor, setup.sparsifier.kind
    )


def _straight(sizes: Floats, seconds: Floats) -> Callable[[Floats | float], Floats]:
    return lambda numel: np.asarray(np.interp(numel, sizes, seconds))


def _alone(step: Communication, wires: Wires, runtime: Runtime) -> float:
    """Seconds of push and pull with the wires to itself."""
    clock = np.zeros(len(wires.wiring.node))
    for phase in wires.topology.rounds(step, wires.wiring.layout):
        clock[:] = fold(phase, wires.wiring, clock, overhead=runtime.message_overhead).max()
    return float(clock.max())


def software_time(step: Communication, runtime: Runtime) -> float:
    """The runtime's own seconds per call."""
    if isinstance(step, PushPull):
        return 0.0
    return runtime.negotiation + runtime.gather_overhead * isinstance(step, AllGather)
