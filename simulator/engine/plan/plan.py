"""The plan of one iteration: what each stream will do, in seconds or in rounds of messages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from simulator.component import expected
from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.phases import phases_of
from simulator.engine.plan.prices import Lane, Prices, price_lanes, price_steps
from simulator.engine.plan.seating import Seating
from simulator.engine.plan.setup import OtherJobSetup, Setup
from simulator.engine.plan.stages import (
    Stage,
    Stages,
    as_made,
    can_be_folded,
    fixed_stages,
    join_stages,
    live_stages,
)
from simulator.engine.plan.traffic_matrix import traffic_between
from simulator.engine.plan.work.division import Division, divide
from simulator.engine.plan.work.prepared import Prepared, bucket_order, prepare_job
from simulator.engine.plan.work.work import Work, prepare_work
from simulator.engine.rounds.disturbances import Disturbances
from simulator.engine.rounds.equivalence_classes import Structure, structure
from simulator.hardware.runtime import Runtime
from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.models.period import Period
from simulator.models.wiring import Wiring
from simulator.records import Record, replace
from simulator.schedulers.base import Scheduler

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Plan(Record):
    """One iteration: the work, and its exchanges on a network.

    `live`: exchanges share links with others, or find what earlier ones left there, and are timed by the clock;
    `flowing`: as flows; `alone`: all of them are collectives of this job; `concurrent`: many at the same time.
    `slowdown`: how much slower kernels run while a collective is running. Arrays over workers have one row where all
    are alike: `pace` (w, 1), the factor on compute times, or (w, 1 + b) of forward and of each bucket's backward, and
    `selection` with its spread (w, b). `order` is that of buckets that go first in, first out. `own_pace`: workers
    differ, and each pushes when it is ready itself.
    """

    work: Work
    scheduler: Scheduler
    runtime: Runtime
    slowdown: float
    live: bool
    flowing: bool
    alone: bool
    concurrent: bool
    prepared: Prepared
    network: NetworkSetup
    prices: Prices
    stages: Stages
    own_pace: bool = False

    @property
    def wiring(self) -> Wiring:
        """The links of the network."""
        return self.network.wiring

    @property
    def disturbances(self) -> Disturbances:
        """Changes of links, and traffic that is not the job's own."""
        return self.network.disturbances

    @property
    def exchanges(self) -> list[list[Stage]]:
        """The stages of each bucket's exchange."""
        return self.stages.both[0]

    @property
    def second_halves(self) -> list[list[Stage]]:
        """The stages that follow after all reductions, where all-reduces are split in two."""
        return self.stages.both[1]

    @property
    def pace(self) -> Floats:
        """The factor of each worker on compute times."""
        return self.prepared.pace

    @property
    def selection(self) -> Floats:
        """Seconds of each worker's selection, bucket by bucket."""
        return self.prepared.selection

    @property
    def selection_spread(self) -> Floats:
        """The standard deviation of those seconds."""
        return self.prepared.selection_spread

    @property
    def order(self) -> list[int]:
        """The buckets in the order of their collectives."""
        return self.prepared.order

    @property
    def priority(self) -> list[int]:
        """The first layer that needs each bucket."""
        return self.prepared.priority

    @property
    def nbytes(self) -> list[float]:
        """Bytes of each bucket's gradients."""
        return self.prepared.nbytes

    @property
    def uses(self) -> list[tuple[int, int]]:
        """Pairs of a bucket's slot and a communication step."""
        return self.prepared.uses

    def at_own_pace(self) -> Plan:
        """The plan for workers that differ: each pushes when it is ready, and each place goes on when it can."""
        exchanges, halves = ([join_stages(item) for item in part] for part in self.stages.both)
        return replace(self, stages=Stages(partial(as_made, exchanges, halves)), own_pace=True)

    @property
    def overlap(self) -> bool:
        """Whether exchanges run during the backward pass."""
        return self.scheduler.overlap

    @property
    def period(self) -> Period | None:
        """The local steps between exchanges; None: gradients are exchanged in every step."""
        return self.scheduler.period if self.work.outer.size else None

    @property
    def steps(self) -> int:
        """Steps of the optimiser between two exchanges of the same bucket."""
        return self.period.steps if self.period else 1

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
        return traffic_between(self.work.steps, self.uses, self.network, not self.alone) / self.steps

    def structures(self) -> list[Structure]:
        """What the network needs to find alike messages, each once, in order; stages of one structure share it."""
        known: dict[Structure, Structure] = {}
        for stage in (stage for part in (self.exchanges, self.second_halves) for chain in part for stage in chain):
            if stage.rounds:
                found, scales = stage.shape or structure(stage.rounds)
                stage.shape = known.setdefault(found, found), scales
        return list(known)


class OtherJobPlan(Record):
    """The plan of another job on the same network, and its start in seconds."""

    plan: Plan
    start: float


