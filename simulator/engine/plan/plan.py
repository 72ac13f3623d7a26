"""The plan of one iteration: what each stream will do, in seconds or in rounds of messages."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from simulator.engine.plan.divided_model import price_divided
from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.phases import Uses, count_traffic, ends_of, payload_bytes, phases_of, traffic_between
from simulator.engine.plan.prices import Lane, Prices, price_lanes
from simulator.engine.plan.setup import Setup
from simulator.engine.plan.work.kernels import Kernel
from simulator.engine.plan.work.shared_work import AxisPart, AxisPrices, price_shared, shared_lanes
from simulator.engine.plan.work.work import Work
from simulator.engine.rounds.disturbances import NO_DISTURBANCES
from simulator.engine.rounds.equivalence_classes import Shape, Structure, structure
from simulator.engine.rounds.fold_validity import reasons_against_fold
from simulator.models.curves import Floats
from simulator.models.exchange import Messages, PushPull
from simulator.models.graph import Period, Task
from simulator.models.limits import refuse_messages
from simulator.models.pipeline import NO_BUBBLE, Bubble
from simulator.models.timeline import Iteration
from simulator.models.wiring import Wiring
from simulator.records import Record, Struct, replace
from simulator.topologies.base import Rounds

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Stage(Struct):
    """One part of a bucket's exchange: a fixed time of a collective or kernel, then rounds that share links.

    `beside`: the part of the fixed time that a collective takes beside its links (the rest is software). `by_hosts`:
    CPUs and NICs carry it without kernels on the GPU, which leaves compute as fast as it is. `shape`: what the rounds
    are to the network, where rounds of the same shape are laid out once.
    """

    label: str
    seconds: float = 0.0
    rounds: Rounds | None = None
    collective: bool = True
    beside: float = 0.0
    by_hosts: bool = False
    shape: Shape | None = None


Exchanges = tuple[list[list[Stage]], list[list[Stage]]]
"""The stages of every bucket's exchange, and of the second halves of those that are split in two."""


def fixed_stages(work: Work, seconds: Floats) -> Exchanges:
    """Exchanges that follow each other: every time is known, and the runtime's cost is added to each call."""
    times = (seconds + work.software).tolist()
    calls = [[Stage(type(step).__name__, time)] for step, time in zip(work.steps, times, strict=True)]
    return _make_stages(work, [0] * len(work.slots), lambda slot, place: calls[place])


def _make_stages(work: Work, slots: Sequence[int], call: Callable[[int, int], list[Stage]]) -> Exchanges:
    """The stages of all exchanges; `call` gives those of a bucket with this slot in one of its communication steps.

    Raises an expected-error where there are more messages than can be held.
    """
    made: tuple[list[list[Stage]], list[list[Stage]]] = [], []
    for part, chains in zip(made, (work.chains, work.halves), strict=True):
        known, messages = dict[tuple[int, int], list[Stage]](), 0
        for slot, chain in zip(slots, chains, strict=True):
            stages = known.get((slot, id(chain)))
            if stages is None:
                stages = known[slot, id(chain)] = []
                for it in chain:
                    stages += (
                        [Stage(it.label, it.seconds, collective=False)] if isinstance(it, Kernel) else call(slot, it)
                    )
            part.append(stages)
            messages += sum(len(item.src) for stage in stages for item in stage.rounds or [])
            refuse_messages(messages)
    return made


def _stages_of_call(work: Work, setup: Setup, slot: int, place: int) -> list[Stage]:
    """One communication step, phase by phase; what the call takes itself comes before its first phase."""
    step, network, beside = work.steps[place], setup.network, 0.0
    made = phases_of(step, slot, network)
    phases, workers = [phase for phase in made if phase], network.wiring.layout.workers
    served = isinstance(step, PushPull)
    by_hosts = [served and all(max(it.src.max(), it.dst.max()) >= workers for it in phase) for phase in phases]
    if (seats := network.seats) is not None:
        phases = [
            [replace(item, src=seats[item.src], dst=seats[item.dst], independent=False) for item in phase]
            for phase in phases
        ]
    if setup.alone:
        if phases and not isinstance(step, Messages):
            beside = float(network.fabric.added_seconds(payload_bytes([step], network.wiring.layout)[1])[0])
        # A call that sends nothing takes its time, as where calls have prices.
        phases, by_hosts = phases or [[]], by_hosts or [False]
    kind = type(step).__name__
    names = ("Push", "Pull") if served and len(phases) == 2 else (kind,) * len(phases)
    parts = zip(names, phases, by_hosts, strict=True)
    stages = [Stage(name, rounds=phase, by_hosts=of_hosts) for name, phase, of_hosts in parts]
    if stages:
        stages[0].seconds, stages[0].beside = float(work.software[place]) + made.start_up + beside, beside
    return stages


