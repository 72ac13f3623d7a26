"""The work of one iteration: everything that does not depend on the numbers of a network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from simulator.component import expected
from simulator.engine.plan.phases import phases_of
from simulator.engine.plan.setup import OtherGpu, Setup
from simulator.engine.plan.work.division import divide, software_times
from simulator.engine.plan.work.exchanges import Chain, price_exchanges, select_in
from simulator.engine.plan.work.kernels import Kernel, KernelPrices, KernelUse, filling_kernels
from simulator.engine.plan.work.passes import Passes, compute_of, price_outer_step, price_passes
from simulator.engine.plan.work.shared_work import SharedWork, shared_work
from simulator.hardware.kernels import widths_of
from simulator.models.curves import Floats
from simulator.models.exchange import Bucket, Communication, Ints, Selection
from simulator.models.small_cache import ResultsOfObjects
from simulator.records import Record, replace


def bucket_order(setup: Setup, buckets: int) -> list[int]:
    """The buckets in the order of their collectives; pushes and pulls need no common order."""
    if setup.orders and setup.scheduler.queue.by_priority:
        hint = "a scheduler by priority sets the order of collectives itself"
        raise expected("a scheduler that goes first in, first out", setup.scheduler.kind, hint)
    if not setup.orders or setup.topology.style != "collective":
        return list(range(buckets))
    return common_order(setup.orders, setup.workers, buckets)


def common_order(orders: Mapping[int, Sequence[int]], workers: int, buckets: int) -> list[int]:
    """The order in which all workers issue their collectives: that in which buckets become ready, if none is stated.

    A collective needs every worker, and the stream of a worker stays at its collective until that has run. Workers with
    different orders therefore wait for each other for ever. Raises an expected-error that names workers and buckets
    where they do, or where an order leaves out or repeats a bucket.
    """
    usual = list(range(buckets))
    for worker, order in orders.items():
        if sorted(order) != usual:
            missing = sorted(set(usual) - set(order))
            got = f"{list(order)} of worker {worker}" + (f", without {missing}" if missing else "")
            raise expected(f"every bucket from 0 to {buckets - 1} once", got)
    at = {worker: list(orders.get(worker, usual)) for worker in range(workers)}
    made: list[int] = []
    for turn in range(buckets):
        heads = {worker: order[turn] for worker, order in at.items()}
        if len(set(heads.values())) > 1:
            raise expected("an order of collectives that all workers share", _describe_deadlock(heads, made), _HINT)
        made.append(heads[0])
    return made


_HINT = "each collective waits for all workers, and each worker's stream for its collective: a deadlock"


def _describe_deadlock(heads: Mapping[int, int], made: Sequence[int]) -> str:
    """Which workers wait at which bucket."""
    standing: dict[int, list[int]] = {}
    for worker, bucket in heads.items():
        standing.setdefault(bucket, []).append(worker)
    parts = [f"{_list_numbers('worker', workers)} at bucket {bucket}" for bucket, workers in sorted(standing.items())]
    after = f" after {_list_numbers('bucket', list(made))}" if made else ""
    return f"{' and '.join(parts)}{after}, each waiting for the other"


def _list_numbers(noun: str, numbers: list[int]) -> str:
    shown = ", ".join(str(number) for number in numbers[:4]) + (", ..." if len(numbers) > 4 else "")
    return f"{noun}{'s' if len(numbers) > 1 else ''} {shown}"


class ChainTable(NamedTuple):
    """The exchanges of b buckets, or their second halves, as rows of at most s stages.

    `fixed` (b, s): seconds of kernels, else 0. `step` (b, s): the communication step, -1 for kernels and where there is
    none.
    """

    fixed: Floats
    step: Ints


def _tabulate(chains: Sequence[Chain], number: Ints) -> ChainTable:
    """The table of buckets that have the chains of these numbers (b,)."""
    shape = len(chains), max((len(chain) for chain in chains), default=0)
    fixed, step = np.zeros(shape), np.full(shape, -1)
    for row, chain in enumerate(chains):
        for place, item in enumerate(chain):
            if isinstance(item, Kernel):
                fixed[row, place] = item.seconds
            else:
                step[row, place] = item
    return ChainTable(fixed[number], step[number])


class Work(Record):
    """What an iteration does apart from the network: buckets in order, their compute, selection and exchange.

    Where GPUs differ, seconds are those of the first kind, or after an exchange, when all go on together, of the
    slowest. Arrays over workers have one row where all are alike: `pace` (w, 1), the factor on compute times, or
    (w, 1 + b) of what comes before the last backward pass and of each of its buckets; and `selection` with its standard
    deviation from run to run, `selection_spread` (w, b).

    `input_time`: how long an iteration waits for its data, and `input_alone` with one GPU by itself. `passes`: the
    forward and backward passes before the last backward pass. `update` is the optimiser's step after an exchange,
    `update_alone` that of one GPU by itself. `backward` is the last backward pass; it holds the additions to the
    gradients of earlier ones and the runtime's copies to buckets, and `combine` those back, which take `emptying`
    seconds in all.

    Arrays are (b,), one entry per bucket, in seconds. `steps` are the communication steps, each kind once, and
    `software` (steps,) the seconds of the runtime in each call; `chains` the exchanges up to their last step; `halves`
    what follows after all reductions where an all-reduce is split in two; `tables` both as arrays; `combine` the
    kernels after the last step. `slots` are the numbers of the buckets by
    which servers may be chosen, `uses` the pairs of a slot and a step. `order`: that of buckets that go first in, first
    out; `priority` the first layer that needs each bucket, `nbytes` the bytes of its gradients. `layer_forward` and
    `layer_numel` (L,) are in forward order, `begins_module` (L,) whether a layer is the first tensor of its module.
    `outer` (b,): the step after an exchange that ends local steps, in which case `update` is that of each local step;
    empty otherwise. `shared`: what the GPUs that share a sharded model do together.
    """

    input_time: float
    input_alone: float
    passes: Passes
    update: float
    update_alone: float
    buckets: tuple[Bucket, ...]
    selections: tuple[Selection, ...]
    backward: Floats
    pace: Floats
    selection: Floats
    selection_spread: Floats
    combine: Floats
    emptying: float
    steps: tuple[Communication, ...]
    chains: tuple[Chain, ...]
    halves: tuple[Chain, ...]
    tables: tuple[ChainTable, ChainTable]
    software: Floats
    slots: list[int]
    uses: list[tuple[int, int]]
    order: list[int]
    priority: list[int]
    nbytes: list[float]
    kernels: dict[str, KernelUse]
    density: dict[str, float]
    layer_forward: Floats
    layer_numel: Floats
    begins_module: tuple[bool, ...]
    outer: Floats
    shared: SharedWork | None = None

    @property
    def before_last(self) -> float:
        """Seconds of compute before the last backward pass, in which nothing is exchanged."""
        return self.passes.forward + self.passes.earlier_backward

    @property
    def whole_chains(self) -> list[Chain]:
        """The exchange of each bucket with both of its halves."""
        return [(*chain, *half) for chain, half in zip(self.chains, self.halves, strict=True)]

    @property
    def compute_alone(self) -> float:
        """Seconds of all forward and backward passes."""
        return self.before_last + float(self.backward.sum())


_works: ResultsOfObjects[Work] = ResultsOfObjects(128)


def prepare_work(setup: Setup) -> Work:
    """The work of a job; remembered, since the points of a sweep repeat it.

    Raises an expected-error where the parts of the job cannot work together.
    """
    buckets = divide(setup)
    if setup.selections is not None:
        return _prepare(setup, buckets)
    parts = (setup.gpu.fingerprint, setup.runtime.fingerprint, setup.sparsifier.fingerprint)
    others = tuple((item.gpu.fingerprint, item.nodes, item.factor) for item in setup.others)
    orders = tuple((worker, tuple(order)) for worker, order in setup.orders.items())
    scheduler, style = setup.scheduler, setup.topology.style
    key: tuple[object, ...] = (setup.workload.fingerprint, *parts, others, orders, setup.nodes, setup.gpus_per_node)
    if style != "collective":  # servers are chosen by the slots of buckets
        key = (*key, setup.topology.fingerprint)
    if scheduler.period is not None or setup.sharding is not None:
        key = (*key, scheduler.fingerprint, setup.sharding and setup.sharding.tensors)
    rounds = scheduler.rounds(setup.workload.micro_batches)
    loop = scheduler.decoupled, scheduler.queue.by_priority, scheduler.additions, rounds
    return _works.get((buckets,), lambda: _prepare(setup, buckets), *key, style, setup.concentration, *loop)


def divide_and_check(setup: Setup) -> tuple[Bucket, ...]:
    """The buckets of a job whose selections are not known yet, for a replay, which may take minutes.

    Raises an expected-error where the plan could not be made whatever is selected: a method that cannot use this
    exchange, a topology without the primitive, an order of collectives that never ends.
    """
    for step in prepare_work(setup).steps:
        phases_of(step, 0, setup.network)
    return divide(setup)


def _prepare(setup: Setup, buckets: tuple[Bucket, ...]) -> Work:
    """The work of all kinds of GPU. After an exchange all workers go on together, as late as the slowest."""
    work = _work_on_one(setup, buckets)
    if not setup.others:
        return work
    workers, parts = setup.workers, 1 + len(buckets) if setup.workload.has_host_times else 1
    pace = np.ones((workers, parts))
    selection, spread = (np.tile(values, (workers, 1)) for values in (work.selection, work.selection_spread))
    node, every = np.arange(workers) // setup.gpus_per_node, [work]
    for item in setup.others:
        other = _work_on_one(_on(item, setup), buckets)
        there = np.isin(node, item.nodes)
        pace[there] = _pace_of(item.factor, work, other) if parts > 1 else item.factor
        selection[there], spread[there] = other.selection, other.selection_spread
        every.append(other)
    chains = tuple(_slowest_chain(each) for each in zip(*(item.chains for item in every), strict=True))
    return replace(
        work,
        pace=pace,
        selection=selection,
        selection_spread=spread,
        update=max(item.update for item in every),
        update_alone=max(item.update_alone for item in every),
        combine=np.max([item.combine for item in every], axis=0),
        outer=np.max([item.outer for item in every], axis=0),
        chains=chains,
        tables=(_tabulate(chains, np.arange(len(chains))), work.tables[1]),
    )


def _on(item: OtherGpu, setup: Setup) -> Setup:
    """The setup on another GPU, which computes at its own pace what the same host launches."""
    workload = setup.workload
    if workload.has_host_times:
        measured = workload.stretched(compute_of(setup).update_alone)
        workload = measured.scaled(item.factor, 1.0).model_copy(update={"compute_time": None})
    return replace(setup, gpu=item.gpu, workload=workload)


def _pace_of(factor: float, work: Work, other: Work) -> Floats:
    """The factor on each part of compute, (1 + b,), where the host's launches do not follow the GPU."""
    mine, theirs = (np.array([each.before_last, *each.backward]) for each in (work, other))
    pace: Floats = np.divide(theirs, mine, out=np.full(len(mine), factor), where=mine > 0)
    return pace


