"""The stages of a bucket's exchange: fixed times, or rounds that share links with other exchanges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial

import numpy as np

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.phases import payload_bytes, phases_of
from simulator.engine.plan.work.costs import software_time
from simulator.engine.plan.work.kernels import Kernel
from simulator.engine.plan.work.work import Chain, Work
from simulator.engine.rounds.disturbances import NO_DISTURBANCES
from simulator.engine.rounds.equivalence_classes import Shape, structure
from simulator.engine.rounds.fold_validity import reason_against_fold
from simulator.hardware.runtime import Runtime
from simulator.models.curves import Floats
from simulator.models.exchange import Communication, Ints, Messages, PushPull, Round
from simulator.models.limits import refuse_messages
from simulator.records import Struct, replace
from simulator.topologies.base import Rounds


class Stage(Struct):
    """One part of a bucket's exchange: a fixed time of a collective or kernel, then rounds that share links.

    `beside`: the part of the fixed time that a collective takes beside its links (the rest is software). `shape`: what
    the rounds are to the network, where rounds of the same shape are laid out once.
    """

    label: str
    seconds: float = 0.0
    rounds: Rounds | None = None
    collective: bool = True
    beside: float = 0.0
    shape: Shape | None = None


Both = tuple[list[list[Stage]], list[list[Stage]]]
"""The stages of every bucket's exchange, and of the second halves of those that are split in two."""


class Stages:
    """The stages of all exchanges, made when they are asked for."""

    def __init__(self, make: Callable[[], Both]) -> None:
        self._make = make

    @cached_property
    def both(self) -> Both:
        """The stages of every bucket's exchange, and the second halves."""
        return self._make()


def as_made(exchanges: list[list[Stage]], halves: list[list[Stage]]) -> Both:
    """Stages that are there already."""
    return exchanges, halves


def fixed_stages(work: Work, seconds: Floats, runtime: Runtime) -> Both:
    """Exchanges that follow each other: every time is known, and the runtime's cost is added to each call."""
    stage_of = [
        Stage(type(step).__name__, time + software_time(step, runtime))
        for step, time in zip(work.steps, seconds.tolist(), strict=True)
    ]
    made: dict[Chain, list[Stage]] = {}
    for chain in (*work.chains, *work.halves):
        if chain not in made:
            made[chain] = [
                Stage(s.label, s.seconds, collective=False) if isinstance(s, Kernel) else stage_of[s] for s in chain
            ]
    return [made[chain] for chain in work.chains], [made[chain] for chain in work.halves]


def live_stages(
    chains: Sequence[Chain],
    steps: Sequence[Communication],
    network: NetworkSetup,
    runtime: Runtime,
    *,
    slots: Sequence[int],
    seats: Ints | None = None,
    alone: bool = False,
) -> list[list[Stage]]:
    """Exchanges that share links with others, as rounds; `slots` as in `Topology.slots`.

    `seats`: numbers of the job's places among all places. `alone`: all others are collectives of this job; then what a
    collective takes beside its links is counted.

    Raises an expected-error where there are more messages than can be held.
    """
    made, messages = list[list[Stage]](), 0
    call = partial(_stages_of_call, steps, network=network, runtime=runtime, alone=alone)
    for slot, chain in zip(slots, chains, strict=True):
        made.append(_live_exchange(chain, partial(call, slot)))
        messages += sum(len(item.src) for stage in made[-1] for item in stage.rounds or [])
        refuse_messages(messages)
    if seats is not None:
        for stage in (stage for stages in made for stage in stages if stage.rounds):
            stage.rounds = [Round(seats[i.src], seats[i.dst], i.nbytes, i.repeat) for i in stage.rounds or []]
    return made


def join_stages(stages: Sequence[Stage]) -> list[Stage]:
    """The same stages, with rounds that follow each other at once in one stage: each place goes on when it can."""
    made: list[Stage] = []
    for stage in stages:
        if made and made[-1].rounds and stage.rounds and not stage.seconds:
            made[-1] = replace(made[-1], rounds=[*made[-1].rounds, *stage.rounds], shape=None)
        else:
            made.append(replace(stage))
    return made


def can_be_folded(exchanges: Sequence[Sequence[Stage]], network: NetworkSetup) -> bool:
    """Whether the fold is exact for exchanges that follow each other, with the network to themselves."""
    if network.disturbances is not NO_DISTURBANCES:
        return False
    wiring = network.wiring
    alike = {structure(stage.rounds)[0]: stage.rounds for stages in exchanges for stage in stages if stage.rounds}
    for rounds in alike.values():
        src, dst = (np.concatenate([getattr(item, end) for item in rounds]) for end in ("src", "dst"))
        if reason_against_fold(rounds, wiring, src, dst, wiring.route(src, dst)):
            return False
    return True


def _live_exchange(chain: Chain, call: Callable[[int], list[Stage]]) -> list[Stage]:
    """One exchange; `call` gives the stages of one of its steps."""
    stages: list[Stage] = []
    for item in chain:
        stages += [Stage(item.label, item.seconds, collective=False)] if isinstance(item, Kernel) else call(item)
    return stages


def _stages_of_call(
    steps: Sequence[Communication], slot: int, place: int, *, network: NetworkSetup, runtime: Runtime, alone: bool
) -> list[Stage]:
    """One communication step, phase by phase; what the call takes itself comes before its first phase."""
    step = steps[place]
    made = phases_of(step, slot, network)
    phases = [phase for phase in made if phase]
    software, beside = software_time(step, runtime) + made.start_up, 0.0
    if alone:
        if phases and not isinstance(step, PushPull | Messages):
            beside = float(network.fabric.added_seconds(payload_bytes([step], network.wiring.layout)[1])[0])
        phases = phases or [[]]  # a call that sends nothing takes its time, as where calls have prices
    stages = [Stage(type(step).__name__, rounds=phase) for phase in phases]
    if stages:
        stages[0].seconds, stages[0].beside = software + beside, beside
    return stages
