"""The plan of one iteration: what each stream will do, in seconds or in rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from simulator.component import expected
from simulator.engine.plan.collective_order import common_order
from simulator.engine.plan.costs import software_time
from simulator.engine.plan.kernels import Kernel
from simulator.engine.plan.pricing import Prices, Wires, on_the_wire, price
from simulator.engine.plan.setup import Beside, OtherGpu, Setup
from simulator.engine.plan.traffic_matrix import traffic_between
from simulator.engine.plan.work import Work, prepare
from simulator.engine.rounds.disturbances import Disturbances
from simulator.engine.rounds.equivalence_classes import Shape, Structure, structure
from simulator.models.curves import Floats
from simulator.models.exchange import (
    Communication,
    Ints,
    Layout,
    Placement,
    Round,
)
from simulator.models.hardware import Runtime
from simulator.models.layers import VALUE_BYTES
from simulator.models.limits import refuse_messages
from simulator.models.wiring import Wiring
from simulator.schedulers.base import Scheduler
from simulator.topologies.base import Rounds

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(slots=True)
class Stage:
    """One link of a bucket's exchange: a fixed time (collective or kernel), then rounds that share links as they go.

    `shape`: what the network knows the rounds by.
    """

    label: str
    seconds: float = 0.0
    rounds: Rounds | None = None
    collective: bool = True
    shape: Shape | None = None


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
    disturbances: Disturbances
    wires: Wires = field(repr=False)
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

    def traffic_between(self) -> csr_array:
        """Bytes (P, P), sparse, that each place (row) sends to each other (column) in one iteration."""
        return traffic_between(self.work.steps, self.work.uses, self.wires, self.live)

    def structures(self) -> set[Structure]:
        """What the network must know to find what is alike; stages of one structure hold it once."""
        known: dict[Structure, Structure] = {}
        for stage in (stage for part in (self.exchanges, self.second_halves) for chain in part for stage in chain):
            if stage.rounds:
                found, scales = stage.shape or structure(stage.rounds)
                stage.shape = known.setdefault(found, found), scales
        return set(known)


def assemble(setup: Setup, beside: Sequence[Beside] = ()) -> tuple[Plan, list[tuple[Plan, float]]]:
    """The plan of a job, and of those beside it: buckets, selections, exchanges and their prices.

    One worker exchanges and selects nothing. Raises an expected-error where the parts cannot work together.
    """
    layout = setup.layout
    seats, placement = _seated(layout, beside)
    endpoint = setup.runtime.endpoint_bandwidth if setup.topology.concurrent else None
    wiring = setup.conditions.slowed(setup.fabric.lay(layout, placement, endpoint))
    disturbances = setup.conditions.disturbances(wiring)
    wires = Wires(setup.topology, setup.fabric, wiring, setup.fidelity, disturbances, not setup.conditions.links)
    meets = bool(disturbances.changes or beside)
    plan = _plan(setup, wires, None, meets)
    others = []
    for item, seat in zip(beside, seats, strict=True):
        there, layout = Placement(placement.node[seat], placement.rank[seat]), item.setup.layout
        local = setup.conditions.slowed(setup.fabric.lay(layout, there, endpoint))
        own = replace(wires, topology=item.setup.topology, wiring=local)
        others.append((_plan(item.setup, own, seat, True), item.start))
    return plan, others


def _plan(setup: Setup, wires: Wires, seats: Ints | None, meets: bool) -> Plan:
    topology, runtime, wiring = setup.topology, setup.runtime, wires.wiring
    layout = wiring.layout
    work = prepare(setup, layout.workers, wires)
    each = [(item, prepare(replace(setup, gpu=item.gpu), layout.workers, wires, work.buckets)) for item in setup.others]
    pace, selection, spread = _by_worker(setup, work, each)
    work = _slowest(work, [other for _, other in each])
    live = topology.concurrent or meets
    if live:
        exchanges, halves = (_all_live(chains, work.steps, wires, runtime) for chains in (work.chains, work.halves))
        for stage in (stage for part in (exchanges, halves) for chain in part for stage in chain):
            if stage.rounds and seats is not None:
                stage.rounds = [Round(seats[i.src], seats[i.dst], i.nbytes, i.repeat) for i in stage.rounds]
    prices = price(work.steps, work.uses if seats is None else (), wires, live)
    if not live:
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
        disturbances=wires.disturbances,
        wires=wires,
        prices=prices,
    )


def _order(setup: Setup, buckets: int) -> list[int]:
    """The buckets in the order of their collectives; push and pull need nobody else's turn."""
    made = None
    if setup.orders and setup.scheduler.by_priority:
        hint = "a scheduler by priority sets the order of collectives itself"
        raise expected("a scheduler that goes first in, first out", setup.scheduler.kind, hint)
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


def _stages(
    work: Work, chains: Sequence[tuple[Kernel | int, ...]], seconds: Floats, runtime: Runtime
) -> list[list[Stage]]:
    """Every exchange where one follows the other: fixed times, the runtime's own cost per call added."""
    stage_of = [
        Stage(type(step).__name__, time + software_time(step, runtime))
        for step, time in zip(work.steps, seconds.tolist(), strict=True)
    ]
    made: dict[tuple[Kernel | int, ...], list[Stage]] = {}
    for chain in chains:
        if chain not in made:
            made[chain] = [
                Stage(s.label, s.seconds, collective=False) if isinstance(s, Kernel) else stage_of[s] for s in chain
            ]
    return [made[chain] for chain in chains]


def _all_live(
    chains: Sequence[Sequence[Kernel | int]], steps: Sequence[Communication], wires: Wires, runtime: Runtime
) -> list[list[Stage]]:
    """Every exchange as rounds. Raises an expected-error where these are more messages in all than can be held."""
    made, messages = list[list[Stage]](), 0
    for slot, chain in enumerate(chains):
        made.append(_live(chain, slot, steps, wires, runtime))
        messages += sum(len(item.src) for stage in made[-1] for item in stage.rounds or [])
        refuse_messages(messages)
    return made


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
        software = software_time(step, runtime)
        stages.extend(Stage(label, software if i == 0 else 0.0, rounds=phase) for i, phase in enumerate(phases))
    return stages