def _slowest_chain(chains: Sequence[Chain]) -> Chain:
    """An exchange, each of whose kernels takes as long as on the slowest GPU."""
    return tuple(
        Kernel(items[0].label, max(item.seconds for item in items if isinstance(item, Kernel)))
        if isinstance(items[0], Kernel)
        else items[0]
        for items in zip(*chains, strict=True)
    )


def _work_on_one(setup: Setup, buckets: tuple[Bucket, ...]) -> Work:
    """The work where all GPUs are of the setup's kind."""
    compute, scheduler, runtime = compute_of(setup), setup.scheduler, setup.runtime
    workload, period = compute.first, scheduler.period
    selected = select_in(setup, buckets)
    pricing = KernelPrices(setup.gpu, runtime, widths_of(workload.precision, setup.sparsifier.has_residual))
    combine = np.zeros(len(buckets))
    backward = np.diff(compute.backward_end[[bucket.ready_layer for bucket in buckets]], prepend=0.0)
    passes, additions = price_passes(setup, compute, buckets, pricing)
    backward += additions
    outer = price_outer_step(setup, buckets, pricing) if setup.workers > 1 else None
    if runtime.fills_buckets and period is None:
        buckets = selected.buckets
        for i, (there, back) in enumerate(map(filling_kernels, buckets)):
            backward[i] += pricing.cost(there)
            combine[i] = pricing.cost(back)
    emptying = math.fsum(combine)
    times = np.bincount(selected.number).tolist()
    different = [(*each, count) for each, count in zip(selected.steps, times, strict=True)]
    priced, steps, ahead = price_exchanges(setup, different, pricing, decoupled=scheduler.decoupled)
    select, spread, last = np.array([each[:3] for each in priced]).T[:, selected.number]
    combine += last
    left = ahead - workload.input_time - passes.forward - passes.earlier_backward
    select[-1] += max(0.0, left - float(backward.sum()))
    if outer is not None:
        select += outer[0]
    of_bucket = [priced[number] for number in selected.number.tolist()]
    first, second = (_tabulate([getattr(each, part) for each in priced], selected.number) for part in ("chain", "half"))
    chains, halves = tuple(each.chain for each in of_bucket), tuple(each.half for each in of_bucket)
    slots = setup.topology.slots(buckets, [layer.name for layer in setup.workload.layers])
    used = zip(slots, chains, halves, strict=True)
    return Work(
        input_time=workload.input_time,
        input_alone=workload.input_time,
        passes=passes,
        update=compute.update if (setup.workers > 1 and outer is None) or setup.sharding else compute.update_alone,
        update_alone=compute.update_alone,
        buckets=buckets,
        selections=selected.selections,
        backward=backward,
        pace=np.ones((1, 1)),
        selection=select[None, :],
        selection_spread=spread[None, :],
        combine=combine,
        emptying=emptying,
        steps=steps,
        chains=chains,
        halves=halves,
        tables=(first, second),
        software=software_times(steps, runtime),
        slots=slots,
        uses=[(slot, item) for slot, *both in used for part in both for item in part if isinstance(item, int)]
        * scheduler.rounds(passes.count),
        order=bucket_order(setup, len(buckets)),
        priority=[min(bucket.layers) for bucket in buckets],
        nbytes=[float(bucket.value_bytes * bucket.numel) for bucket in buckets],
        kernels=pricing.used_in(1 if period is None else period.steps),
        density=dict(selected.density),
        layer_forward=compute.layer_forward,
        layer_numel=workload.numels,
        begins_module=workload.begins_module,
        outer=np.zeros(0) if outer is None else outer[1],
        shared=shared_work(setup, buckets, compute.layer_forward, backward - additions, pricing),
    )
