"""The stages of a bucket's exchange: fixed times, or rounds that share links with other exchanges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.phases import payload_bytes, phases_of
from simulator.engine.plan.setup import Setup
from simulator.engine.plan.traffic import ends_of
from simulator.engine.plan.work.kernels import Kernel
from simulator.engine.plan.work.work import Work
from simulator.engine.rounds.disturbances import NO_DISTURBANCES
from simulator.engine.rounds.equivalence_classes import Shape, Structure, structure
from simulator.engine.rounds.fold_validity import reason_against_fold
from simulator.models.curves import Floats
from simulator.models.exchange import Messages, PushPull, Round
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


Exchanges = tuple[list[list[Stage]], list[list[Stage]]]
"""The stages of every bucket's exchange, and of the second halves of those that are split in two."""


def fixed_stages(work: Work, seconds: Floats) -> Exchanges:
    """Exchanges that follow each other: every time is known, and the runtime's cost is added to each call."""
    times = (seconds + work.software).tolist()
    calls = [[Stage(type(step).__name__, time)] for step, time in zip(work.steps, times, strict=True)]
    return _make_stages(work, [0] * len(work.slots), lambda slot, place: calls[place])


def live_stages(work: Work, setup: Setup) -> Exchanges:
    """Exchanges that share links with others, as rounds.

    Raises an expected-error where there are more messages than can be held.
    """
    return _make_stages(work, work.slots, partial(_stages_of_call, work, setup))


def _make_stages(work: Work, slots: Sequence[int], call: Callable[[int, int], list[Stage]]) -> Exchanges:
    """The stages of all exchanges; `call` gives those of a bucket with this slot in one of its communication steps."""
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
    phases = [phase for phase in made if phase]
    if (seats := network.seats) is not None:
        phases = [[Round(seats[i.src], seats[i.dst], i.nbytes, i.repeat) for i in phase] for phase in phases]
    if setup.alone:
        if phases and not isinstance(step, Messages):
            beside = float(network.fabric.added_seconds(payload_bytes([step], network.wiring.layout)[1])[0])
        phases = phases or [[]]  # a call that sends nothing takes its time, as where calls have prices
    kind = type(step).__name__
    names = ("Push", "Pull") if isinstance(step, PushPull) and len(phases) == 2 else (kind,) * len(phases)
    stages = [Stage(name, rounds=phase) for name, phase in zip(names, phases, strict=True)]
    if stages:
        stages[0].seconds, stages[0].beside = float(work.software[place]) + made.start_up + beside, beside
    return stages


def join_stages(stages: Sequence[Stage]) -> list[Stage]:
    """Copies of stages, with rounds that follow each other at once in one stage: each place goes on when it can."""
    made: list[Stage] = []
    for stage in stages:
        if made and made[-1].rounds and stage.rounds and not stage.seconds:
            label = made[-1].label if made[-1].label == stage.label else f"{made[-1].label} and {stage.label.lower()}"
            made[-1] = replace(made[-1], label=label, rounds=[*made[-1].rounds, *stage.rounds], shape=None)
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
        if reason_against_fold(rounds, wiring, src, dst, wiring.route(src, dst)):
            return False
    return True
