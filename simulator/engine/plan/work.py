"""The work of one iteration: all that the network does not touch."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.component import Spec, expected
from simulator.engine.plan.costs import costs_of
from simulator.engine.plan.kernels import Kernel, Kernels, KernelUse, chained, update_time
from simulator.engine.plan.pricing import Wires
from simulator.engine.plan.setup import Setup
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
from simulator.models.limits import refuse_collectives
from simulator.schedulers.base import FREE
from simulator.sparsifiers.base import Sparsifier

_REMEMBERED = 64


@dataclass(frozen=True, slots=True)
class Work:
    """All that does not depend on the network: buckets in order, with their compute, selection and exchange.

    Arrays are (b,), one entry per bucket, in seconds. `selection_spread` is the standard deviation from worker to
    worker; `chains` are the exchanges up to the last communication, as kernels and places in `steps` (each kind of
    communication once), `halves` what follows once everything is reduced, where an all-reduce is cut in two; `uses`
    are the pairs of bucket and place; `combine` are the kernels after it. `layer_forward` and `layer_numel` (L,) are in
    forward order, `covers` (2, c) the pairs of bucket and layer.
    """

    input_time: float
    forward: float
    update: float
    buckets: tuple[Bucket, ...]
    selections: tuple[Selection, ...]
    backward: Floats
    selection: Floats
    selection_spread: Floats
    combine: Floats
    steps: tuple[Communication, ...]
    chains: tuple[tuple[Kernel | int, ...], ...]
    halves: tuple[tuple[Kernel | int, ...], ...]
    uses: tuple[tuple[int, int], ...]
    kernels: dict[str, KernelUse]
    density: dict[str, float]
    layer_forward: Floats
    layer_numel: Floats
    covers: Ints

    def per_layer(self, values: Floats) -> Floats:
        """Values of buckets (b,), added up at the first layer that needs each, (L,)."""
        first = [min(bucket.layers) for bucket in self.buckets]
        return np.bincount(first, weights=values, minlength=len(self.layer_forward)).astype(float)

    def update_shares(self) -> Floats:
        """The update's seconds, layer by layer in proportion to the elements, (L,)."""
        shares: Floats = self.update * self.layer_numel / self.layer_numel.sum()
        return shares

    def needed_at(self, done: Sequence[float]) -> Floats:
        """When all buckets that hold a part of each layer are done, (L,)."""
        made = np.zeros(len(self.layer_forward))
        np.maximum.at(made, self.covers[1], np.asarray(done)[self.covers[0]])
        return made


_prepared: OrderedDict[tuple[object, ...], Work] = OrderedDict()


def prepare(setup: Setup, workers: int, wires: Wires, buckets: Sequence[Bucket] | None = None) -> Work:
    """The part of the plan that the network does not touch; the latest ones are remembered, as sweeps repeat them.

    A scheduler that reads costs looks at the network; its work is remembered with the network. `buckets`, where they
    are given, are not planned anew.
    """
    if setup.selections is not None:
        return _prepare(setup, workers, wires, buckets)
    specs: tuple[Spec, ...] = (setup.workload, setup.gpu, setup.runtime, setup.sparsifier, setup.scheduler)
    if setup.scheduler.reads_costs:
        specs = (*specs, setup.topology, setup.fabric)
    kinds = tuple(type(spec) for spec in specs)
    shape: tuple[object, ...] = (workers, None if buckets is None else tuple(buckets))
    if setup.scheduler.reads_costs:
        shape = (*shape, setup.nodes, wires.wiring.node.tobytes(), setup.conditions)
    key = (*(spec.fingerprint for spec in specs), kinds, shape, setup.topology.style, setup.concentration)
    known = _prepared.get(key)
    if known is None:
        known = _prepared[key] = _prepare(setup, workers, wires, buckets)
        if len(_prepared) > _REMEMBERED:
            _prepared.popitem(last=False)
    return known


_CUTS_REMEMBERED = 8
_cut: OrderedDict[tuple[str, str, float], tuple[Workload, Sequence[Bucket]]] = OrderedDict()


def _planned(setup: Setup, workers: int, wires: Wires, update: float) -> tuple[Workload, Sequence[Bucket]]:
    """The stretched workload and its buckets; where the scheduler asks for no costs, the same all through a sweep."""
    if workers > 1 and setup.scheduler.reads_costs:
        workload = setup.workload.stretched(update)
        return workload, setup.scheduler.plan(workload.layers, costs_of(setup, workload, workers, wires))
    key = (setup.workload.fingerprint, f"{type(setup.scheduler)} {setup.scheduler.fingerprint}", update)
    if key not in _cut:
        workload = setup.workload.stretched(update)
        _cut[key] = workload, setup.scheduler.plan(workload.layers, FREE)
        if len(_cut) > _CUTS_REMEMBERED:
            _cut.popitem(last=False)
    return _cut[key]


