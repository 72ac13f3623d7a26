"""An open simulation: a job on the clock before it runs, for processes, events and changes of one's own."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import simpy

from simulator.component import expected
from simulator.engine.clock.draws import Draws
from simulator.engine.clock.model import Job, Listener
from simulator.engine.clock.simulation import Simulation
from simulator.engine.plan.plan import OtherJobPlan, Plan
from simulator.engine.rounds.equivalence_classes import Shape, structure
from simulator.engine.rounds.network import Message, Network
from simulator.errors import suggest_nearest
from simulator.models.exchange import Round
from simulator.models.graph import Task
from simulator.models.timeline import Iteration, Span
from simulator.models.wiring import Wiring


class OpenSimulation:
    """A simulation that has not run yet; whatever is added to its `env` takes part in it.

    - `env`: the SimPy environment, in which own processes run.
    - `workers`: the GPUs of the job, by their numbers.
    - `network`: NICs and links, where messages are followed; None where each exchange takes the time of its price.
    - `iterations`: those that have run.

    Without anything added it gives the times that `run` gives.
    """

    def __init__(self, plan: Plan, draws: Sequence[Draws], other_jobs: Sequence[OtherJobPlan] = ()) -> None:
        self._simulation = Simulation(plan, draws, other_jobs, opened=True)
        self.env, self.iterations = self._simulation.env, list[Iteration]()
        self._job, self._listeners = self._simulation.job, dict[str, list[Listener]]()
        self._job.workers.followed, self._job.tell = True, self._tell
        layout = plan.wiring.layout
        self.workers = [OpenWorker(self, number, number // layout.gpus_per_node) for number in range(layout.workers)]
        self.network = OpenNetwork(plan.wiring) if plan.flowing else None

    def on(self, event: str, function: Listener) -> None:
        """Call `function(event, task, time)` at each `start` or `end` of a task. Raises an expected-error for another
        event."""
        if event not in ("start", "end"):
            raise expected("`start` or `end` of a task", repr(event), suggest_nearest(event, ("start", "end")))
        self._listeners.setdefault(event, []).append(function)

    def run(self) -> list[Iteration]:
        """Run all iterations, once. Raises Stalled where one never ends."""
        if self.iterations:
            raise RuntimeError("this simulation has run; make another one")
        if self.network is not None:
            self.network.carrier = self._simulation.lay_network(self.network.shapes)
        self.iterations = self._simulation.run(keep=True)
        return self.iterations

    def _tell(self, event: str, task: Task, time: float) -> None:
        for function in self._listeners.get(event, ()):
            function(event, task, time)

    @property
    def job(self) -> Job:
        """The job on the clock."""
        return self._job


class OpenWorker:
    """A GPU of the job: its `number`, and the `node` that it stands in."""

    def __init__(self, simulation: OpenSimulation, number: int, node: int) -> None:
        self._simulation, self.number, self.node = simulation, number, node

    def interrupt(self, seconds: float, at: float | None = None) -> None:
        """Let the worker do nothing for so many seconds, from `at` (s) on, or from now. Raises an expected-error for a
        time that has passed."""
        self._simulation.job.workers.interrupt(self.number, self._time(at), seconds)

    def slow_down(self, factor: float, start: float | None = None, until: float = math.inf) -> None:
        """Let the worker's compute take `factor` times as long from `start` (s), or from now, until `until`. Raises an
        expected-error for a time that has passed."""
        self._simulation.job.workers.slow_down(self.number, factor, self._time(start), until)

    @property
    def tasks(self) -> list[Span]:
        """What the worker did in the last iteration that has ended: its compute without a gap, and the exchanges."""
        done = self._simulation.iterations
        return done[-1].spans_of(self.number) if done else []

    def _time(self, at: float | None) -> float:
        job, now = self._simulation.job, float(self._simulation.env.now)
        time = now if at is None else at
        if time < now or (now and job.plan.own_pace):
            hint = "workers that push at their own pace are computed ahead: say it before the run" if now else ""
            raise expected(f"a time from {now:g} s on", f"{time:g} s", hint)
        return time


class OpenNetwork:
    """The NICs and links, by `names`, with rates in bytes/s that can be set, and connections for own messages."""

    def __init__(self, wiring: Wiring) -> None:
        self.names, self._wiring = list(wiring.names), wiring
        self.shapes: list[Shape] = []
        self.carrier: Network | None = None

    def rate(self, link: str) -> float:
        """What a link carries, in bytes/s. Raises an expected-error for an unknown link."""
        number = self._number(link)
        if self.carrier is None:
            return float(self._wiring.capacity[number])
        return float(self.carrier.loop.capacity[int(self.carrier.classes.of_link[number])])

    def set_rate(self, link: str, rate: float) -> None:
        """Let a link carry `rate` bytes/s from now on, while the simulation runs.

        Raises an expected-error for an unknown link, or a rate that is not above 0.
        """
        number = self._number(link)
        if not 0 < rate < math.inf:
            raise expected("a rate above 0 bytes/s", f"{rate} bytes/s")
        self._running().set_capacity(number, rate)

    def connect(self, source: int, destination: int) -> Connection:
        """A connection for own messages between two places (GPUs, then servers), made before the simulation runs."""
        places = len(self._wiring.node)
        if not (0 <= source < places and 0 <= destination < places and source != destination):
            raise expected(f"two different places below {places}", f"{source} and {destination}")
        if self.carrier is not None:
            raise RuntimeError("connections are made before the simulation runs")
        ends = np.array([source]), np.array([destination])
        self.shapes.append(structure([Round(*ends, np.ones((1, 1)))]))
        return Connection(self, self.shapes[-1])

    @property
    def messages(self) -> list[Message]:
        """The messages that have travelled."""
        return [] if self.carrier is None else list(self.carrier.messages())

    def _running(self) -> Network:
        if self.carrier is None:
            raise RuntimeError("the simulation does not run yet")
        return self.carrier

    def send(self, shape: Shape, nbytes: float) -> simpy.Event:
        """Send so many bytes over a connection, as `Connection.send` does."""
        if not 0 <= nbytes < math.inf:
            raise expected("at least 0 bytes", str(nbytes))
        return self._running().start((shape[0], (float(nbytes),)), label="own message").done

    def _number(self, link: str) -> int:
        if link not in self.names:
            raise expected("a link of this network", repr(link), suggest_nearest(link, self.names))
        return self.names.index(link)


class Connection:
    """A connection of one's own between two places of the network."""

    def __init__(self, network: OpenNetwork, shape: Shape) -> None:
        self._network, self._shape = network, shape

    def send(self, nbytes: float) -> simpy.Event:
        """Send so many bytes now, which share links with all that is under way; the event is triggered when they have
        arrived."""
        return self._network.send(self._shape, nbytes)
