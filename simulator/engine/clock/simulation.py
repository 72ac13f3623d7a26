"""A simulation on the clock: a job, other jobs on the same links, and whoever joins them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy

from simulator.engine.clock.evaluate import MOST_PERIODS, finished, left_over, same_period
from simulator.engine.clock.graphs import graph_of
from simulator.engine.clock.model import Job, Process
from simulator.engine.clock.numbers import ALIKE, Draws
from simulator.engine.clock.workers import goes_at_own_pace, number_starts
from simulator.engine.plan.plan import Plan
from simulator.engine.rounds.disturbances import Stalled
from simulator.models.curves import Floats
from simulator.models.timeline import Iteration

if TYPE_CHECKING:
    from simulator.engine.rounds.equivalence_classes import Shape
    from simulator.engine.rounds.network import Network

_SAME = 1e-9
MOST_LIVE_PERIODS = 64
"""Periods with live exchanges after which one is taken as it is."""
ALIKE_PERIODS = 3
"""Periods in a row that take as long as the one before, where it is not known what is still queued."""


def simulate_all(
    plan: Plan, draws: Iterable[Draws], other_jobs: Sequence[Plan] = (), keep: bool = False
) -> Iterator[Iteration]:
    """Run iterations on the clock: each by itself, or one after the other where other jobs run or links remember what
    they carried.

    Periods of local steps follow each other, but where links change and no exchange reaches into the next period.
    Without `keep`, iterations that follow each other have no spans but the last one. Raises Stalled where an exchange
    never ends.
    """
    following = plan.period and (plan.period.crosses or not plan.setup.network.disturbances.changes)
    if other_jobs or plan.remembers or following:
        every = list(draws)
        yield from Simulation(plan, every, other_jobs).run(keep=keep)
        return
    for each in draws:
        yield from Simulation(plan, [each]).run()


def simulate(plan: Plan, draws: Draws = ALIKE) -> Iteration:
    """Run one iteration on the clock. Raises Stalled where an exchange never ends."""
    return next(iter(simulate_all(plan, [draws])))


def time_alone(plan: Plan, other: Plan) -> float:
    """Seconds of one iteration of another job on the network of `plan`, while nothing else uses it.

    Raises Stalled where its exchanges never end.
    """
    simulation = Simulation(plan, [ALIKE], [other])
    return simulation.follow(simulation.others[0][0].iterate(ALIKE)).time


class Simulation:
    """Iterations of a job, one for each of `draws`, while other jobs iterate without end.

    `env`: the SimPy environment. `iterations`: those that have ended. `network`: the links, where exchanges share them;
    None where each has a price. `opened`: others will join it, and lay its network once they have said what they send.
    """

    def __init__(
        self,
        plan: Plan,
        draws: Sequence[Draws],
        other_jobs: Sequence[Plan] = (),
        *,
        opened: bool = False,
    ) -> None:
        self.env, self.draws, self.starts, self.opened = simpy.Environment(), draws, None, opened
        graph = graph_of(plan)
        if goes_at_own_pace(plan, draws):
            plan = plan.at_own_pace
            self.starts = number_starts(plan, graph, draws)
        self.plan, self.iterations = plan, list[Iteration]()
        self.network: Network | None = None
        self.job = Job(self.env, plan, graph)
        self.others = [(Job(self.env, each, graph_of(each)), each.setup.start) for each in other_jobs]
        if plan.flowing and not opened:
            self.lay_network()

    def run(self, *, keep: bool = False) -> list[Iteration]:
        """Run all iterations. Raises Stalled where an exchange never ends."""
        for job, start in self.others:
            self.env.process(self._iterate_for_ever(job, start))
        self._run_until(self.env.process(self._iterate(self.iterations, keep)))
        if self.network is not None:
            for iteration in self.iterations:
                iteration.link_use = self.network.link_use
        return self.iterations

    def follow(self, process: Process) -> Iteration:
        """The iteration that one process of a job runs by itself."""
        return finished(self._run_until(self.env.process(process)))

    def _run_until(self, process: simpy.Process) -> Any:
        try:
            return self.env.run(until=process)
        except RuntimeError as error:
            if not isinstance(error.__context__, simpy.core.EmptySchedule):
                raise  # a process that has joined the simulation has failed
            # No event is left, so that the job can never end.
            raise Stalled(self.network.dead_links() if self.network else []) from None

    def _iterate(self, made: list[Iteration], keep: bool) -> Process:
        found = left = self._memory()
        for number, each in enumerate(self.draws):
            # An iteration that finds what the same one before it found is the same again.
            alike = number and not (keep or self.others or self.opened) and each is self.draws[number - 1]
            if alike and np.allclose(found, left, _SAME, 0):
                made.append(made[-1])
                continue
            found = left
            if made and not keep:
                made[-1].forget()
            made.append((yield from self._next(each, settled=number > 0 or not self.job.graph.crosses)))
            left = self._memory()

    def _next(self, draws: Draws, *, settled: bool) -> Process:
        """The next iteration; the first period of local steps is repeated until it repeats itself."""
        before, alike = (-1.0, 0.0), 0
        for _ in range(1 if settled else MOST_LIVE_PERIODS if self.plan.live else MOST_PERIODS):
            ran = yield from self.job.iterate(draws)
            made, left = finished(ran), left_over(ran)
            alike = alike + 1 if same_period(before, (made.time, left)) else 0
            before = made.time, left
            if alike >= (ALIKE_PERIODS if self.plan.live else 1):
                break
        return made

    def _iterate_for_ever(self, job: Job, start: float) -> Process:
        yield self.env.timeout(start)
        began = -1.0
        while self.env.now > began:  # an iteration that takes no time would be repeated without end
            began = self.env.now
            yield from job.iterate(ALIKE)

    def lay_network(self, more: Sequence[Shape] = ()) -> Network:
        """Lay the network that exchanges of all jobs share, and `more` that others may send."""
        from simulator.engine.rounds.network import Network  # the event loop: few scenarios need it

        jobs = [self.job, *(job for job, _ in self.others)]
        self.network = Network(
            self.env,
            self.plan.wiring,
            [*(shape for job in jobs for shape in job.plan.structures()), *(shape for shape, _ in more)],
            overhead=self.plan.setup.runtime.message_overhead,
            colours=self.starts,
            disturbances=self.plan.setup.network.disturbances,
            keep=True,
            changeable=self.opened,
        )
        for job in jobs:
            job.network = self.network
        return self.network

    def _memory(self) -> Floats:
        """What the links remember now: bytes in token buckets, or seconds until links of a fold are free."""
        links = self.job.links
        if not self.plan.remembers:
            return links
        kept = self.network.token_bucket_content() if self.network is not None else None
        return np.maximum(links - self.env.now, 0.0) if kept is None else kept
