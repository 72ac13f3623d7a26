"""The plan of one iteration: what each stream will do, in seconds or in rounds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from simulator.component import Spec, expected
from simulator.engine.classes import Structure, structure
from simulator.engine.conditions import IDLE, Conditions
from simulator.engine.flows import Surroundings
from simulator.engine.fold import fold
from simulator.engine.ordering import common_order
from simulator.engine.pricing import Fidelity, Prices, Wires, on_the_wire, price
from simulator.fabrics.base import Fabric, Wiring
from simulator.models.curves import Floats
from simulator.models.exchange import (
    AllGather,
    AllReduce,
    Bucket,
    Communication,
    Compute,
    Ints,
    Layout,
    Placement,
    PushPull,
    ReduceScatter,
    Round,
    Selection,
    Step,
)
from simulator.models.hardware import Gpu, Runtime
from simulator.models.layers import VALUE_BYTES, Workload
from simulator.models.overlap import Overlap
from simulator.schedulers.base import FREE, Costs, Scheduler
from simulator.sparsifiers.base import Sparsifier
from simulator.topologies.base import Rounds, Topology

_REMEMBERED = 64


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel inside an exchange, already priced."""

    label: str
    seconds: float


@dataclass(frozen=True, slots=True)
class KernelUse:
    """What one iteration asks of a kernel: the smallest and the largest call, in elements, and its seconds in all."""

    smallest: float
    largest: float
    seconds: float


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


@dataclass(slots=True)
class Stage:
    """One link of a bucket's exchange: a fixed time (collective or kernel), then rounds that share links as they go."""

    label: str
    seconds: float = 0.0
    rounds: Rounds | None = None
    collective: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """One iteration: the work, and its exchanges on a network.

    `live`: exchanges are timed as they go, since they meet others on the links; `flowing`: by fair sharing. Arrays over
    workers have one row where all are alike: `pace` (w,) of compute, `selection` and its spread (w, b). `order`
    is that of first in, first out; `priority` the first layer that needs each bucket, `nbytes` its gradients.
    """

    work: Work
    scheduler: Scheduler
    runtime: Runtime
    wiring: Wiring
    exchanges: list[list[Stage]]
    second_halves: list[list[Stage]]
    live: bool
    flowing: bool
    concurrent: bool
    pace: Floats
    selection: Floats
    selection_spread: Floats
    order: list[int]
    priority: list[int]
    nbytes: list[float]
    surroundings: Surroundings
    prices: Prices = field(repr=False)

    @property
    def overlap(self) -> bool:
        """Whether exchanges run beside the backward pass."""
        return self.scheduler.overlap

    @property
    def single_gpu_time(self) -> float:
        """Seconds of the same step on one GPU, without exchange or selection."""
        work = self.work
        return work.input_time + work.forward + float(work.backward.sum()) + work.update

    def structures(self) -> set[Structure]:
        """What the network must know to find what is alike."""
        stages = (stage for part in (self.exchanges, self.second_halves) for chain in part for stage in chain)
        return {structure(stage.rounds)[0] for stage in stages if stage.rounds}


@dataclass(frozen=True, slots=True)
class OtherGpu:
    """Nodes with another GPU: its kernels, and how much longer forward and backward take there."""

    gpu: Gpu
    nodes: tuple[int, ...]
    factor: float


@dataclass(frozen=True, slots=True)
class Setup:
    """The parts of a scenario that one iteration is planned from.

    `selections`, one per bucket, come from a replay; without them the closed form gives them, with `concentration` for
    the overlap law. `orders`: those in which single workers issue their collectives, where it is not that of readiness.
    """

    workload: Workload
    nodes: int
    gpus_per_node: int
    gpu: Gpu
    fabric: Fabric
    runtime: Runtime
    topology: Topology
    sparsifier: Sparsifier
    scheduler: Scheduler
    concentration: Overlap
    selections: tuple[Selection, ...] | None = None
    fidelity: Fidelity = "auto"
    others: tuple[OtherGpu, ...] = ()
    conditions: Conditions = IDLE
    orders: Mapping[int, Sequence[int]] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        """Who takes part."""
        return self.topology.layout(self.nodes, self.gpus_per_node)