def join_stages(stages: Sequence[Stage]) -> list[Stage]:
    """Copies of stages, with rounds that follow each other at once in one stage: each place goes on when it can."""
    made: list[Stage] = []
    for stage in stages:
        if made and made[-1].rounds and stage.rounds and not stage.seconds:
            label = made[-1].label if made[-1].label == stage.label else f"{made[-1].label} and {stage.label.lower()}"
            rounds, by_hosts = [*made[-1].rounds, *stage.rounds], made[-1].by_hosts and stage.by_hosts
            made[-1] = replace(made[-1], label=label, rounds=rounds, by_hosts=by_hosts, shape=None)
        else:
            made.append(replace(stage))
    return made


def can_be_folded(exchanges: Sequence[Sequence[Stage]], network: NetworkSetup) -> bool:
    """Whether the fold is exact for exchanges that follow each other, with the network to themselves."""
    if network.disturbances is not NO_DISTURBANCES:
        return False
    wiring = network.wiring
    alike = dict[Structure, Rounds]()
    for stage in (stage for stages in exchanges for stage in stages):
        if stage.rounds:
            stage.shape = found, _ = structure(stage.rounds)
            alike[found] = stage.rounds
    for rounds in alike.values():
        src, dst = ends_of(rounds)
        if any(reasons_against_fold(rounds, [wiring], src, dst, [wiring.route(src, dst)])):
            return False
    return True


class Inside(Record):
    """What goes on inside a site that takes local steps as a worker: its job, the iteration that is one of them, and
    the gathers (b,) after which all copies of the model in a site have what came of each bucket."""

    plan: Plan
    step: Iteration
    gathers: Prices


class Plan(Record, dict=True):
    """One iteration of a job: its setup, its work, and its exchanges on the network.

    `live`: exchanges share links with others, or find what earlier ones left there, and are timed by the clock;
    `flowing`: as flows. `slowdown`: how much slower kernels run while a collective is running. `own_pace`: workers
    differ, and each pushes when it is ready itself. `stages`: those of live exchanges; others are made of prices when
    they are asked for. `axes`: what collectives take among GPUs that are not the workers, and `axis_parts` all parts
    of these. `bubble`: for how long the GPUs of the first stage wait for other stages. `inside`: of local
    steps between sites, what goes on in each.
    """

    setup: Setup
    work: Work
    prices: Prices
    stages: Exchanges | None
    slowdown: float
    live: bool
    flowing: bool
    own_pace: bool = False
    axes: tuple[AxisPrices, ...] = ()
    axis_parts: tuple[AxisPart, ...] = ()
    bubble: Bubble = NO_BUBBLE
    inside: Inside | None = None

    @property
    def of_step(self) -> Plan:
        """The plan of one step of the optimiser: this one, but for local steps between sites."""
        return self if self.inside is None else self.inside.plan

    @property
    def wiring(self) -> Wiring:
        """The links of the network."""
        return self.setup.network.wiring

    @cached_property
    def exchanges(self) -> Exchanges:
        """The stages of each bucket's exchange; and those that follow after all reductions, where an all-reduce is
        split in two."""
        return self.stages or fixed_stages(self.work, self.prices.seconds)

    def stages_of(self, task: Task) -> list[Stage]:
        """The stages of an exchange, or of its second half."""
        if task.cost.name in self._axis_stages:
            stages = self._axis_stages[task.cost.name][task.cost.index]
        else:
            stages = self.exchanges[task.half][task.bucket]
        times = task.cost.times
        return stages if times == 1 else [replace(stage, seconds=times * stage.seconds) for stage in stages]

    @cached_property
    def _axis_stages(self) -> dict[str, list[list[Stage]]]:
        """The stages of each unit's collectives among GPUs that are not the workers."""
        each = defaultdict[str, list[list[Stage]]](list)
        for part in self.axis_parts:
            stages = [Stage(part.label, seconds, collective=bool(part.steps)) for seconds in part.seconds.tolist()]
            each[part.name].append(stages)
        return {name: [*map(list, zip(*stages, strict=True))] for name, stages in each.items()}

    @cached_property
    def at_own_pace(self) -> Plan:
        """The plan for workers that differ: each pushes when it is ready, and each place goes on when it can."""
        exchanges, halves = ([join_stages(item) for item in part] for part in self.exchanges)
        return replace(self, stages=(exchanges, halves), own_pace=True)

    @property
    def period(self) -> Period | None:
        """The local steps between exchanges; None: gradients are exchanged in every step."""
        return self.setup.scheduler.period if self.work.outer.size else None

    @property
    def steps(self) -> int:
        """Steps of the optimiser between two exchanges of the same bucket."""
        return self.period.steps if self.period else 1

    @property
    def largest_fragment(self) -> float:
        """The share of all elements that the largest fragment of a period of local steps has; 1 without such."""
        if self.period is None:
            return 1.0
        fragments = [0.0] * len(self.period.fragments)
        for bucket in self.work.buckets:
            fragments[bucket.fragment] += bucket.numel
        return max(fragments) / math.fsum(fragments)

    @property
    def remembers(self) -> bool:
        """Whether links have token buckets: an exchange depends on those before it, of earlier iterations, too."""
        return self.live and self.wiring.burst is not None

    @property
    def streams(self) -> int:
        """Exchanges of this job that may be under way at once."""
        return len(self.exchanges[0]) if self.setup.topology.concurrent else self.setup.scheduler.streams

    @property
    def single_gpu_time(self) -> float:
        """Seconds of the same iteration on one GPU with this runtime, without exchange or selection; of a pipeline the
        mean over its stages."""
        work, divided = self.of_step.work, self.of_step.setup.divided
        compute = work.compute_alone * (1.0 if divided is None else divided.mean_over_first)
        return self.work.input_alone + compute + work.emptying + work.update_alone

    def traffic_between(self) -> csr_array:
        """Bytes (P, P), sparse, that each place (row) sends to each other (column) in one iteration."""
        setup, work = self.setup, self.work
        return traffic_between(work.steps, work.uses, setup.network, shared=not setup.alone) / self.steps

    def structures(self) -> list[Structure]:
        """What the network needs to find alike messages, each once, in order; stages of one structure share it."""
        known: dict[Structure, Structure] = {}
        for stage in (stage for part in self.exchanges for chain in part for stage in chain):
            if stage.rounds:
                found, scales = stage.shape or structure(stage.rounds)
                stage.shape = known.setdefault(found, found), scales
        return list(known)


