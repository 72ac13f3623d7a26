"""The plan of one iteration: what each stream will do, in seconds or in rounds of messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simulator.component import expected
from simulator.engine.plan.collective_order import common_order
from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.phases import phases_of
from simulator.engine.plan.prices import Prices, price_steps
from simulator.engine.plan.seating import Seating
from simulator.engine.plan.setup import OtherJobSetup, Setup
from simulator.engine.plan.stages import Stage, can_be_folded, fixed_stages, live_stages
from simulator.engine.plan.traffic_matrix import traffic_between
from simulator.engine.plan.work.division import Division, divide
from simulator.engine.plan.work.mixed_gpus import prepare_all
from simulator.engine.plan.work.work import Work, prepare_work
from simulator.engine.rounds.disturbances import Disturbances
from simulator.engine.rounds.equivalence_classes import Structure, structure
from simulator.hardware.runtime import Runtime
from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.models.wiring import Wiring
from simulator.schedulers.base import Scheduler

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, slots=True)
class Plan:
    """One iteration: the work, and its exchanges on a network.

    `live`: exchanges share links with others, or find what earlier ones left there, and are timed by the clock;
    `flowing`: as flows; `alone`: all of them are collectives of this job; `concurrent`: many at the same time.
    `slowdown`: how much slower kernels run while a collective is running. Arrays over workers have one row where all
    are alike: `pace` (w, 1), the factor on compute times, or (w, 1 + b) of forward and of each bucket's backward, and
    `selection` with its spread (w, b). `order` is that of
    buckets that go first in, first out; `priority` the first layer that needs each bucket; `nbytes` the size of its
    gradients.
    """

    work: Work
    scheduler: Scheduler
    runtime: Runtime
    slowdown: float
    wiring: Wiring
    exchanges: list[list[Stage]]
    second_halves: list[list[Stage]]
    live: bool
    flowing: bool
    alone: bool
    concurrent: bool
    pace: Floats
    selection: Floats
    selection_spread: Floats
    order: list[int]
    priority: list[int]
    nbytes: list[float]
    uses: list[tuple[int, int]]
    disturbances: Disturbances
    network: NetworkSetup = field(repr=False)
    prices: Prices = field(repr=False)

    @property
    def overlap(self) -> bool:
        """Whether exchanges run during the backward pass."""
        return self.scheduler.overlap

    @property
    def remembers(self) -> bool:
        """Whether links have token buckets: an exchange depends on those before it, of earlier iterations, too."""
        return self.live and self.wiring.burst is not None

    @property
    def streams(self) -> int:
        """Exchanges of this job that may be under way at once."""
        return len(self.exchanges) if self.concurrent else self.scheduler.streams

    @property
    def single_gpu_time(self) -> float:
        """Seconds of the same iteration on one GPU with this runtime, without exchange or selection."""
        work = self.work
        return work.input_alone + work.compute_alone + work.emptying + work.update_alone

    def traffic_between(self) -> csr_array:
        """Bytes (P, P), sparse, that each place (row) sends to each other (column) in one iteration."""
        return traffic_between(self.work.steps, self.uses, self.network, not self.alone)

    def structures(self) -> set[Structure]:
        """What the network needs to find alike messages; stages of one structure share it."""
        known: dict[Structure, Structure] = {}
        for stage in (stage for part in (self.exchanges, self.second_halves) for chain in part for stage in chain):
            if stage.rounds:
                found, scales = stage.shape or structure(stage.rounds)
                stage.shape = known.setdefault(found, found), scales
        return set(known)


@dataclass(frozen=True, slots=True)
class OtherJobPlan:
    """The plan of another job on the same network, and its start in seconds."""

    plan: Plan
    start: float


def plan_jobs(
    setup: Setup, seating: Seating, other_jobs: Sequence[OtherJobSetup] = ()
) -> tuple[Plan, list[OtherJobPlan]]:
    """The plan of a job, and of the other jobs on its network: buckets, selections, exchanges and their prices.

    One worker exchanges and selects nothing. Raises an expected-error where the parts cannot work together.
    """
    plan = _plan_job(setup, seating.network, None, seating.shared)
    others = [
        OtherJobPlan(_plan_job(item.setup, network, seats, True), item.start)
        for item, (network, seats) in zip(other_jobs, seating.others, strict=True)
    ]
    return plan, others


def divide_and_check(setup: Setup, network: NetworkSetup) -> Division:
    """The buckets of a job whose selections are not known yet, for a replay, which may take minutes.

    Raises an expected-error where the plan could not be made whatever is selected: a method that cannot use this
    exchange, a topology without the primitive, an order of collectives that never ends.
    """
    division = divide(setup, network)
    work = prepare_work(setup, network.wiring.layout.workers, division)
    for step in work.steps:
        phases_of(step, 0, network)
    _order(setup, len(division.buckets))
    return division


def _plan_job(setup: Setup, network: NetworkSetup, seats: Ints | None, shared: bool) -> Plan:
    workload, topology, runtime, wiring = setup.workload, setup.topology, setup.runtime, network.wiring
    if topology.concurrent and setup.scheduler.streams > 1:
        got = f"{setup.scheduler.streams} streams with topology {topology.kind}"
        raise expected("a scheduler with `streams: 1`", got, "all pushes and pulls are under way at once already")
    workers = wiring.layout.workers
    division = divide(setup, network)
    work, (pace, selection, spread) = prepare_all(setup, workers, division)
    alone = not (topology.concurrent or shared)
    live = not alone or setup.scheduler.streams > 1 or _has_memory(network)
    slots = topology.slots(work.buckets, [layer.name for layer in workload.layers])
    uses = [(slots[bucket], step) for bucket, step in work.uses]
    if live:
        exchanges, halves = (
            live_stages(chains, work.steps, network, runtime, slots=slots, seats=seats, alone=alone)
            for chains in (work.chains, work.halves)
        )
    prices = price_steps(work.steps, uses if seats is None else (), network, live, protocol=not alone)
    if not live:
        exchanges, halves = (
            fixed_stages(chains, work.steps, prices.seconds, runtime) for chains in (work.chains, work.halves)
        )
    flowing = live and setup.fidelity != "fold"
    if flowing and alone and setup.fidelity == "auto" and setup.scheduler.streams == 1:
        flowing = not can_be_folded([*exchanges, *halves], network)
    return Plan(
        work=work,
        scheduler=setup.scheduler,
        runtime=runtime,
        slowdown=runtime.compute_slowdown if workload.compute_slowdown is None else workload.compute_slowdown,
        wiring=wiring,
        exchanges=exchanges,
        second_halves=halves,
        live=live and workers > 1,
        flowing=flowing,
        alone=alone,
        concurrent=topology.concurrent,
        pace=pace,
        selection=selection,
        selection_spread=spread,
        order=_order(setup, len(work.buckets)),
        priority=[min(bucket.layers) for bucket in work.buckets],
        nbytes=[float(bucket.value_bytes * bucket.numel) for bucket in work.buckets],
        uses=uses,
        disturbances=network.disturbances,
        network=network,
        prices=prices,
    )


def _has_memory(network: NetworkSetup) -> bool:
    """Whether exchanges between nodes find token buckets as earlier ones left them."""
    return network.wiring.burst is not None and network.wiring.layout.nodes > 1


def _order(setup: Setup, buckets: int) -> list[int]:
    """The buckets in the order of their collectives; pushes and pulls need no common order."""
    made = None
    if setup.orders and setup.scheduler.by_priority:
        hint = "a scheduler by priority sets the order of collectives itself"
        raise expected("a scheduler that goes first in, first out", setup.scheduler.kind, hint)
    if setup.orders and setup.topology.style == "collective":
        made = common_order(setup.orders, setup.layout.workers, buckets)
    return list(range(buckets)) if made is None else made