@dataclass(frozen=True, slots=True)
class Beside:
    """Another job on the cluster: its setup, the nodes that it runs on, and when it starts, in seconds."""

    setup: Setup
    nodes: tuple[int, ...]
    start: float


def assemble(setup: Setup, beside: Sequence[Beside] = ()) -> tuple[Plan, list[tuple[Plan, float]]]:
    """The plan of a job, and of those beside it: buckets, selections, exchanges and their prices.

    One worker exchanges and selects nothing. Raises an expected-error where the parts cannot work together.
    """
    layout = setup.layout
    seats, placement = _seated(layout, beside)
    endpoint = setup.runtime.endpoint_bandwidth if setup.topology.concurrent else None
    wiring = setup.conditions.slowed(setup.fabric.lay(layout, placement, endpoint))
    surroundings = setup.conditions.surroundings(wiring)
    wires = Wires(setup.topology, setup.fabric, wiring, setup.fidelity, surroundings)
    meets = bool(surroundings.changes or beside)
    plan = _plan(setup, wires, None, meets)
    others = []
    for item, seat in zip(beside, seats, strict=True):
        own = replace(wires, topology=item.setup.topology, wiring=replace(wiring, layout=item.setup.layout))
        others.append((_plan(item.setup, own, seat, True), item.start))
    return plan, others


def _plan(setup: Setup, wires: Wires, seats: Ints | None, meets: bool) -> Plan:
    topology, runtime, wiring = setup.topology, setup.runtime, wires.wiring
    layout = wiring.layout
    work = prepare(setup, layout.workers, wires)
    each = [(item, prepare(replace(setup, gpu=item.gpu), layout.workers, wires)) for item in setup.others]
    pace, selection, spread = _by_worker(setup, work, each)
    work = _slowest(work, [other for _, other in each])
    live = topology.concurrent or meets
    prices = price(work.steps, work.uses if seats is None else (), wires, live)
    if live:
        exchanges = [_live(chain, slot, work.steps, wires, runtime) for slot, chain in enumerate(work.chains)]
        halves = [_live(chain, slot, work.steps, wires, runtime) for slot, chain in enumerate(work.halves)]
        for stage in (stage for part in (exchanges, halves) for chain in part for stage in chain):
            if stage.rounds and seats is not None:
                stage.rounds = [Round(seats[i.src], seats[i.dst], i.nbytes, i.repeat) for i in stage.rounds]
    else:
        exchanges = _stages(work, work.chains, prices.seconds, runtime)
        halves = _stages(work, work.halves, prices.seconds, runtime)
    return Plan(
        work=work,
        scheduler=setup.scheduler,
        runtime=runtime,
        wiring=wiring,
        exchanges=exchanges,
        second_halves=halves,
        live=live and layout.workers > 1,
        flowing=live and setup.fidelity != "fold",
        concurrent=topology.concurrent,
        pace=pace,
        selection=selection,
        selection_spread=spread,
        order=_order(setup, len(work.buckets)),
        priority=[min(bucket.layers) for bucket in work.buckets],
        nbytes=[float(VALUE_BYTES * bucket.numel) for bucket in work.buckets],
        surroundings=wires.surroundings,
        prices=prices,
    )


def _order(setup: Setup, buckets: int) -> list[int]:
    """The buckets in the order of their collectives; push and pull need nobody else's turn."""
    made = None
    if setup.orders and setup.topology.style == "collective":
        made = common_order(setup.orders, setup.layout.workers, buckets)
    return list(range(buckets)) if made is None else made


def _seated(layout: Layout, beside: Sequence[Beside]) -> tuple[list[Ints], Placement]:
    """The places of every job beside the first, and where all places stand; servers get nodes of their own."""
    mine = layout.placement()
    node, rank, seats, last = mine.node, mine.rank, [], mine.nodes
    for item in beside:
        other = item.setup.layout.placement()
        hosts = np.array(item.nodes)
        own = other.node < len(hosts)
        standing = np.where(own, hosts[np.minimum(other.node, len(hosts) - 1)], last + other.node - len(hosts))
        seats.append(len(node) + np.arange(other.places))
        taken = np.bincount(node, minlength=int(standing.max()) + 1)
        node, rank = np.concatenate([node, standing]), np.concatenate([rank, other.rank + taken[standing]])
        last = max(last, int(standing.max()) + 1)
    return seats, Placement(node, rank)


