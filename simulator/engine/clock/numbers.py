"""The seconds of a graph's tasks: one line for each iteration, and in it one column for each worker that differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from simulator.engine.clock.draws import Draws, foremost_workers
from simulator.engine.plan.plan import Plan
from simulator.models.curves import Floats
from simulator.models.graph import Graph
from simulator.records import Struct
from simulator.schedulers.step import MOST_PASSES

Point = tuple[Plan, Draws]
"""One iteration of a plan, and how its workers differ in it."""
Seconds: TypeAlias = "float | Floats"
"""Seconds of one iteration in which all workers are alike; or (n, 1) or (n, w), of n iterations with w workers each."""


class Numbers(Struct, eq=False):
    """What n iterations of one graph differ in.

    `costs`: seconds of each task by its place, before workers differ. `compute`, `selection` (n, w): their draws; None
    where all are alike. `weights` (n, w): the share of each of them in the mean over workers. `cycle`, `launch`,
    `slowdown`: of the runtime. `chains`: for each half the seconds (n, b, s) of the stages of every exchange.
    """

    points: Sequence[Point]
    costs: list[Seconds]
    compute: Floats | None
    selection: Floats
    weights: Floats
    cycle: Seconds
    launch: Seconds
    slowdown: Seconds
    chains: tuple[Floats, Floats]

    @property
    def plan(self) -> Plan:
        """The plan of the first iteration."""
        return self.points[0][0]

    @property
    def is_scalar(self) -> bool:
        """Whether it is a single iteration of workers that are alike: its times are plain numbers."""
        return len(self.points) == 1 and self.compute is None

    def of(self, graph: Graph, place: int) -> Seconds:
        """The seconds of a task, (n, w) where workers differ in it."""
        cost = graph.tasks[place].cost
        if self.compute is None or cost.pace == "common":
            return self.costs[place]
        if cost.pace == "selection":
            seconds, spread = (
                np.array([getattr(plan, name)[:, cost.index] for plan, _ in self.points])
                for name in ("selection", "selection_spread")
            )
            # A kernel can be slow without bound but not free: the normal spread is cut at half of its time.
            return np.asarray(np.maximum(seconds + self.selection * spread, seconds / 2))
        paces = [_pace(plan, cost.pace, cost.index) for plan, _ in self.points]
        return np.asarray(self.costs[place] * (self.compute * np.array(paces)))

    def mean(self, values: Seconds) -> Seconds:
        """The mean over workers: a number, or (n, 1)."""
        if self.compute is None or isinstance(values, float) or values.shape[1] == 1:
            return values
        return np.asarray((values * self.weights).sum(axis=1, keepdims=True))


def front_of(times: Seconds) -> Seconds:
    """The latest of all workers: a number, or (n, 1)."""
    return times if isinstance(times, float) else times.max(axis=1, keepdims=True)


def later_of(one: Seconds, other: Seconds) -> Seconds:
    """The later of two times, worker by worker."""
    if isinstance(one, float) and isinstance(other, float):
        return max(one, other)
    return np.maximum(one, other)


def earlier_of(one: Seconds, other: Seconds) -> Seconds:
    """The earlier of two times, worker by worker."""
    if isinstance(one, float) and isinstance(other, float):
        return min(one, other)
    return np.minimum(one, other)


def number_tasks(graph: Graph, points: Sequence[Point], *, every: bool = False) -> Numbers:
    """The numbers of iterations that have a graph in common.

    Where workers meet before anything else depends on them, only those that can be the slowest are followed, and their
    mean; with `every` all are.
    """
    plans = [plan for plan, _ in points]
    chains = chain_seconds(plans, 0), chain_seconds(plans, 1)
    vectors = [_vectors(plan, graph, [half[number] for half in chains]) for number, plan in enumerate(plans)]
    lengths = [len(vectors[0][name]) for name in graph.costs]
    first = dict(zip(graph.costs, np.cumsum([0, *lengths[:-1]]).tolist(), strict=True))
    which = np.array([first[task.cost.name] + task.cost.index for task in graph.tasks])
    times = np.array([float(task.cost.times) for task in graph.tasks])
    table = times * np.array([np.concatenate([each[name] for name in graph.costs]) for each in vectors])[:, which]
    runtimes = [plan.runtime for plan in plans]
    columns = [
        np.array([[value] for value in values])
        for values in (
            [each.cycle_time for each in runtimes],
            [each.collective_launch for each in runtimes],
            [plan.slowdown if plan.overlap or plan.period else 0.0 for plan in plans],
        )
    ]
    alike = all(len(draws.compute) == 1 and plan.pace.size == 1 and len(plan.selection) == 1 for plan, draws in points)
    if alike and all(draws.compute[0] == 1 and not draws.selection[0] for _, draws in points):
        if len(points) == 1:
            few = [float(column[0, 0]) for column in columns]
            return Numbers(points, table[0].tolist(), None, np.zeros((1, 1)), np.ones((1, 1)), *few, chains)
        return Numbers(points, [*table.T[:, :, None]], None, np.zeros((1, 1)), np.ones((1, 1)), *columns, chains)
    rows = [_rows(plan, draws, followed=not every and follows_foremost(graph, plan, draws)) for plan, draws in points]
    widest = max(len(each[0]) for each in rows)
    compute, selection, weights = (
        np.array([np.concatenate([each[part][:1].repeat(widest - len(each[part])), each[part]]) for each in rows])
        for part in range(3)
    )
    for number, each in enumerate(rows):
        weights[number, : widest - len(each[0])] = 0.0
    return Numbers(points, [*table.T[:, :, None]], compute, selection, weights, *columns, chains)


def follows_foremost(graph: Graph, plan: Plan, draws: Draws) -> bool:
    """Whether only the foremost workers are followed: all times are linear in a worker's two draws."""
    if not graph.meets_last or plan.slowdown or plan.own_pace or len(draws.compute) < 3 or len(plan.pace) > 1:
        return False
    return bool((float(draws.selection.min()) * plan.selection_spread >= -plan.selection / 2).all())


