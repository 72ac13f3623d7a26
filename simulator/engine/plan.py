"""The plan of one iteration: what each stream will do, in seconds or in rounds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from simulator.component import expected
from simulator.engine.pricing import Prices, price
from simulator.fabrics.base import Fabric, Wiring
from simulator.models.curves import Floats
from simulator.models.exchange import AllGather, Bucket, Communication, Compute, Selection, Step
from simulator.models.hardware import Gpu, Runtime
from simulator.models.layers import Workload
from simulator.models.overlap import Overlap
from simulator.schedulers.base import Scheduler
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
    communication once); `uses` are the pairs of bucket and place; `combine` are the kernels after it.
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
    uses: tuple[tuple[int, int], ...]
    kernels: dict[str, KernelUse]
    density: dict[str, float]


@dataclass(slots=True)
class Stage:
    """One link of a bucket's exchange: a fixed time (collective or kernel), or rounds that share links as they go."""

    label: str
    seconds: float = 0.0
    rounds: Rounds | None = None
    collective: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """One iteration: the work, and its exchanges on a network."""

    work: Work
    exchanges: list[list[Stage]]
    overlap: bool
    concurrent: bool
    runtime: Runtime
    wiring: Wiring
    prices: Prices = field(repr=False)

    @property
    def single_gpu_time(self) -> float:
        """Seconds of the same step on one GPU, without exchange or selection."""
        work = self.work
        return work.input_time + work.forward + float(work.backward.sum()) + work.update


@dataclass(frozen=True, slots=True)
class Setup:
    """The parts of a scenario that one iteration is planned from.

    `selections`, one per bucket, come from a replay; without them the closed form gives them, with `concentration` for
    the overlap law.
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


def assemble(setup: Setup) -> Plan:
    """Buckets, selections, exchanges and their prices for one scenario. One worker exchanges and selects nothing.

    Raises an expected-error where the sparsifier, the scheduler and the topology cannot work together.
    """
    topology, runtime = setup.topology, setup.runtime
    layout = topology.layout(setup.nodes, setup.gpus_per_node)
    wiring = setup.fabric.wire(layout, runtime.endpoint_bandwidth if topology.concurrent else None)
    work = prepare(setup, layout.workers)
    prices = price(work.steps, work.uses, topology, setup.fabric, wiring)
    if topology.concurrent:
        exchanges = [_phases(chain, slot, work.steps, topology, wiring) for slot, chain in enumerate(work.chains)]
    else:
        exchanges = _stages(work, prices.seconds, runtime)
    return Plan(work, exchanges, setup.scheduler.overlap, topology.concurrent, runtime, wiring, prices)


_prepared: OrderedDict[tuple[object, ...], Work] = OrderedDict()


def prepare(setup: Setup, workers: int) -> Work:
    """The part of the plan that the network does not touch; the latest ones are remembered, as sweeps repeat them."""
    if setup.selections is not None:
        return _prepare(setup, workers)
    specs = (setup.workload, setup.gpu, setup.runtime, setup.sparsifier, setup.scheduler)
    key = (*(spec.fingerprint for spec in specs), workers, setup.topology.style, setup.concentration)
    known = _prepared.get(key)
    if known is None:
        known = _prepared[key] = _prepare(setup, workers)
        if len(_prepared) > _REMEMBERED:
            _prepared.popitem(last=False)
    return known


def _prepare(setup: Setup, workers: int) -> Work:
    gpu, runtime, sparsifier = setup.gpu, setup.runtime, setup.sparsifier
    update = update_time(setup.workload, gpu, runtime)
    workload = setup.workload.stretched(update)
    buckets = setup.scheduler.plan(workload.layers)
    if sparsifier.needs_whole_model() and len(buckets) > 1:
        hint = "selection over the whole model needs all gradients: use `scheduler: sequential` with one bucket"
        raise expected("one bucket", f"{len(buckets)} buckets from scheduler {setup.scheduler.kind}", hint)
    selections = list(setup.selections or ())
    if setup.selections is None:
        selections = [sparsifier.expect(bucket, workers, setup.concentration) for bucket in buckets]
    pricing = _Kernels(gpu, runtime)
    select, spread, combine = (np.zeros(len(buckets)) for _ in range(3))
    chains: list[tuple[Kernel | int, ...]] = [()] * len(buckets)
    steps: dict[Communication, int] = {}
    for i, (bucket, selection) in enumerate(zip(buckets, selections, strict=True)):
        if workers == 1:
            break
        chosen = sparsifier.compute(selection, bucket, workers)
        select[i] = sum(pricing.cost(item) for item in chosen)
        spread[i] = sum(pricing.spread(item) for item in chosen)
        exchange = sparsifier.exchange(selection, bucket, workers, setup.topology.style)
        chains[i], combine[i] = _chain(exchange, pricing, steps)
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
        uses=tuple((slot, step) for slot, chain in enumerate(chains) for step in chain if isinstance(step, int)),
        kernels=pricing.used,
        density=_density(buckets, selections),
    )


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


def _stages(work: Work, seconds: Floats, runtime: Runtime) -> list[list[Stage]]:
    """Every exchange where one follows the other: fixed times, the runtime's own cost per call added."""
    stage_of = [
        Stage(
            type(step).__name__,
            time + runtime.negotiation + runtime.gather_overhead * isinstance(step, AllGather),
        )
        for step, time in zip(work.steps, seconds.tolist(), strict=True)
    ]
    made: dict[tuple[Kernel | int, ...], list[Stage]] = {}
    for chain in work.chains:
        if chain not in made:
            made[chain] = [
                Stage(s.label, s.seconds, collective=False) if isinstance(s, Kernel) else stage_of[s] for s in chain
            ]
    return [made[chain] for chain in work.chains]


def _phases(
    chain: Sequence[Kernel | int],
    slot: int,
    steps: Sequence[Communication],
    topology: Topology,
    wiring: Wiring,
) -> list[Stage]:
    """One exchange where several share the links: its rounds, phase by phase."""
    stages: list[Stage] = []
    for item in chain:
        if isinstance(item, Kernel):
            stages.append(Stage(item.label, item.seconds, collective=False))
        else:
            phases = topology.rounds(steps[item], wiring.layout, slot)
            stages.extend(Stage(type(steps[item]).__name__, rounds=phase) for phase in phases)
    return stages