def _by_worker(setup: Setup, work: Work, each: Sequence[tuple[OtherGpu, Work]]) -> tuple[Floats, Floats, Floats]:
    """Pace of compute (w,), selection and its spread (w, b): one row where all GPUs are alike."""
    if not each:
        return np.ones(1), work.selection[None, :], work.selection_spread[None, :]
    workers = setup.nodes * setup.gpus_per_node
    pace = np.ones(workers)
    selection, spread = (np.tile(values, (workers, 1)) for values in (work.selection, work.selection_spread))
    node = np.arange(workers) // setup.gpus_per_node
    for item, other in each:
        there = np.isin(node, item.nodes)
        pace[there], selection[there], spread[there] = item.factor, other.selection, other.selection_spread
    return pace, selection, spread


def _slowest(work: Work, others: Sequence[Work]) -> Work:
    """After an exchange all go on together, so that combining and the update take as long as on the slowest GPU."""
    if not others:
        return work
    every = [work, *others]

    def longest(places: Sequence[tuple[Kernel | int, ...]]) -> tuple[Kernel | int, ...]:
        return tuple(
            Kernel(items[0].label, max(item.seconds for item in items if isinstance(item, Kernel)))
            if isinstance(items[0], Kernel)
            else items[0]
            for items in zip(*places, strict=True)
        )

    return replace(
        work,
        update=max(item.update for item in every),
        combine=np.max([item.combine for item in every], axis=0),
        chains=tuple(longest(each) for each in zip(*(item.chains for item in every), strict=True)),
    )


_prepared: OrderedDict[tuple[object, ...], Work] = OrderedDict()


def prepare(setup: Setup, workers: int, wires: Wires) -> Work:
    """The part of the plan that the network does not touch; the latest ones are remembered, as sweeps repeat them.

    A scheduler that reads costs looks at the network; its work is remembered with the network.
    """
    if setup.selections is not None:
        return _prepare(setup, workers, wires)
    specs: tuple[Spec, ...] = (setup.workload, setup.gpu, setup.runtime, setup.sparsifier, setup.scheduler)
    if setup.scheduler.reads_costs:
        specs = (*specs, setup.topology, setup.fabric)
    kinds = tuple(type(spec) for spec in specs)
    shape = (setup.nodes, setup.gpus_per_node) if setup.scheduler.reads_costs else (workers,)
    key = (*(spec.fingerprint for spec in specs), kinds, shape, setup.topology.style, setup.concentration)
    known = _prepared.get(key)
    if known is None:
        known = _prepared[key] = _prepare(setup, workers, wires)
        if len(_prepared) > _REMEMBERED:
            _prepared.popitem(last=False)
    return known