def _expected(
    setup: Setup, methods: Sequence[Sparsifier], buckets: Sequence[Bucket], workers: int
) -> tuple[Selection, ...]:
    """The closed form of each bucket's selection; buckets of the same pieces share one."""
    known: dict[object, Selection] = {}
    for method, bucket in zip(methods, buckets, strict=True):
        alike = bucket.pieces, bucket.density
        if alike not in known:
            known[alike] = method.expect(bucket, workers, setup.concentration)
    return tuple(known[bucket.pieces, bucket.density] for bucket in buckets)


def _prepare(setup: Setup, workers: int, wires: Wires, planned: Sequence[Bucket] | None) -> Work:
    gpu, runtime, sparsifier = setup.gpu, setup.runtime, setup.sparsifier
    update = update_time(setup.workload, gpu, runtime)
    if planned is None:
        workload, buckets = _planned(setup, workers, wires, update)
    else:
        workload, buckets = setup.workload.stretched(update), planned
    refuse_collectives(workers, len(buckets))
    if sparsifier.needs_whole_model() and len(buckets) > 1:
        hint = "selection over the whole model needs all gradients: use `scheduler: sequential` with one bucket"
        raise expected("one bucket", f"{len(buckets)} buckets from scheduler {setup.scheduler.kind}", hint)
    methods = [sparsifier.at_density(bucket.density) for bucket in buckets]
    selections = setup.selections or _expected(setup, methods, buckets, workers)
    pricing = Kernels(gpu, runtime)
    select, spread, combine = (np.zeros(len(buckets)) for _ in range(3))
    chains: list[tuple[Kernel | int, ...]] = [()] * len(buckets)
    halves: list[tuple[Kernel | int, ...]] = [()] * len(buckets)
    steps: dict[Communication, int] = {}
    first: dict[object, int] = {}
    asked: list[list[Compute]] = []
    for i, (bucket, selection) in enumerate(zip(buckets, selections, strict=True)):
        if workers == 1:
            break
        same = first.setdefault((bucket.pieces, bucket.density, id(selection)), i)
        if same < i:  # tensors of one size: the same steps and prices
            select[i], spread[i], combine[i] = select[same], spread[same], combine[same]
            chains[i], halves[i] = chains[same], halves[same]
            asked.append(asked[same])
            for item in asked[same]:
                pricing.cost(item)
            continue
        chosen = methods[i].compute(selection, bucket, workers)
        select[i] = math.fsum(pricing.cost(item) for item in chosen)
        spread[i] = math.fsum(pricing.spread(item) for item in chosen)
        exchange = methods[i].exchange(selection, bucket, workers, setup.topology.style)
        second: list[Step] = []
        if setup.scheduler.decoupled:
            exchange, second = _decoupled(exchange, workers)
        chains[i], combine[i] = chained(exchange, pricing, steps)
        halves[i] = chained(second, pricing, steps)[0]
        asked.append([item for item in (*chosen, *exchange, *second) if isinstance(item, Compute)])
    both = [(*chain, *half) for chain, half in zip(chains, halves, strict=True)]
    covers = [(bucket.index, layer) for bucket in buckets for layer in bucket.layers]
    return Work(
        input_time=workload.input_time,
        forward=workload.forward_time,
        update=update,
        buckets=tuple(buckets),
        selections=selections,
        backward=_backward_times(workload, buckets),
        selection=select,
        selection_spread=spread,
        combine=combine,
        steps=tuple(steps),
        chains=tuple(chains),
        halves=tuple(halves),
        uses=tuple((slot, step) for slot, chain in enumerate(both) for step in chain if isinstance(step, int)),
        kernels=pricing.used,
        density=density_of(buckets, selections),
        layer_forward=np.array([layer.forward for layer in workload.layers]),
        layer_numel=workload.numels,
        covers=np.array(covers, dtype=np.int64).T,
    )


def _decoupled(exchange: Sequence[Step], workers: int) -> tuple[list[Step], list[Step]]:
    """The exchange with its last all-reduce cut to a reduce-scatter, and the all-gather that is left."""
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


def density_of(buckets: Sequence[Bucket], selections: Sequence[Selection]) -> dict[str, float]:
    d = sum(bucket.numel for bucket in buckets)
    selected = math.fsum(float(item.selected.mean()) for item in selections)
    aggregated = math.fsum(item.aggregated for item in selections)
    return {
        "target": math.fsum(item.target for item in selections) / d,
        "selected": selected / d,
        "aggregated": aggregated / d,
        "build_up": aggregated / selected,
        "padding": math.fsum(item.largest for item in selections) / selected,
    }