def _rows(plan: Plan, draws: Draws, *, followed: bool) -> tuple[Floats, Floats, Floats]:
    """Both draws of the workers that are followed, and their weights in the mean: all workers, or the foremost and
    their mean, which is never ahead of all of these."""
    if not followed:
        count = max(len(draws.compute), len(plan.pace), len(plan.selection))
        compute, selection = (np.broadcast_to(each, count) for each in (draws.compute, draws.selection))
        return compute, selection, np.full(count, 1.0 / count)
    few = foremost_workers(draws.compute, draws.selection)
    compute, selection = (
        np.append(each[few], each.mean()) for each in (draws.compute, draws.selection)
    )
    return compute, selection, np.append(np.zeros(len(few)), 1.0)


def _pace(plan: Plan, pace: str, index: int) -> Floats:
    """The factor of each worker on a cost, (w,) or (1,), before its draw."""
    work, early = plan.work, plan.pace[:, 0]
    if pace == "early":
        return early
    if pace == "backward":
        return plan.pace[:, min(1 + index, plan.pace.shape[1] - 1)]
    last = plan.pace[:, -len(work.backward) :]
    whole = work.passes.earlier_backward + float(work.backward.sum())
    own = early * work.passes.earlier_backward + (last * work.backward).sum(axis=1)
    return np.asarray(own / whole if whole else np.ones_like(own))


def _vectors(plan: Plan, graph: Graph, chains: Sequence[Floats]) -> Mapping[str, Floats]:
    """The seconds of all costs that a graph names."""
    work, wanted = plan.work, set(graph.costs)
    made = {
        "load": np.array([work.input_time]),
        "pass": np.array(_passes(plan)),
        "backward": work.backward,
        "selection": plan.selection[0],
        "combine": work.combine,
        "update": np.array([work.update]),
        "exchange": chains[0].sum(axis=1),
        "second": chains[1].sum(axis=1),
        "hook": np.array([plan.runtime.forward_hook]),
    }
    if "layer_forward" in wanted:
        made["layer_forward"], made["layer_update"] = work.layer_forward, work.update_shares()
        made["layer_combine"] = work.per_layer(work.combine)
    if graph.periodic:
        made["steps_forward"] = np.array([work.forward])
        made["steps_backward"] = np.array([work.passes.earlier_backward + float(work.backward.sum())])
        fragments = [bucket.fragment for bucket in work.buckets]
        made["outer"] = np.bincount(fragments, weights=work.outer) if len(work.outer) else np.zeros(max(fragments) + 1)
    return made


def _passes(plan: Plan) -> list[float]:
    """Seconds of the passes up to the last backward pass: forward, backward, forward, ...; of many, three sums."""
    passes = plan.work.passes
    if 2 * passes.count - 1 > MOST_PASSES:
        return [passes.first[0], passes.earlier_backward, (passes.count - 1) * passes.later[0]]
    return [passes.first[0], *(seconds for _, seconds in passes.between())]


def chain_seconds(plans: Sequence[Plan], half: int) -> Floats:
    """The seconds (n, b, s) of the stages of every exchange, 0 where there is none."""
    if any(plan.live for plan in plans):  # the clock finds them
        return np.zeros((len(plans), len(plans[0].order), 0))
    if half:
        exchanges = [plan.second_halves for plan in plans]
        most = max((len(stages) for each in exchanges for stages in each), default=0)
        made = np.zeros((len(plans), len(exchanges[0]), most))
        for number, each in enumerate(exchanges):
            for bucket, stages in enumerate(each):
                made[number, bucket, : len(stages)] = [stage.seconds for stage in stages]
        return made
    tables = [plan.prepared.chain_table for plan in plans]
    made = np.zeros((len(plans), len(tables[0].fixed), max(table.fixed.shape[1] for table in tables)))
    same: dict[int, list[int]] = {}
    for number, table in enumerate(tables):
        same.setdefault(id(table), []).append(number)
    for numbers in same.values():
        table = tables[numbers[0]]
        priced = np.array([plans[number].prices.seconds for number in numbers])
        made[numbers, :, : table.fixed.shape[1]] = table.seconds(priced)
    return made