def plan_jobs(
    setup: Setup, seating: Seating, other_jobs: Sequence[OtherJobSetup] = ()
) -> tuple[Plan, list[OtherJobPlan]]:
    """The plan of a job, and of the other jobs on its network: buckets, selections, exchanges and their prices.

    One worker exchanges and selects nothing. Raises an expected-error where the parts cannot work together.
    """
    plan, *others = finish_plans(draft_plans(setup, seating, other_jobs))
    return plan, [OtherJobPlan(other, item.start) for item, other in zip(other_jobs, others, strict=True)]


class PlanDraft(Record):
    """A plan without prices. `seats`: numbers of another job's places among all. `shared`: as `Seating.shared`."""

    setup: Setup
    network: NetworkSetup
    prepared: Prepared
    seats: Ints | None
    shared: bool

    @property
    def alone(self) -> bool:
        """Whether the job's own collectives have the links to themselves."""
        return not (self.setup.topology.concurrent or self.shared)

    @property
    def live(self) -> bool:
        """Whether exchanges have no price in advance."""
        return not self.alone or self.setup.scheduler.streams > 1 or _has_memory(self.network)


def draft_plans(setup: Setup, seating: Seating, other_jobs: Sequence[OtherJobSetup] = ()) -> list[PlanDraft]:
    """The plans of a job and of the other jobs, up to their prices.

    Raises an expected-error where the parts of a job cannot work together.
    """
    others = zip(other_jobs, seating.others, strict=True)
    return [
        _draft(setup, seating.network, None, seating.shared),
        *(_draft(item.setup, network, seats, shared=True) for item, (network, seats) in others),
    ]


def _draft(setup: Setup, network: NetworkSetup, seats: Ints | None, shared: bool) -> PlanDraft:
    topology, streams = setup.topology, setup.scheduler.streams
    if topology.concurrent and streams > 1:
        got = f"{streams} streams with topology {topology.kind}"
        raise expected("a scheduler with `streams: 1`", got, "all pushes and pulls are under way at once already")
    return PlanDraft(setup, network, prepare_job(setup, network), seats, shared)


def finish_plans(drafts: Sequence[PlanDraft]) -> list[Plan]:
    """Plans with their prices; what can be priced together is.

    Raises an expected-error where a topology does not have a primitive that the job needs.
    """
    fixed = [draft for draft in drafts if not draft.live]
    priced = iter(price_lanes([Lane(draft.prepared.work.steps, _counted(draft), draft.network) for draft in fixed]))
    return [_live_plan(draft) if draft.live else _fixed_plan(draft, next(priced)) for draft in drafts]


def _counted(draft: PlanDraft) -> Sequence[tuple[int, int]]:
    """The uses of steps whose traffic counts: those of the job in question."""
    return draft.prepared.uses if draft.seats is None else ()


def divide_and_check(setup: Setup, network: NetworkSetup) -> Division:
    """The buckets of a job whose selections are not known yet, for a replay, which may take minutes.

    Raises an expected-error where the plan could not be made whatever is selected: a method that cannot use this
    exchange, a topology without the primitive, an order of collectives that never ends.
    """
    division = divide(setup, network)
    work = prepare_work(setup, network.wiring.layout.workers, division)
    for step in work.steps:
        phases_of(step, 0, network)
    bucket_order(setup, len(division.buckets))
    return division


def _fixed_plan(draft: PlanDraft, prices: Prices) -> Plan:
    """The plan of exchanges that follow each other, each in a time that is known in advance."""
    work, runtime = draft.prepared.work, draft.setup.runtime
    return _plan(draft, prices, Stages(partial(fixed_stages, work, prices.seconds, runtime)), flowing=False)


def _live_plan(draft: PlanDraft) -> Plan:
    """The plan of exchanges that the clock times."""
    setup, network, prepared, alone = draft.setup, draft.network, draft.prepared, draft.alone
    work = prepared.work
    exchanges, halves = (
        live_stages(chains, work.steps, network, setup.runtime, slots=prepared.slots, seats=draft.seats, alone=alone)
        for chains in (work.chains, work.halves)
    )
    prices = price_steps(work.steps, _counted(draft), network, live=True, protocol=not alone)
    flowing = setup.fidelity != "fold"
    if flowing and alone and setup.fidelity == "auto" and setup.scheduler.streams == 1:
        flowing = not can_be_folded([*exchanges, *halves], network)
    return _plan(draft, prices, Stages(partial(as_made, exchanges, halves)), flowing)


def _plan(draft: PlanDraft, prices: Prices, stages: Stages, flowing: bool) -> Plan:
    setup, own = draft.setup, draft.setup.workload.compute_slowdown
    plan = Plan(
        work=draft.prepared.work,
        scheduler=setup.scheduler,
        runtime=setup.runtime,
        slowdown=setup.runtime.compute_slowdown if own is None else own,
        live=draft.live and draft.network.wiring.layout.workers > 1,
        flowing=flowing,
        alone=draft.alone,
        concurrent=setup.topology.concurrent,
        prepared=draft.prepared,
        network=draft.network,
        prices=prices,
        stages=stages,
    )
    prices.traffic = prices.traffic.shared_by(plan.steps)
    return plan


def _has_memory(network: NetworkSetup) -> bool:
    """Whether exchanges between nodes find token buckets as earlier ones left them."""
    return network.wiring.burst is not None and network.wiring.layout.nodes > 1
