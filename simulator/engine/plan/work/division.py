"""How a job's gradients are divided into buckets, by costs that a scheduler may read."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence

import numpy as np

from simulator.component import Spec, expected
from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.prices import price_steps
from simulator.engine.plan.setup import Setup
from simulator.engine.plan.work.exchanges import in_precision, price_exchanges, steps_of
from simulator.engine.plan.work.kernels import Kernel, KernelPrices
from simulator.engine.plan.work.passes import compute_of
from simulator.engine.rounds.fold import fold
from simulator.hardware.kernels import widths_of
from simulator.hardware.runtime import Runtime
from simulator.models.curves import Floats
from simulator.models.exchange import AllGather, Bucket, Communication, PushPull
from simulator.models.limits import refuse_collectives
from simulator.models.precision import FP32
from simulator.models.small_cache import LatestResults
from simulator.records import replace
from simulator.schedulers.base import FREE, Costs
from simulator.schedulers.contract import refuse_buckets, refuse_rules

_GRID = 49


def price_costs(setup: Setup) -> Costs:
    """Exchange and selection of a job as functions of a bucket's elements, interpolated between some sizes."""
    method, precision = setup.sparsifier, setup.workload.precision
    density, by_tensor = getattr(method, "density", None), getattr(method, "granularity", "") == "layer"
    # A scheduler may ask for a bucket at a higher density as for a larger one at the method's own.
    sizes = np.unique(np.rint(np.geomspace(1, setup.workload.numel / (density or 1.0), _GRID)))
    asked = []
    for numel in sizes:
        bucket = in_precision(Bucket(0, (int(numel),), 0, (0,)), precision)
        selection = method.expect(bucket, setup.workers, setup.concentration)
        asked.append((bucket, steps_of(setup, method, bucket, selection), 1))
    pricing = KernelPrices(setup.gpu, setup.runtime, widths_of(precision, method.has_residual))
    exchanges, steps, _ = price_exchanges(setup, asked, pricing, decoupled=False)
    if setup.topology.concurrent:
        seconds = [_push_pull_time(step, setup.network, setup.runtime) for step in steps]
    else:
        priced = price_steps(steps, (), replace(setup.network, fidelity="fold"))
        seconds = (priced.seconds + software_times(steps, setup.runtime)).tolist()
    chains, selected = [each.chain for each in exchanges], [each.selection for each in exchanges]
    times = [math.fsum(it.seconds if isinstance(it, Kernel) else seconds[it] for it in chain) for chain in chains]
    return Costs(_interpolate(sizes, times), _interpolate(sizes, selected), density, by_tensor, method.kind)


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


_divisions: LatestResults[tuple[Bucket, ...]] = LatestResults(128)
_priced: LatestResults[Costs] = LatestResults(1024)
"""What schedulers read, the same for all that divide one job."""
_alike: LatestResults[tuple[Bucket, ...]] = LatestResults(64)
"""Buckets by their values, so that what is known of one division serves all that are equal."""


def divide(setup: Setup) -> tuple[Bucket, ...]:
    """The buckets of a job, in the order of the backward pass; the same object for all jobs that share them.

    A scheduler that reads costs sees those of the closed form on this network. Raises an expected-error where a method
    that selects from the whole model meets several buckets, or where there are more collectives than can be followed.
    """

    def plan_buckets() -> tuple[Bucket, ...]:
        priced = _priced.get(_costs_key(setup), lambda: price_costs(setup)) if _reads_costs(setup) else FREE
        return _plan_buckets(setup, priced)

    buckets = _divisions.get(_key(setup), plan_buckets)
    refuse_collectives(setup.workers, len(buckets))
    if getattr(setup.sparsifier, "granularity", "") == "model" and len(buckets) > 1:
        hint = "selection over the whole model needs all gradients: use `scheduler: sequential` with one bucket"
        raise expected("one bucket", f"{len(buckets)} buckets from scheduler {setup.scheduler.kind}", hint)
    return buckets


def _reads_costs(setup: Setup) -> bool:
    return setup.workers > 1 and setup.scheduler.reads_costs


def _key(setup: Setup) -> Hashable:
    """What a division depends on."""
    scheduler, sharding = setup.scheduler, setup.sharding
    own = setup.workload.fingerprint, type(scheduler), scheduler.fingerprint, compute_of(setup).update_alone
    return *own, sharding and (setup.workers, *sharding.tensors), _costs_key(setup)


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
        costs = replace(costs, copies=setup.workers * sharding.size)
    refuse_rules(setup.scheduler, setup.workload.micro_batches)
    buckets = setup.scheduler.plan(layers, costs)
    refuse_buckets(setup.scheduler, buckets, layers)
    if sharding is not None:
        sizes = sharding.sizes
        buckets = [replace(each, pieces=_parts(each, sizes)) for each in buckets]
    made = tuple(in_precision(bucket, precision) for bucket in buckets)
    return _alike.get(made, lambda: made)


def _parts(bucket: Bucket, sizes: Sequence[int]) -> tuple[int, ...]:
    """What a GPU has of each piece, where so many share each tensor."""
    return tuple(-(-n // sizes[layer]) for n, layer in zip(bucket.pieces, bucket.layers, strict=True))