def plan_jobs(jobs: Sequence[tuple[Setup, Work]]) -> list[Plan]:
    """The plans of seated jobs; exchanges that can be priced together are.

    Raises an expected-error where a topology does not have a primitive that the job needs.
    """
    lanes = list[Lane]()
    for setup, work in jobs:
        lanes += [] if setup.live else [Lane(work.steps, _counted(setup, work), setup.network)]
        lanes += shared_lanes(setup, work.shared)
    priced = iter(price_lanes(lanes))
    return [
        _live_plan(setup, work, priced) if setup.live else _plan(setup, work, next(priced), priced, flowing=False)
        for setup, work in jobs
    ]


def _counted(setup: Setup, work: Work) -> Uses:
    """The uses of steps whose traffic counts: those of the job in question."""
    return work.uses if setup.network.seats is None else ()


def _live_plan(setup: Setup, work: Work, priced: Iterator[Prices]) -> Plan:
    """The plan of exchanges that the clock times; `priced`: as of `_plan`."""
    network, alone = setup.network, setup.alone
    stages = _make_stages(work, work.slots, partial(_stages_of_call, work, setup))
    traffic, algorithms = count_traffic(work.steps, _counted(setup, work), network, shared=not alone)
    nothing = np.zeros(len(work.steps))
    prices = Prices(nothing, nothing, traffic, algorithms=algorithms)
    flowing = setup.fidelity != "fold"
    if flowing and alone and setup.fidelity == "auto" and setup.scheduler.streams == 1 and not setup.followed:
        flowing = not can_be_folded([*stages[0], *stages[1]], network)
    return _plan(setup, work, prices, priced, stages, flowing=flowing)


def _plan(
    setup: Setup,
    work: Work,
    prices: Prices,
    priced: Iterator[Prices],
    stages: Exchanges | None = None,
    *,
    flowing: bool,
) -> Plan:
    """The plan of exchanges with these prices, and the next of those `priced` of what GPUs share (`shared_lanes`)."""
    own = setup.workload.compute_slowdown
    slowdown = setup.runtime.compute_slowdown if own is None else own
    live = setup.live and setup.workers > 1
    shared, parts = price_shared(setup, work.shared, priced)
    layers, joint, bubble = price_divided(setup.divided, work.buckets, work.passes.count)
    if setup.divided is not None and (times := setup.scheduler.reductions_in_turn):
        reduced = math.fsum(seconds for part in parts if part.name == "reduce" for seconds in part.seconds.tolist())
        others = setup.divided.parallelism.pipeline.stages - 1
        bubble = bubble._replace(seconds=bubble.seconds + times * others * reduced)
    plan = Plan(
        setup,
        work,
        prices,
        stages,
        slowdown,
        live=live,
        flowing=flowing,
        axes=(*shared, *layers),
        axis_parts=(*parts, *joint),
        bubble=bubble,
    )
    prices.traffic = prices.traffic.shared_by(plan.steps)
    return plan
