"""Iterations on SimPy: each by itself, or one after the other while other jobs run theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy

from simulator.engine.clock.compute_times import goes_at_own_pace, start_colours
from simulator.engine.clock.draws import ALIKE, Draws
from simulator.engine.clock.job import Job, Process
from simulator.engine.clock.spans import slowest_spans, worker_spans
from simulator.engine.plan.plan import OtherJobPlan, Plan
from simulator.engine.rounds.disturbances import Stalled
from simulator.models.curves import Floats
from simulator.models.timeline import Iteration

if TYPE_CHECKING:
    from simulator.engine.rounds.network import Network
    from simulator.engine.rounds.prepared_network import PreparedNetwork

_SAME = 1e-9


def simulate(plan: Plan, draws: Draws = ALIKE) -> Iteration:
    """Run one iteration. Raises Stalled where an exchange never ends."""
    return next(iter(simulate_all(plan, [draws])))


def simulate_all(
    plan: Plan, draws: Iterable[Draws], other_jobs: Sequence[OtherJobPlan] = (), keep: bool = False
) -> Iterator[Iteration]:
    """Run iterations: each by itself, or one after the other where other jobs run or links remember what they carried.

    Periods of local steps follow each other, but where links change and no exchange reaches into the next period.
    Without `keep`, an iteration has spans until the next one is asked for. Raises Stalled where an exchange never ends.
    """
    following = plan.period and (plan.period.crosses or not plan.disturbances.changes)
    if other_jobs or plan.remembers or following:
        env, every = simpy.Environment(), list(draws)
        plan, colours = _at_own_pace(plan, every)
        network = _make_network(env, plan, other_jobs, colours)
        yield from _run(plan, every, env, network, other_jobs=other_jobs, keep=keep)
        return
    made: Iteration | None = None
    prepared: PreparedNetwork | None = None
    before: Floats | None = None
    for each in draws:
        if made is not None and not keep:
            made.forget()
        env = simpy.Environment()
        plan, colours = _at_own_pace(plan, [each])
        if colours is not None and before is not None and not np.array_equal(before, colours):
            prepared = None
        before = colours
        network = _make_network(env, plan, (), colours, prepared)
        prepared = network.reusable if network else None
        (made,) = _run(plan, [each], env, network)
        yield made


def _at_own_pace(plan: Plan, draws: Sequence[Draws]) -> tuple[Plan, Floats | None]:
    """The plan where each worker pushes when it is ready, if it does, and numbers of places that start together."""
    if not goes_at_own_pace(plan, draws):
        return plan, None
    return plan if plan.own_pace else plan.at_own_pace(), start_colours(plan, draws)


def time_alone(plan: Plan, other: OtherJobPlan) -> float:
    """Seconds of one iteration of another job on the network of `plan`, while nothing else uses it.

    Raises Stalled where its exchanges never end.
    """
    env = simpy.Environment()
    network = _make_network(env, plan, [other], None)
    process = env.process(Job(other.plan, env, network, _free_links(other.plan)).iterate(ALIKE))
    try:
        iteration: Any = env.run(until=process)
    except RuntimeError:
        raise Stalled(network.dead_links() if network else []) from None
    return float(iteration.time)


def _make_network(
    env: simpy.Environment,
    plan: Plan,
    other_jobs: Sequence[OtherJobPlan],
    colours: Floats | None,
    prepared: PreparedNetwork | None = None,
) -> Network | None:
    """The network that exchanges of all jobs share; None where no exchange shares links with others."""
    if not plan.flowing:
        return None
    from simulator.engine.rounds.network import Network  # the event loop: few scenarios need it

    plans = (plan, *(item.plan for item in other_jobs))
    structures = [] if prepared else [shape for each in plans for shape in each.structures()]
    overhead, around = plan.runtime.message_overhead, plan.disturbances
    return Network(
        env,
        plan.wiring,
        structures,
        overhead=overhead,
        colours=colours,
        disturbances=around,
        keep=True,
        prepared=prepared,
    )


def _run(
    plan: Plan,
    draws: Sequence[Draws],
    env: simpy.Environment,
    network: Network | None,
    *,
    other_jobs: Sequence[OtherJobPlan] = (),
    keep: bool = False,
) -> list[Iteration]:
    """The job's iterations, one for each of `draws`, while other jobs iterate without end."""
    made: list[Iteration] = []
    links = _free_links(plan)
    iterate_once = _job_on(plan, env, network, links)

    def iterate() -> Process:
        found = left = _memory(plan, env, network, links)
        for number, each in enumerate(draws):
            # An iteration that finds what the same one before it found is the same again.
            if number and not (keep or other_jobs) and each is draws[number - 1] and np.allclose(found, left, _SAME, 0):
                made.append(made[-1])
                continue
            found = left
            if made and not keep:
                made[-1].forget()
            made.append((yield env.process(iterate_once(each))))
            left = _memory(plan, env, network, links)

    def iterate_for_ever(item: OtherJobPlan) -> Process:
        yield env.timeout(item.start)
        began, iterate_other = -1.0, _job_on(item.plan, env, network, _free_links(item.plan))
        while env.now > began:  # an iteration that takes no time would be repeated without end
            began = env.now
            yield env.process(iterate_other(ALIKE))

    for item in other_jobs:
        env.process(iterate_for_ever(item))
    main = env.process(iterate())
    try:
        env.run(until=main)
    except RuntimeError:
        # SimPy raises it where no event is left, so that the job can never end.
        raise Stalled(network.dead_links() if network else []) from None
    if network is not None:
        for iteration in made:
            iteration.link_use = network.link_use
    return made


def _job_on(plan: Plan, env: simpy.Environment, network: Network | None, links: Floats) -> Callable[[Draws], Process]:
    """What runs the next iteration of a job, or the next period of its local steps, as a process of the clock."""
    if plan.period:
        from simulator.engine.clock.period_job import PeriodJob  # brings the event loop; few scenarios need it

        return PeriodJob(plan, env, network, links).iterate

    def iterate(draws: Draws) -> Process:
        job = Job(plan, env, network, links)
        iteration = yield from job.iterate(draws)
        iteration.spans, iteration.spans_of = partial(slowest_spans, job), partial(worker_spans, job)
        return iteration

    return iterate


def _free_links(plan: Plan) -> Floats:
    """When each link is free, or its token bucket full, (1, L), as a fold that follows exchanges keeps it: at once."""
    return np.zeros((1, len(plan.wiring.capacity)))


def _memory(plan: Plan, env: simpy.Environment, network: Network | None, links: Floats) -> Floats:
    """What the links remember now: bytes in token buckets, or seconds until links of a fold are free."""
    if not plan.remembers:
        return links
    kept = network.token_bucket_content() if network is not None else None
    return np.maximum(links - env.now, 0.0) if kept is None else kept
