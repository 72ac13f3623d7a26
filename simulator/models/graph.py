"""A graph of tasks on streams: what one iteration, or a period of local steps, does, and what waits for what."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.models.groups import group_by
from simulator.models.sharding import REPLICA
from simulator.records import Record


class Fragment(NamedTuple):
    """A part of the model that is exchanged once in a period, by steps counted from the period's start.

    Its exchange starts after step `ready`; compute waits for it after step `due`, in the next period where that is
    beyond the last step.
    """

    ready: int
    due: int


class Event(NamedTuple):
    """After `step` steps of a period: the exchange of a fragment starts, or compute waits for it (`waits`).

    `earlier`: it is the exchange that the period before started.
    """

    step: int
    fragment: int
    waits: bool
    earlier: bool = False


class Period(NamedTuple):
    """So many steps, in which each of `fragments` is exchanged once.

    `together`: an exchange starts when the slowest worker is ready; otherwise each worker goes on by itself.
    """

    steps: int
    fragments: tuple[Fragment, ...]
    together: bool = True

    @property
    def crosses(self) -> bool:
        """Whether an exchange is still under way when the next period starts."""
        return any(fragment.due > self.steps for fragment in self.fragments)

    def events(self) -> list[Event]:
        """Starts and waits in order; after one step, waits for earlier starts come first.

        >>> [(event.step, event.waits, event.earlier) for event in Period(4, (Fragment(2, 4), Fragment(4, 6))).events()]
        [(2, True, True), (2, False, False), (4, True, False), (4, False, False)]
        """
        made = []
        for number, (ready, due) in enumerate(self.fragments):
            made.append(((ready, 1), Event(ready, number, waits=False)))
            earlier = due > self.steps
            order = 2 if due == ready else 0
            made.append(((due - self.steps * earlier, order), Event(due - self.steps * earlier, number, True, earlier)))
        return [event for _, event in sorted(made)]


COMPUTE, COMMUNICATION, HOST = "compute", "communication", "host"
"""The stream of a GPU's kernels, the streams of its collectives, and the host's thread that calls hooks of modules."""
EXCHANGES = ("exchange", "second")
"""The costs of an exchange, and of the second half of one that is split in two."""
Pace = Literal["common", "early", "backward", "selection", "steps"]
"""How the seconds of a task differ from worker to worker: not at all; by a worker's factor on forward passes and on
backward passes before the last one; by its factor on one bucket's part of the last backward pass; by its draw of a
selection; by its factor on the backward passes of local steps."""
Slowing = Literal["", "front", "own", "steps", "stretched"]
"""How exchanges under way slow a task down: not; as the slowest worker, to which the others keep their proportions;
each worker by itself; local steps from this task on, as a whole; and the tasks of these steps that are longer."""


class Cost(Record):
    """Where the seconds of a task stand among the numbers of an iteration: entry `index` of the vector `name`.

    `times`: how often they are spent in a row. `pace`: how they differ from worker to worker.
    """

    name: str
    index: int = 0
    times: int = 1
    pace: Pace = "common"


class Queue(Record):
    """The rule by which exchanges get a communication stream.

    `streams`: how many may be under way at once, each on a stream of its own, to which they are given in turn.
    `by_priority`: of those that are ready, the one of the lowest priority first; otherwise by their turn. `credit`:
    bytes that may be handed over at once (one exchange always may); None: no limit. `axis`: whose exchanges they are.
    """

    streams: int = 1
    by_priority: bool = False
    credit: float | None = None
    axis: str = REPLICA


class Task(Record):
    """One task: the stream that it takes, its seconds, what it waits for, and the term of the breakdown it counts to.

    A stream does its tasks in the order of the graph. `after`: tasks of the graph that it waits for; `earlier`: tasks
    of the same graph in the iteration before; where there was none before, the task is left out. `meets`: it starts on
    no worker before all have come to it. `ready`: the compute task up to which a wait for an exchange is a wait for the
    slowest worker. `slowed`: how exchanges that are under way slow it down.

    Of an exchange: its `bucket`, its `queue`, its place in a queue without priorities (`turn`), and whether it is the
    second half of one that is split in two (`half` 1). Of compute: the `bucket` or `layer` that it belongs to (-1:
    none). `sends`: whether there is anything to exchange.
    """

    stream: str
    label: str
    cost: Cost
    term: str = ""
    after: tuple[int, ...] = ()
    earlier: tuple[int, ...] = ()
    meets: bool = False
    ready: int = -1
    slowed: Slowing = ""
    bucket: int = -1
    layer: int = -1
    queue: int = 0
    turn: int = 0
    priority: int = 0
    half: int = 0
    sends: bool = True


class Graph(Record, eq=False, dict=True):
    """The tasks of one iteration of a class of workers, or of one period of local steps.

    `tasks` stand in an order in which each comes after all that it waits for. `periodic`: it is a period of local
    steps. `together`: workers wait for each other at the end of the iteration, or, of a period, at each exchange.
    `crosses`: an exchange may still be under way when the next period starts.
    """

    tasks: tuple[Task, ...]
    queues: tuple[Queue, ...]
    periodic: bool = False
    together: bool = True
    crosses: bool = False

    @cached_property
    def compute(self) -> tuple[int, ...]:
        """The tasks of the compute stream."""
        return tuple(place for place, task in enumerate(self.tasks) if task.stream == COMPUTE)

    @cached_property
    def exchanges(self) -> tuple[int, ...]:
        """The tasks of the communication streams."""
        return tuple(place for place, task in enumerate(self.tasks) if task.stream == COMMUNICATION)

    @cached_property
    def costs(self) -> tuple[str, ...]:
        """The names of all costs, each once."""
        return tuple(dict.fromkeys(task.cost.name for task in self.tasks))

    @cached_property
    def cost_places(self) -> tuple[Ints, Ints, Floats]:
        """For each task which of the costs it has, the entry in it, and how often."""
        number = {name: place for place, name in enumerate(self.costs)}
        costs = [task.cost for task in self.tasks]
        which, index = np.array([(number[each.name], each.index) for each in costs]).T
        return which, index, np.array([float(each.times) for each in costs])

    @cached_property
    def calls(self) -> dict[str, Ints]:
        """How often each exchange takes place: by the name of its cost, for every bucket (b,)."""
        costs = [self.tasks[place].cost for place in self.exchanges]
        buckets = 1 + max((cost.index for cost in costs), default=-1)
        names = dict.fromkeys((*EXCHANGES, *(cost.name for cost in costs)))
        made: dict[str, Ints] = {name: np.zeros(buckets, dtype=np.int64) for name in names}
        for cost in costs:
            made[cost.name][cost.index] += cost.times
        return made

    @cached_property
    def hooks(self) -> tuple[int, ...]:
        """The tasks of the host's thread that calls the hooks of modules."""
        return tuple(place for place, task in enumerate(self.tasks) if task.stream == HOST)

    @cached_property
    def made_ready_by(self) -> dict[int, list[int]]:
        """The exchanges that each task of compute makes ready."""
        made = group_by(self.exchanges, lambda place: self.tasks[place].after[-1])
        return {place: exchanges for place, exchanges in made.items() if self.tasks[place].stream == COMPUTE}

    @cached_property
    def follow_ons(self) -> tuple[int, ...]:
        """The exchanges that follow others."""
        return tuple(place for place in self.exchanges if self.tasks[self.tasks[place].after[-1]].stream != COMPUTE)

    @cached_property
    def ready_tasks(self) -> tuple[int, ...]:
        """For each bucket the compute task after which its exchange may start."""
        first = {task.bucket: task.after[-1] for task in self.tasks if task.stream == COMMUNICATION and not task.half}
        return tuple(first[bucket] for bucket in sorted(first))

    @cached_property
    def slows_each(self) -> bool:
        """Whether exchanges slow down some compute of each worker by itself."""
        return any(task.slowed == "own" for task in self.tasks)

    @cached_property
    def overlaps(self) -> bool:
        """Whether exchanges of several communicators may be under way at the same time."""
        return len(self.queues) > 1 and not self.halves

    @cached_property
    def halves(self) -> bool:
        """Whether any exchange is split in two."""
        return any(task.half for task in self.tasks)

    @cached_property
    def meets_last(self) -> bool:
        """Whether workers differ only before they all meet for the first time, so that the slowest are enough."""
        tasks = [self.tasks[place] for place in self.compute]
        met = next((number for number, task in enumerate(tasks) if task.meets), len(tasks))
        return met < len(tasks) and all(task.cost.pace == "common" for task in tasks[met:])

    @cached_property
    def in_turn(self) -> bool:
        """Whether exchanges go one after the other in the order of the graph, so that no later one comes before."""
        if any(queue.by_priority or queue.streams > 1 or queue.credit is not None for queue in self.queues):
            return False
        queues = group_by(map(self.tasks.__getitem__, self.exchanges), lambda task: task.queue).values()
        return all(one.turn < other.turn for tasks in queues for one, other in pairwise(tasks))
