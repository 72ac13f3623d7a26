"""The builder of a graph: a scheduler writes its training loop down against it, task by task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from numbers import Integral

from simulator.component import expected
from simulator.errors import format_value
from simulator.models.exchange import Bucket
from simulator.models.graph import COMMUNICATION, COMPUTE, HOST, Cost, Graph, Period, Queue, Slowing, Task
from simulator.models.sharding import LAYERS, SHARD
from simulator.models.timeline import TERM_LABELS
from simulator.records import Record, replace

WAIT_DATA = "waiting for data"
WAIT_STAGES = "waiting for other stages"
TASKS_OF_STEPS = ("load", "forward", "backward", "update")
"""The tasks of local steps, one after the other as `Step.local_steps` writes them down."""
TERMS_INSIDE = ("selection", "combine", "communication_exposed", "slowdown")
"""What else a local step of several GPUs takes, by the terms of its breakdown."""
NOTHING = Cost("nothing")
"""The cost of a task that only waits."""
MOST_MICRO_BATCHES = 4
"""Micro-batches with communication that are written down one by one."""
MOST_PASSES = 64
"""Forward and backward passes that are tasks of their own; of more, all are one task of each kind."""


class Shape(Record):
    """What a graph depends on: the buckets, and for each of `layers` tensors those that hold a part of it.

    `passes`: forward passes of an iteration. `turns`: the place of each bucket in a queue without priorities.
    `exists`, `halves`: whether there is anything to exchange, and whether the exchange is split in two. `modules`: the
    layers that are the first tensors of their modules; none where the host calls no hooks. `alone`: there is one
    worker. `shares`: several GPUs share the model, so that there is something to gather and to reduce among them.
    `joint`: GPUs divide layers, and do something together in each pass; `runs`: of their pipeline's schedule, if any.
    `inside`: a worker is a site of several GPUs, which communicate in every local step. `live`: exchanges have no price
    in advance.
    """

    buckets: tuple[Bucket, ...]
    layers: int
    passes: int
    turns: tuple[int, ...]
    exists: tuple[bool, ...]
    halves: tuple[bool, ...]
    modules: tuple[int, ...]
    alone: bool
    shares: bool
    joint: bool
    runs: int
    inside: bool
    live: bool

    def covers(self) -> list[list[int]]:
        """For each layer the buckets that hold a part of it."""
        made: list[list[int]] = [[] for _ in range(self.layers)]
        for number, bucket in enumerate(self.buckets):
            for layer in bucket.layers:
                made[layer].append(number)
        return made


class Step:
    """One training iteration, as the loop of a scheduler writes it down.

    Every method adds tasks. Those of compute follow each other; an exchange starts once the compute that was written
    before it has ended on all workers, and its communication stream is free by the rule of `queue`.
    """

    def __init__(self, shape: Shape, queue: Queue) -> None:
        self.shape, self.queues = shape, [queue]
        self.tasks: list[Task] = []
        self.last, self.first_pass, self.last_run = -1, True, True
        self.steps, self.together, self.crosses = 0, True, False
        self.exchanges: dict[tuple[int, int], int] = {}
        self.gathers: dict[int, int] = {}
        self.reductions: list[tuple[int, bool]] = []
        self.rounds, self.times = [0] * len(shape.buckets), 1
        self.axes: dict[str, tuple[int, int]] = {}
        self.ready = set[int]()

    def micro_batches(self) -> Iterator[bool]:
        """Every forward and backward pass, where communication ends with each; yields whether it is the last one, in
        each run of a pipeline's schedule.

        Of many, those between the first and the last one are written down once, with all of their times multiplied:
        together they take as long as one after the other. Raises an expected-error for very many whose exchanges meet
        others on the links, so that each takes its own time.
        """
        count, runs = self.shape.passes, max(1, self.shape.runs)
        if self.shape.live and count > MOST_PASSES:
            what = f"at most {MOST_PASSES} micro-batches that exchange gradients each, on links that others use as well"
            raise expected(what, str(count), "`accumulate: none`, or links without `other_jobs` and token buckets")
        every, alike = self._alike(count // runs), self._alike(runs)
        for run, same in enumerate(alike):
            for number, times in enumerate(every):
                self.times, self.first_pass, self.last_run = same * times, not number, run == len(alike) - 1
                yield number == len(every) - 1

    @property
    def units(self) -> Sequence[int]:
        """The buckets of a sharded model in the order of the forward pass."""
        return range(len(self.shape.buckets))[::-1]

    def load(self) -> None:
        """Wait for the batch."""
        self._compute(WAIT_DATA, "idle", Cost("load"))
        if self.shape.runs:
            self._compute(WAIT_STAGES, "idle", Cost("stages"))

    def forward(self) -> None:
        """The forward pass, and of several passes all but the last backward pass."""
        self._passes(0)

    def forward_alone(self) -> None:
        """The forward pass of a micro-batch after whose backward pass gradients are exchanged."""
        self._pass(0 if self.first_pass else 2)

    def backward(self, *, at_once: bool = False) -> Iterator[int]:
        """The last backward pass, and the selection from each bucket; yields a bucket when it is ready to travel.

        `at_once`: all of the pass comes before the first selection, and nothing that is under way slows it down.
        """
        slowed: Slowing = "" if at_once else "front"
        for bucket in range(len(self.shape.buckets)) if at_once else ():
            self._gradient(bucket, "")
        for bucket in range(len(self.shape.buckets)):
            if not at_once:
                self._gradient(bucket, slowed)
            self._select(bucket, slowed)
            yield bucket

    def exchange(self, bucket: int) -> None:
        """Exchange a bucket: all of it, or the reduction where an all-reduce is split in two.

        Raises an expected-error for a bucket that is not ready, or was exchanged already.
        """
        if not (isinstance(bucket, Integral) and bucket in self.ready):
            hint = "one that `backward` has yielded, and that was not exchanged since"
            raise expected("a bucket that is ready in `exchange`", format_value(bucket), hint)
        self.ready.remove(bucket)
        turn = self.shape.turns[bucket] + self.rounds[bucket] * len(self.rounds)
        self.rounds[bucket] += 1
        self._exchange(bucket, 0, (self.last,), queue=0, turn=turn)

    def gather_all(self) -> None:
        """The second halves of exchanges that are split in two, in forward order, once everything is reduced."""
        reduced = tuple(place for (_, half), place in self.exchanges.items() if not half)
        self.queues.append(replace(self.queues[0], by_priority=False, credit=None))
        order = sorted(range(len(self.shape.buckets)), key=lambda bucket: (self._first_layer(bucket), bucket))
        for turn, bucket in enumerate(each for each in order if self.shape.halves[each]):
            self._exchange(bucket, 1, reduced, queue=len(self.queues) - 1, turn=turn)

    def update(self) -> None:
        """Combine what has arrived, bucket by bucket, once all workers have computed; then update all parameters."""
        self.combine()
        self._compute("update", "update", Cost("update"))

    def combine(self) -> None:
        """Combine what has arrived, bucket by bucket, once all workers have computed."""
        ready = self.last
        for bucket in range(len(self.shape.buckets)):
            after, cost = (self._arrival(bucket),), Cost("combine", bucket)
            self._compute("combine", "combine", cost, after=after, meets=not bucket, ready=ready, bucket=bucket)

    def forward_layer_by_layer(self) -> None:
        """The forward pass of the next iteration, and its passes up to the last backward pass.

        Each layer waits for its own parameters only, and, where the host calls hooks, for that of its module; then it
        is combined, updated and computed.
        """
        ready, covers = self.last, self.shape.covers()
        hooked = self._hooks(covers)
        for layer, buckets in enumerate(covers):
            after = hooked.get(layer) or tuple(self._arrival(bucket) for bucket in buckets)
            self._compute("combine", "combine", Cost("layer_combine", layer), after=after, ready=ready, layer=layer)
            self._compute("update", "update", Cost("layer_update", layer), layer=layer)
            cost = Cost("layer_forward", layer, pace="early")
            self._compute("forward", "forward", cost, slowed="own", layer=layer)
        self._passes(1)

    def local_steps(self, steps: int) -> None:
        """So many steps of training without communication between workers, each with its own update."""
        if steps:
            self._compute(WAIT_DATA, "idle", Cost("load", times=steps), slowed="steps")
            forward, backward = Cost("steps_forward", 0, steps, "early"), Cost("steps_backward", 0, steps, "steps")
            self._compute("forward", "forward", forward, slowed="stretched")
            self._compute("backward", "backward", backward, slowed="stretched")
            self._compute("update", "update", Cost("update", times=steps))
            for term in TERMS_INSIDE if self.shape.inside else ():
                self._compute(f"{TERM_LABELS[term]} inside a site", term, Cost(f"steps_{term}", times=steps))
            self.steps += steps

    def send(self, fragment: int, *, together: bool) -> None:
        """Select from a fragment's buckets and start their exchanges: when all workers are there, or each by itself."""
        buckets = self._buckets_of(fragment)
        for bucket in buckets:
            self._select(bucket, "")
        for bucket in buckets:
            self._exchange(bucket, 0, (self.last,), queue=0, turn=self.shape.turns[bucket], together=together)

    def receive(self, fragment: int, *, earlier: bool, together: bool) -> None:
        """Wait for the exchanges of a fragment's buckets, those of the period before if `earlier`; then the outer step.

        What a worker waits for while another one still computes is a wait for that one, where they wait `together`.
        """
        ready, buckets = self.last if together else -1, self._buckets_of(fragment)
        for bucket in buckets:
            # Which task an earlier exchange is, is known once all are written down.
            after, before = ((), (bucket,)) if earlier else ((self._arrival(bucket),), ())
            cost = Cost("combine", bucket)
            self._compute("combine", "combine", cost, after=after, earlier=before, ready=ready, bucket=bucket)
        outer = Cost("outer", fragment)
        before = (buckets[0],) if earlier else ()
        self._compute("update", "update", outer, earlier=before, bucket=buckets[0])
        if self.shape.inside:
            label, cost = "AllGather inside a site", Cost("inside", fragment)
            self._compute(label, "communication_exposed", cost, earlier=before, bucket=buckets[0])

    def end_period(self, period: Period) -> None:
        """The period ends; compute that is left over in it has its local steps as well."""
        self.local_steps(period.steps - self.steps)
        self.together, self.crosses = period.together, period.crosses

    def gather(self, units: Sequence[int], *, in_nodes: bool = False) -> None:
        """Gather the parameters of units from the GPUs that share them, once the compute so far has ended.

        `in_nodes`: from a second copy that the GPUs of each node share.
        """
        for unit in units:
            self.gathers[unit] = self._share(Cost("gather_in_nodes" if in_nodes else "gather", unit), unit)

    def forward_unit(self, unit: int) -> None:
        """The forward pass of a unit, once its parameters are there."""
        self._open(unit)
        cost = Cost("unit_forward", unit, pace="early")
        self._compute("forward", "forward", cost, slowed="front", bucket=unit)
        self._do_jointly(Cost("joint_forward", unit), unit)

    def backward_unit(self, unit: int) -> None:
        """The backward pass of a unit, once its parameters are there."""
        self._open(unit)
        cost = Cost("first_backward" if self.first_pass else "backward", unit, pace="backward")
        self._compute("backward", "backward", cost, slowed="front", bucket=unit)
        self._do_jointly(Cost("joint_backward", unit), unit)

    def reduce(self, unit: int, *, exchanged: bool, in_turn: bool = True) -> None:
        """Reduce and scatter the gradients of a unit, copied to one buffer once the reduction before has ended.

        `exchanged`: each GPU then exchanges its part with its peers in other groups. Unless reductions go `in_turn`,
        compute does not wait for the one before.
        """
        if in_turn:
            self.end_reductions(Cost("copy_into", unit), unit)
        place = self.exchanges[unit, 0] = self._share(Cost("reduce", unit), unit)
        self.reductions.append((place, exchanged))

    def end_reductions(self, cost: Cost = NOTHING, unit: int = -1) -> None:
        """Wait for the reduction under way, and exchange what it has left; then copy what the next one needs."""
        under_way, self.reductions = self.reductions, []
        after = tuple(place for place, _ in under_way)
        self._copy(cost, after, unit)
        for place, exchanged in under_way:
            bucket = self.tasks[place].bucket
            if exchanged and self.shape.exists[bucket]:
                self._select(bucket, "front")
                self.exchange(bucket)

    def end_gathers(self) -> None:
        """Wait for all gathers that have been started, and copy what has arrived."""
        for unit in tuple(self.gathers):
            self._open(unit)

    def graph(self) -> Graph:
        """What has been written down."""
        of_bucket = {bucket: place for (bucket, half), place in self.exchanges.items() if not half}
        tasks = (
            replace(task, earlier=tuple(of_bucket[bucket] for bucket in task.earlier)) if task.earlier else task
            for task in self.tasks
        )
        return Graph(tuple(tasks), tuple(self.queues), self.steps > 0, self.together, self.crosses)

    def _open(self, unit: int) -> None:
        """Wait for the gather of a unit that has been started, and copy the parameters to their places."""
        if (place := self.gathers.pop(unit, None)) is not None:
            cost = Cost("copy_out", unit)
            self._copy(cost, (place,), unit)

    def _copy(self, cost: Cost, after: tuple[int, ...], unit: int) -> None:
        """Copy parameters or gradients once collectives have ended, which began when all workers had come so far."""
        ready = max((self.tasks[place].after[-1] for place in after), default=-1)
        self._compute("copies of shards", "combine", cost, after=after, ready=ready, slowed="front", bucket=unit)

    def _share(self, cost: Cost, unit: int, axis: str = SHARD) -> int:
        """A collective among the GPUs of an axis that are not the workers, which have a communicator of their own."""
        if axis not in self.axes:
            self.axes[axis] = len(self.queues), 0
            self.queues.append(Queue(axis=axis))
        queue, turn = self.axes[axis]
        self.axes[axis] = queue, turn + 1
        made = self._repeated(cost)
        task = Task(COMMUNICATION, "", made, after=(self.last,), meets=True, bucket=unit, queue=queue, turn=turn)
        self.tasks.append(replace(task, sends=self.shape.shares or axis != SHARD))
        return len(self.tasks) - 1

    def _do_jointly(self, cost: Cost, unit: int) -> None:
        """What the GPUs that divide layers do together in these layers, for which their compute waits."""
        if self.shape.joint:
            self._copy(NOTHING, (self._share(cost, unit, LAYERS),), unit)

    def _alike(self, count: int) -> Sequence[int]:
        return [1, count - 2, 1] if count > MOST_MICRO_BATCHES and not self.shape.live else [1] * count

    def _repeated(self, cost: Cost) -> Cost:
        return cost if self.times == 1 else replace(cost, times=cost.times * self.times)

    def _buckets_of(self, fragment: int) -> list[int]:
        made = [bucket.index for bucket in self.shape.buckets if bucket.fragment == fragment]
        if not made:
            last = max(bucket.fragment for bucket in self.shape.buckets)
            raise expected(f"a fragment from 0 to {last}, as `plan` numbers them", format_value(fragment))
        return made

    def _passes(self, first: int) -> None:
        """The passes from number `first` up to the last backward pass: forward, backward, forward, ..."""
        later = self.shape.passes - 1
        every = [(number, 1) for number in range(2 * later + 1)]
        if len(every) > MOST_PASSES:
            every = [(0, 1), (1, 1), (3, later - 1), (2, later)]
        for number, times in every[first:]:
            self._pass(number, times)

    def _pass(self, number: int, times: int = 1) -> None:
        """A whole pass; all after the first forward and the first backward pass are alike."""
        term = "backward" if number % 2 else "forward"
        self._compute(term, term, Cost("pass", number if number < 2 else 2 + number % 2, times, "early"))
        if self.shape.joint:
            self._do_jointly(Cost(f"joint_{term}s", times=times), 0)

    def _gradient(self, bucket: int, slowed: Slowing) -> None:
        cost = Cost("backward", bucket, pace="backward")
        self._compute("backward", "backward", cost, slowed=slowed, bucket=bucket)
        self._do_jointly(Cost("joint_backward", bucket), bucket)

    def _select(self, bucket: int, slowed: Slowing) -> None:
        cost = Cost("selection", bucket, pace="selection")
        self._compute("selection", "selection", cost, slowed=slowed, bucket=bucket)
        self.ready.add(bucket)

    def _exchange(
        self, bucket: int, half: int, after: tuple[int, ...], *, queue: int, turn: int, together: bool = True
    ) -> None:
        self.exchanges[bucket, half] = len(self.tasks)
        cost = Cost("second" if half else "exchange", bucket)
        priority, sends = self._first_layer(bucket), bool(half) or self.shape.exists[bucket]
        task = Task(COMMUNICATION, "", self._repeated(cost), after=after, meets=together, bucket=bucket)
        self.tasks.append(replace(task, queue=queue, turn=turn, half=half, priority=priority, sends=sends))

    def _hooks(self, covers: Sequence[Sequence[int]]) -> dict[int, tuple[int, ...]]:
        """The hook that each layer waits for; each follows the one before, and waits for its module's parameters."""
        made: dict[int, tuple[int, ...]] = {}
        for low, high in pairwise([*self.shape.modules, len(covers)]) if self.shape.modules else ():
            buckets = dict.fromkeys(bucket for layer in range(low, high) for bucket in covers[layer])
            after = tuple(self._arrival(bucket) for bucket in buckets)
            made |= dict.fromkeys(range(low, high), (len(self.tasks),))
            self.tasks.append(Task(HOST, "hook", Cost("hook"), after=after))
        return made

    def _arrival(self, bucket: int) -> int:
        """The task with which a bucket has arrived. Raises an expected-error where nothing sends it before."""
        half = 1 if self.shape.halves[bucket] else 0
        place = self.exchanges.get((bucket, half))
        if place is None:
            call = "`gather_all`, since exchanges are split in two," if half else f"an exchange of bucket {bucket}"
            raise expected(f"{call} before what it brings is used", "none")
        return place

    def _first_layer(self, bucket: int) -> int:
        return min(self.shape.buckets[bucket].layers)

    def _compute(
        self,
        label: str,
        term: str,
        cost: Cost,
        *,
        after: tuple[int, ...] = (),
        earlier: tuple[int, ...] = (),
        meets: bool = False,
        ready: int = -1,
        slowed: Slowing = "",
        bucket: int = -1,
        layer: int = -1,
    ) -> None:
        self.last = len(self.tasks)
        task = Task(COMPUTE, label, self._repeated(cost), term, after, earlier, meets, ready, slowed, bucket, layer)
        self.tasks.append(task)