def _prepare(setup: Setup, workers: int, wires: Wires) -> Work:
    gpu, runtime, sparsifier = setup.gpu, setup.runtime, setup.sparsifier
    update = update_time(setup.workload, gpu, runtime)
    workload = setup.workload.stretched(update)
    priced = workers > 1 and setup.scheduler.reads_costs
    costs = _costs(setup, workload, workers, wires) if priced else FREE
    buckets = setup.scheduler.plan(workload.layers, costs)
    if sparsifier.needs_whole_model() and len(buckets) > 1:
        hint = "selection over the whole model needs all gradients: use `scheduler: sequential` with one bucket"
        raise expected("one bucket", f"{len(buckets)} buckets from scheduler {setup.scheduler.kind}", hint)
    methods = [sparsifier.at_density(bucket.density) for bucket in buckets]
    selections = list(setup.selections or ())
    if setup.selections is None:
        selections = [
            method.expect(bucket, workers, setup.concentration) for method, bucket in zip(methods, buckets, strict=True)
        ]
    pricing = _Kernels(gpu, runtime)
    select, spread, combine = (np.zeros(len(buckets)) for _ in range(3))
    chains: list[tuple[Kernel | int, ...]] = [()] * len(buckets)
    halves: list[tuple[Kernel | int, ...]] = [()] * len(buckets)
    steps: dict[Communication, int] = {}
    for i, (bucket, selection) in enumerate(zip(buckets, selections, strict=True)):
        if workers == 1:
            break
        chosen = methods[i].compute(selection, bucket, workers)
        select[i] = sum(pricing.cost(item) for item in chosen)
        spread[i] = sum(pricing.spread(item) for item in chosen)
        exchange = methods[i].exchange(selection, bucket, workers, setup.topology.style)
        second: list[Step] = []
        if setup.scheduler.decoupled:
            exchange, second = _decoupled(exchange, workers)
        chains[i], combine[i] = _chain(exchange, pricing, steps)
        halves[i] = _chain(second, pricing, steps)[0]
    both = [(*chain, *half) for chain, half in zip(chains, halves, strict=True)]
    covers = [(bucket.index, layer) for bucket in buckets for layer in bucket.layers]
    return Work(
        input_time=workload.input_time,
        forward=workload.forward_time,
        update=update,
        buckets=tuple(buckets),
        selections=tuple(selections),
        backward=_backward_times(workload, buckets),
        selection=select,
        selection_spread=spread,
        combine=combine,
        steps=tuple(steps),
        chains=tuple(chains),
        halves=tuple(halves),
        uses=tuple((slot, step) for slot, chain in enumerate(both) for step in chain if isinstance(step, int)),
        kernels=pricing.used,
        density=_density(buckets, selections),
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


_GRID = 33


def _costs(setup: Setup, workload: Workload, workers: int, wires: Wires) -> Costs:
    """Exchange and selection as functions of a bucket's elements: straight between sizes spread over the model's."""
    sizes = np.unique(np.rint(np.geomspace(1, max(2, workload.numel), _GRID)))
    pricing, steps = _Kernels(setup.gpu, setup.runtime), dict[Communication, int]()
    select, chains = [], []
    for numel in sizes:
        bucket = Bucket(0, (int(numel),), 0, (0,))
        selection = setup.sparsifier.expect(bucket, workers, setup.concentration)
        select.append(sum(pricing.cost(item) for item in setup.sparsifier.compute(selection, bucket, workers)))
        exchange = setup.sparsifier.exchange(selection, bucket, workers, setup.topology.style)
        chains.append(_chain(exchange, pricing, steps)[0])
    every = tuple(steps)
    if setup.topology.concurrent:
        seconds = np.array([_alone(step, wires, setup.runtime) for step in every])
    else:
        seconds = price(every, [(0, place) for place in range(len(every))], replace(wires, fidelity="fold")).seconds
        seconds = seconds + [_software(step, setup.runtime) for step in every]
    times = [sum(s.seconds if isinstance(s, Kernel) else float(seconds[s]) for s in chain) for chain in chains]
    density = float(getattr(setup.sparsifier, "density", 1.0))
    return Costs(_straight(sizes, np.array(times)), _straight(sizes, np.array(select)), density)


def _straight(sizes: Floats, seconds: Floats) -> Callable[[Floats | float], Floats]:
    return lambda numel: np.asarray(np.interp(numel, sizes, seconds))


def _alone(step: Communication, wires: Wires, runtime: Runtime) -> float:
    """Seconds of push and pull with the wires to itself."""
    clock = np.zeros(len(wires.wiring.node))
    for phase in wires.topology.rounds(step, wires.wiring.layout):
        clock[:] = fold(phase, wires.wiring, clock, overhead=runtime.message_overhead).max()
    return float(clock.max())


class _Kernels:
    """Prices kernels, and notes which sizes were asked for."""

    def __init__(self, gpu: Gpu, runtime: Runtime) -> None:
        self.gpu, self.runtime = gpu, runtime
        self.used: dict[str, KernelUse] = {}

    def cost(self, item: Compute) -> float:
        """Seconds: the host launches while the GPU computes, so a phase takes as long as the slower of the two."""
        if not item.elements:
            return 0.0
        sizes = np.array(item.elements)
        seconds = self._seconds(item, sizes)
        known = self.used.get(item.kernel, KernelUse(np.inf, 0.0, 0.0))
        smallest, largest = min(known.smallest, float(sizes.min())), max(known.largest, float(sizes.max()))
        self.used[item.kernel] = KernelUse(smallest, largest, known.seconds + seconds)
        return seconds

    def _seconds(self, item: Compute, sizes: Floats) -> float:
        if item.kernel == "host_merge":
            return float(sizes.sum()) * self.runtime.host_element
        return max(float(self.gpu.kernel_time(item.kernel, sizes).sum()), self.runtime.kernel_launch * item.calls)

    def spread(self, item: Compute) -> float:
        """Standard deviation in seconds: the kernel's runs differ on their own, so their variances add."""
        spread = self.gpu.spread(item.kernel)
        return spread * float(np.linalg.norm(self.gpu.kernel_time(item.kernel, item.elements))) if spread else 0.0


def update_time(workload: Workload, gpu: Gpu, runtime: Runtime) -> float:
    """Seconds of the optimiser's step: its kernel on every tensor, `update_calls` framework calls each."""
    calls = runtime.update_calls * len(workload.layers)
    return _Kernels(gpu, runtime).cost(Compute("update", tuple(workload.numels), calls, "combine"))


def _chain(
    exchange: Sequence[Step], pricing: _Kernels, steps: dict[Communication, int]
) -> tuple[tuple[Kernel | int, ...], float]:
    """The exchange up to its last communication, kernels priced, and the seconds of the kernels after it."""
    last = max((i for i, step in enumerate(exchange) if not isinstance(step, Compute)), default=-1)
    chain = tuple(
        Kernel(step.kernel, pricing.cost(step)) if isinstance(step, Compute) else steps.setdefault(step, len(steps))
        for step in exchange[: last + 1]
    )
    return chain, sum(pricing.cost(step) for step in exchange[last + 1 :] if isinstance(step, Compute))


def _backward_times(workload: Workload, buckets: Sequence[Bucket]) -> Floats:
    """Backward seconds between the previous bucket and this one; buckets follow each other in backward order."""
    ready = np.cumsum([layer.backward for layer in reversed(workload.layers)])
    last = len(workload.layers) - 1
    return np.diff([0.0, *(float(ready[last - bucket.ready_layer]) for bucket in buckets)])


def _density(buckets: Sequence[Bucket], selections: Sequence[Selection]) -> dict[str, float]:
    d = sum(bucket.numel for bucket in buckets)
    selected = sum(float(item.selected.mean()) for item in selections)
    aggregated = sum(item.aggregated for item in selections)
    return {
        "target": sum(item.target for item in selections) / d,
        "selected": selected / d,
        "aggregated": aggregated / d,
        "build_up": aggregated / selected,
        "padding": sum(item.largest for item in selections) / selected,
    }


def _software(step: Communication, runtime: Runtime) -> float:
    """The runtime's own seconds per call."""
    if isinstance(step, PushPull):
        return 0.0
    return runtime.negotiation + runtime.gather_overhead * isinstance(step, AllGather)


def _stages(
    work: Work, chains: Sequence[tuple[Kernel | int, ...]], seconds: Floats, runtime: Runtime
) -> list[list[Stage]]:
    """Every exchange where one follows the other: fixed times, the runtime's own cost per call added."""
    stage_of = [
        Stage(type(step).__name__, time + _software(step, runtime))
        for step, time in zip(work.steps, seconds.tolist(), strict=True)
    ]
    made: dict[tuple[Kernel | int, ...], list[Stage]] = {}
    for chain in chains:
        if chain not in made:
            made[chain] = [
                Stage(s.label, s.seconds, collective=False) if isinstance(s, Kernel) else stage_of[s] for s in chain
            ]
    return [made[chain] for chain in chains]


def _live(
    chain: Sequence[Kernel | int], slot: int, steps: Sequence[Communication], wires: Wires, runtime: Runtime
) -> list[Stage]:
    """One exchange where several share the links: its rounds, phase by phase."""
    stages: list[Stage] = []
    for item in chain:
        if isinstance(item, Kernel):
            stages.append(Stage(item.label, item.seconds, collective=False))
            continue
        step, label = steps[item], type(steps[item]).__name__
        phases = [phase for phase in on_the_wire(step, slot, wires) if phase]
        software = _software(step, runtime)
        stages.extend(Stage(label, software if i == 0 else 0.0, rounds=phase) for i, phase in enumerate(phases))
    return stages
