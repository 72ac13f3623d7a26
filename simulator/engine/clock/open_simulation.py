"""An open simulation: a job on the clock before it runs, for processes, events and changes of one's own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import simpy

from simulator.engine.clock.model import Listener
from simulator.engine.clock.numbers import Draws
from simulator.engine.clock.simulation import Simulation
from simulator.engine.plan.plan import Plan
from simulator.engine.refusals import as_input_error
from simulator.engine.rounds.equivalence_classes import Shape, structure
from simulator.engine.rounds.network import Message, Network
from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.files import replace_file
from simulator.models.exchange import Round
from simulator.models.graph import Task
from simulator.models.timeline import Iteration, Span
from simulator.models.wiring import Wiring
from simulator.units import read_value

_ONCE = "make another one with `simulation`"
Given = float | str
"""A number in SI, or a text with its unit."""
_FIRST_OWN_STREAM = 64
"""Streams of the network from which on they belong to own connections; a job has fewer."""


class OpenSimulation:
    """A simulation that has not run yet; whatever is added to its `env` takes part in it.

    - `env`: the SimPy environment, in which own processes run.
    - `workers`: the GPUs of the job, by their numbers.
    - `network`: NICs and links, where messages are followed; None where each exchange takes the time of its price.
    - `iterations`: those that have ended, with the `warmup`, which are not counted; `job`: the job on the clock.

    Without anything added it gives the times that `run` gives. Its errors are InputErrors; `where` is the place that
    they name.
    """

    def __init__(
        self,
        plan: Plan,
        draws: Sequence[Draws],
        other_jobs: Sequence[Plan] = (),
        *,
        warmup: int = 0,
        where: str = "simulation",
    ) -> None:
        self._simulation = Simulation(plan, draws, other_jobs, opened=True)
        self.env, self._where, self._has_run, self.warmup = self._simulation.env, where, False, warmup
        self._has_ended = False
        self.job, self.iterations = self._simulation.job, self._simulation.iterations
        self._listeners = dict[str, list[Listener]]()
        self.job.workers.followed, self.job.listener = True, self._tell
        layout = plan.wiring.layout
        self.workers = OpenWorkers(
            OpenWorker(self, number, number // layout.gpus_per_node) for number in range(layout.workers)
        )
        self.network = OpenNetwork(self, plan.wiring) if plan.flowing else None

    def on(self, event: str, function: Listener) -> None:
        """Call `function(event, task, time)` at each `start` or `end` of a task: compute of all workers from the start
        on the first to the end on the last, or an exchange. Local steps are told of once all in a row have ended.

        Raises InputError for another event, for what cannot be called, and after the run.
        """
        self.refuse_ended("on")
        if not callable(function):
            raise _refusal("on", "a function of the event, the task and the time", format_value(function))
        if event not in ("start", "end"):
            raise _refusal("on", "`start` or `end` of a task", repr(event), suggest_nearest(event, ("start", "end")))
        self._listeners.setdefault(event, []).append(function)

    def run(self) -> list[Iteration]:
        """Run all iterations, once, and return those after the warm-up.

        Raises InputError where one never ends, and where it has run.
        """
        if self._has_run:
            raise _refusal("run", "a simulation that has not run yet", "one that has", _ONCE)
        self._has_run = True
        try:
            with as_input_error(self._where):
                if self.network is not None:
                    self.network.open(self._simulation.lay_network(self.network.shapes))
                return self._simulation.run(keep=True)[self.warmup :]
        finally:
            self._has_ended = True

    def refuse_ended(self, where: str) -> None:
        """Raise InputError for a call after the run, which would change nothing."""
        if self._has_ended:
            raise _refusal(where, "to be called before or during the run", "a call after it", _ONCE)

    def _tell(self, event: str, task: Task, time: float) -> None:
        for function in self._listeners.get(event, ()):
            function(event, task, time)


class OpenWorker:
    """A GPU of the job: its `number`, and the `node` that it stands in."""

    def __init__(self, simulation: OpenSimulation, number: int, node: int) -> None:
        self._simulation, self.number, self.node = simulation, number, node

    def interrupt(self, seconds: Given, at: Given | None = None) -> None:
        """Let the worker do nothing for so long, from `at` on, or from now: seconds, or texts such as "50 ms".

        Raises InputError for a time that has passed, for seconds below 0, and after the run.
        """
        begin, where = self._time("interrupt", at), f"worker {self.number}: interrupt"
        lasts = read_value(where, seconds, "time")
        if not 0 <= lasts < math.inf:
            raise _refusal(where, "at least 0 s", f"{lasts:g} s", "an interruption takes time, and it ends")
        self._simulation.job.workers.pauses[self.number].append((begin, lasts))

    def slow_down(self, factor: float, start: Given | None = None, until: Given = math.inf) -> None:
        """Let the worker's compute take `factor` times as long from `start`, or from now, until `until`: seconds, or
        texts such as "50 ms".

        Raises InputError for a time that has passed, for a factor below 1, and after the run.
        """
        begin, where = self._time("slow_down", start), f"worker {self.number}: slow_down"
        if not isinstance(factor, Real) or not 1 <= factor < math.inf:
            hint = "a worker can be slowed down only"
            raise _refusal(where, "a factor of at least 1", format_value(factor), hint)
        end = read_value(where, until, "time")
        if not end >= begin:
            raise _refusal(where, f"an `until` from {begin:g} s on", f"{end:g} s", "it ends after it starts")
        self._simulation.job.workers.slowed[self.number].append((begin, end, float(factor)))

    @property
    def tasks(self) -> list[Span]:
        """What the worker did in the last iteration that has ended: its compute without a gap, and the exchanges."""
        done = self._simulation.iterations
        return done[-1].spans_of(self.number) if done else []

    def _time(self, what: str, at: Given | None) -> float:
        job, now = self._simulation.job, float(self._simulation.env.now)
        where = f"worker {self.number}: {what}"
        self._simulation.refuse_ended(where)
        time = now if at is None else read_value(where, at, "time")
        if now and job.plan.own_pace:
            hint = "workers that push at their own pace are computed ahead"
            raise _refusal(where, "to be called before the run", f"a call at {now:g} s", hint)
        if not now <= time < math.inf:
            raise _refusal(where, f"a time from {now:g} s on", f"{time:g} s", "what has passed cannot be changed")
        return time


class OpenWorkers(list[OpenWorker]):
    """The GPUs of the job, by their numbers. Raises InputError for a number that none has."""

    def __getitem__(self, number: Any) -> Any:
        try:
            return super().__getitem__(number)
        except (IndexError, TypeError):
            raise _refusal("workers", f"a number from 0 to {len(self) - 1}", format_value(number)) from None


class OpenNetwork:
    """The NICs and links, by `names`, with rates in bytes/s that can be set, and connections for own messages."""

    def __init__(self, simulation: OpenSimulation, wiring: Wiring) -> None:
        self._simulation, self.names, self._wiring = simulation, list(wiring.names), wiring
        self.shapes: list[Shape] = []
        self._carrier: Network | None = None
        self._rates: dict[int, float] = {}

    def open(self, carrier: Network) -> None:
        """Let messages travel over these links, at the rates that were set before."""
        self._carrier = carrier
        for number, rate in self._rates.items():
            carrier.set_capacity(number, rate)

    def rate(self, link: str) -> float:
        """What a link carries, in bytes/s. Raises InputError for an unknown link."""
        number = self._number("rate", link)
        if self._carrier is None:
            return self._rates.get(number, float(self._wiring.capacity[number]))
        return float(self._carrier.loop.capacity[int(self._carrier.classes.of_link[number])])

    def set_rate(self, link: str, rate: Given) -> None:
        """Let a link carry `rate` from now on: bytes/s, or a text such as "1 Gbit/s".

        Raises InputError for an unknown link, for a rate not above 0, and after the run.
        """
        self._simulation.refuse_ended("network: set_rate")
        number, where = self._number("set_rate", link), f"network: set_rate of {link}"
        carried = read_value(where, rate, "bandwidth")
        if not 0 < carried < math.inf:
            raise _refusal(where, "a rate above 0 bytes/s", f"{carried:g} bytes/s")
        if self._carrier is None:
            self._rates[number] = carried
        else:
            self._carrier.set_capacity(number, carried)

    def connect(self, source: int, destination: int) -> Connection:
        """A connection for own messages between two places (GPUs, then servers), made before the simulation runs.

        Raises InputError for a place that does not exist, and once the simulation runs.
        """
        where, places = "network: connect", len(self._wiring.node)
        whole = isinstance(source, Integral) and isinstance(destination, Integral)
        if not (whole and 0 <= source < places and 0 <= destination < places and source != destination):
            got = f"{format_value(source)} and {format_value(destination)}"
            raise _refusal(where, f"two different places from 0 to {places - 1}", got)
        if self._carrier is not None:
            hint = "connect first, then run; a connection may stay idle"
            raise _refusal(where, "to be called before the run", "a call during it or after it", hint)
        ends = np.array([source]), np.array([destination])
        self.shapes.append(structure([Round(*ends, np.ones((1, 1)))]))
        return Connection(self, self.shapes[-1], _FIRST_OWN_STREAM + len(self.shapes) - 1)

    @property
    def messages(self) -> list[Message]:
        """The messages of all exchanges that have ended, and own messages."""
        return [] if self._carrier is None else list(self._carrier.messages())

    def write_messages(self, path: str | Path) -> None:
        """Write the messages as Parquet, atomically: `source`, `destination`, `nbytes`, `start_s`, `end_s`, `exchange`.

        Raises InputError where the file cannot be written.
        """
        import pyarrow  # slow to import, and few need it
        from pyarrow import parquet

        types = (pyarrow.int64(), pyarrow.int64(), *[pyarrow.float64()] * 3, pyarrow.string())
        names = ("source", "destination", "nbytes", "start_s", "end_s", "exchange")
        columns = list(zip(*self.messages, strict=True)) or [()] * len(names)
        arrays = [pyarrow.array(column, each) for column, each in zip(columns, types, strict=True)]
        table = pyarrow.table(dict(zip(names, arrays, strict=True)))

        def fill(name: str) -> None:
            with open(name, "wb") as file:  # PyArrow itself opens only names in UTF-8
                parquet.write_table(table, file)

        replace_file(Path(path), fill)

    def send(self, shape: Shape, nbytes: Given, stream: int) -> simpy.Event:
        """Send so many bytes over the connection that has this stream; `Connection.send` calls it."""
        where = "network: send"
        self._simulation.refuse_ended(where)
        size = read_value(where, nbytes, "size")
        if not 0 <= size < math.inf:
            raise _refusal(where, "at least 0 bytes", f"{size:g} bytes")
        if self._carrier is None:
            hint = "send from a process of `env`, which starts with the run"
            raise _refusal(where, "a simulation that runs", "one that has not started", hint)
        return self._carrier.start((shape[0], (size,)), stream=stream, label="own message").done

    def _number(self, what: str, link: str) -> int:
        if link not in self.names:
            hint = suggest_nearest(link, self.names)
            raise _refusal(f"network: {what}", "a link of this network", repr(link), hint)
        return self.names.index(link)


class Connection:
    """A connection of one's own between two places of the network, which carries one message after the other."""

    def __init__(self, network: OpenNetwork, shape: Shape, stream: int) -> None:
        self._network, self._shape, self._stream = network, shape, stream

    def send(self, nbytes: Given) -> simpy.Event:
        """Send so many bytes, or a text such as "20 MB"; they share links fairly with all that is under way, and the
        event is triggered when they have arrived.

        Raises InputError for bytes below 0, before the simulation runs, and after it has.
        """
        return self._network.send(self._shape, nbytes, self._stream)


def _refusal(where: str, expected: str, got: str, hint: str = "") -> InputError:
    return InputError(Problem(where, expected, got, hint))
