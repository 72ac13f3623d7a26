"""The plan of one iteration: what each stream will do, in seconds or in rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from simulator.component import expected
from simulator.engine.pricing import Prices, price
from simulator.fabrics.base import Fabric, Wiring
from simulator.models.exchange import AllGather, Bucket, Communication, Compute, Selection, Step
from simulator.models.hardware import Gpu, Runtime
from simulator.models.layers import Workload
from simulator.schedulers.base import Scheduler
from simulator.sparsifiers.base import Sparsifier
from simulator.topologies.base import Rounds, Topology


@dataclass(slots=True)
class Stage:
    """One link of a bucket's exchange: a fixed time (collective or kernel), or rounds that share links as they go."""

    label: str
    seconds: float = 0.0
    rounds: Rounds | None = None
    collective: bool = True


@dataclass(slots=True)
class BucketPlan:
    """One bucket: compute before it is ready, selection, exchange, combine.

    `selection_spread` is the standard deviation, in seconds, of the selection from worker to worker.
    """

    bucket: Bucket
    selection: Selection
    backward: float
    selection_time: float
    selection_spread: float
    stages: list[Stage]
    combine_time: float


@dataclass(slots=True)
class Plan:
    """All that one iteration needs, and what was used to make it."""

    input_time: float
    forward: float
    buckets: list[BucketPlan]
    update: float
    overlap: bool
    runtime: Runtime
    wiring: Wiring
    prices: Prices
    kernels: dict[str, list[float]] = field(default_factory=dict)

    @property
    def backward(self) -> float:
        """Seconds of the backward pass, undisturbed."""
        return sum(item.backward for item in self.buckets)


def assemble(
    workload: Workload,
    nodes: int,
    gpus_per_node: int,
    gpu: Gpu,
    fabric: Fabric,
    runtime: Runtime,
    topology: Topology,
    sparsifier: Sparsifier,
    scheduler: Scheduler,
    concentration: float,
) -> Plan:
    """Buckets, selections, exchanges and their prices for one scenario. One worker exchanges and selects nothing.

    Raises an expected-error where the sparsifier, the scheduler and the topology cannot work together.
    """
    layout = topology.layout(nodes, gpus_per_node)
    wiring = fabric.wire(layout, runtime.endpoint_bandwidth if topology.concurrent else None)
    update = update_time(workload, gpu, runtime)
    workload = workload.stretched(update)
    buckets = scheduler.plan(workload.layers)
    if sparsifier.needs_whole_model() and len(buckets) > 1:
        hint = "selection over the whole model needs all gradients: use `scheduler: sequential` with one bucket"
        raise expected("one bucket", f"{len(buckets)} buckets from scheduler {scheduler.kind}", hint)
    kernels: dict[str, list[float]] = {}
    workers = layout.workers
    selections = [sparsifier.expect(bucket, workers, concentration) for bucket in buckets]
    chosen: list[list[Compute]] = [[] for _ in buckets]
    steps: list[list[Step]] = [[] for _ in buckets]
    if workers > 1:
        chosen = [sparsifier.compute(bucket) for bucket in buckets]
        steps = [
            sparsifier.exchange(selection, bucket, workers, topology.style)
            for selection, bucket in zip(selections, buckets, strict=True)
        ]
    prices = price(_communications(buckets, steps), topology, fabric, wiring)

    def cost(items: Iterable[Compute]) -> float:
        return sum(_cost(item, gpu, runtime, kernels) for item in items)

    plans = []
    for bucket, selection, select, exchange, backward in zip(
        buckets, selections, chosen, steps, _backward_times(workload, buckets), strict=True
    ):
        stages, after, inside = _stages(exchange, bucket.index, topology, wiring, prices, runtime)
        for place, item in inside:
            stages[place].seconds = cost([item])
        spread = sum(_spread(item, gpu) for item in select)
        plans.append(BucketPlan(bucket, selection, backward, cost(select), spread, stages, cost(after)))
    return Plan(
        workload.input_time, workload.forward_time, plans, update, scheduler.overlap, runtime, wiring, prices, kernels
    )


def update_time(workload: Workload, gpu: Gpu, runtime: Runtime) -> float:
    """Seconds of the optimiser's step: its kernel on every tensor, `update_calls` framework calls each."""
    calls = runtime.update_calls * len(workload.layers)
    return _cost(Compute("update", tuple(workload.numels), calls, "combine"), gpu, runtime, {})


def _spread(item: Compute, gpu: Gpu) -> float:
    """Standard deviation in seconds: the kernel's runs differ on their own, so their variances add."""
    spread = gpu.spread(item.kernel)
    return spread * float(np.linalg.norm(gpu.kernel_time(item.kernel, item.elements))) if spread else 0.0


def _communications(
    buckets: Sequence[Bucket], steps: Sequence[Sequence[Step]]
) -> list[tuple[Communication, int]]:
    return [
        (step, bucket.index)
        for bucket, exchange in zip(buckets, steps, strict=True)
        for step in exchange
        if not isinstance(step, Compute)
    ]


def _backward_times(workload: Workload, buckets: Sequence[Bucket]) -> list[float]:
    """Backward seconds between the previous bucket and this one; buckets follow each other in backward order."""
    ready = np.cumsum([layer.backward for layer in reversed(workload.layers)])
    last = len(workload.layers) - 1
    ends = [float(ready[last - bucket.ready_layer]) for bucket in buckets]
    return [end - start for start, end in zip([0.0, *ends], ends, strict=False)]


def _cost(item: Compute, gpu: Gpu, runtime: Runtime, kernels: dict[str, list[float]]) -> float:
    sizes = np.array(item.elements)
    kernels.setdefault(item.kernel, []).extend((float(sizes.min()), float(sizes.max())) if len(sizes) else ())
    # The host launches while the GPU computes: a phase takes as long as the slower of the two.
    return max(float(gpu.kernel_time(item.kernel, sizes).sum()), runtime.kernel_launch * item.calls)


def _stages(
    exchange: Sequence[Step], slot: int, topology: Topology, wiring: Wiring, prices: Prices, runtime: Runtime
) -> tuple[list[Stage], list[Compute], list[tuple[int, Compute]]]:
    """The chain of one exchange, the kernels after it, and the kernels inside it with their place in the chain."""
    last = max((i for i, step in enumerate(exchange) if not isinstance(step, Compute)), default=-1)
    stages: list[Stage] = []
    inside: list[tuple[int, Compute]] = []
    for step in exchange[: last + 1]:
        if isinstance(step, Compute):
            inside.append((len(stages), step))
            stages.append(Stage(step.kernel, collective=False))
        elif topology.concurrent:
            phases = topology.rounds(step, wiring.layout, slot)
            stages.extend(Stage(type(step).__name__, rounds=phase) for phase in phases)
        else:
            software = runtime.negotiation + runtime.gather_overhead * isinstance(step, AllGather)
            stages.append(Stage(type(step).__name__, prices.seconds[step] + software))
    return stages, [step for step in exchange[last + 1 :] if isinstance(step, Compute)], inside
