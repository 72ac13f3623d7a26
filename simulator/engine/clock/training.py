"""Iterations on SimPy: each by itself, or one after the other beside the iterations of other jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import simpy

from simulator.engine.clock.job import ALIKE, Draws, Job, Process
from simulator.engine.plan.plan import Plan
from simulator.engine.rounds.network import Network, Stalled
from simulator.engine.rounds.prepared_network import PreparedNetwork
from simulator.models.timeline import Iteration


@dataclass(slots=True)
class Neighbour:
    """Another job on the same wires: its plan, and when it starts, in seconds after the job in question."""

    plan: Plan
    start: float


def simulate(plan: Plan, draws: Draws = ALIKE) -> Iteration:
    """Run one iteration. Raises Stalled where an exchange never ends."""
    return next(iter(simulate_all(plan, [draws])))


def simulate_all(
    plan: Plan, draws: Iterable[Draws], neighbours: Sequence[Neighbour] = (), keep: bool = False
) -> Iterator[Iteration]:
    """Run iterations: each by itself, or one after the other where neighbours run theirs beside them.

    Without `keep` an iteration has spans until the next one is asked for. Raises Stalled where an exchange never ends.
    """
    if neighbours:
        env = simpy.Environment()
        yield from _together(plan, list(draws), env, _network(env, plan, neighbours), neighbours=neighbours, keep=keep)
        return
    made: Iteration | None = None
    prepared: PreparedNetwork | None = None
    for each in draws:
        if made is not None and not keep:
            made.forget()
        env = simpy.Environment()
        network = _network(env, plan, (), prepared)
        prepared = network.reusable if network else None
        (made,) = _together(plan, [each], env, network)
        yield made


def _network(
    env: simpy.Environment, plan: Plan, neighbours: Sequence[Neighbour], prepared: PreparedNetwork | None = None
) -> Network | None:
    """The wires that a plan and its neighbours share as they go; None where nothing does."""
    if not plan.flowing:
        return None
    plans = (plan, *(item.plan for item in neighbours))
    structures = [] if prepared else [shape for each in plans for shape in each.structures()]
    overhead, around = plan.runtime.message_overhead, plan.disturbances
    return Network(env, plan.wiring, structures, overhead=overhead, disturbances=around, keep=True, prepared=prepared)


def _together(
    plan: Plan,
    draws: Sequence[Draws],
    env: simpy.Environment,
    network: Network | None,
    *,
    neighbours: Sequence[Neighbour] = (),
    keep: bool = False,
) -> list[Iteration]:
    made: list[Iteration] = []

    def job() -> Process:
        for each in draws:
            if made and not keep:
                made[-1].forget()
            made.append((yield env.process(Job(plan, env, network).iterate(each))))

    def beside(item: Neighbour) -> Process:
        yield env.timeout(item.start)
        began = -1.0
        while env.now > began:  # one that takes no time is in nobody's way
            began = env.now
            yield env.process(Job(item.plan, env, network).iterate(ALIKE))

    for item in neighbours:
        env.process(beside(item))
    main = env.process(job())
    try:
        env.run(until=main)
    except RuntimeError:
        # SimPy's word for "nothing is left to happen".
        raise Stalled(network.dead_links() if network else []) from None
    if network is not None:
        for iteration in made:
            iteration.link_use = network.link_use
    return made
