"""The seconds of a graph's tasks: one line for each iteration, and in it one column for each worker that differs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from simulator.engine.plan.plan import Plan
from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.models.graph import EXCHANGES, Graph, Pace
from simulator.models.linear_algebra import weigh
from simulator.records import Record, Struct
from simulator.schedulers.step import TERMS_INSIDE


class Draws(Record):
    """How the workers differ in one iteration: compute factors (p,) and standard normal draws of the selection (p,)."""

    compute: Floats
    selection: Floats


ALIKE = Draws(np.ones(1), np.zeros(1))
"""All workers are alike, so that one stands for all."""


def foremost_workers(compute: Floats, selection: Floats) -> Ints:
    """Indices of the workers that no other worker exceeds in both draws; the slowest at any time is among them."""
    # Most are behind one that is far ahead in both, which is cheaper to see than their order.
    first = int(np.argmax(_from_0_to_1(compute) + _from_0_to_1(selection)))
    behind = (compute <= compute[first]) & (selection <= selection[first])
    behind &= (compute < compute[first]) | (selection < selection[first])
    left = np.flatnonzero(~behind)
    compute, selection = compute[left], selection[left]
    order = np.lexsort((-selection, -compute))
    ahead = np.maximum.accumulate(selection[order])
    keep = np.ones(len(order), dtype=bool)
    keep[1:] = selection[order][1:] > ahead[:-1]
    return left[order[keep]]


def _from_0_to_1(values: Floats) -> Floats:
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.zeros_like(values)


Point = tuple[Plan, Draws]
"""One iteration of a plan, and how its workers differ in it."""
Seconds: TypeAlias = "float | Floats"
"""Seconds of one iteration in which all workers are alike; or (n, 1) or (n, w), of n iterations with w workers each."""


class Numbers(Struct, eq=False):
    """What n iterations of one graph differ in.

    `costs`: seconds of each task by its place, before workers differ. `workers`: how they differ; None where all are
    alike. `cycle`, `launch`, `slowdown`: of the runtime. `exchanging` (n,): seconds of all exchanges that have a
    price, and `collective` (n,) of the collectives in them.
    """

    points: Sequence[Point]
    costs: list[Seconds]
    workers: UnlikeWorkers | None
    cycle: Seconds
    launch: Seconds
    slowdown: Seconds
    exchanging: Floats
    collective: Floats

    @property
    def plan(self) -> Plan:
        """The plan of the first iteration."""
        return self.points[0][0]

    @property
    def is_scalar(self) -> bool:
        """Whether it is a single iteration of workers that are alike: its times are plain numbers."""
        return len(self.points) == 1 and self.workers is None

    @property
    def later(self) -> Callable[[Seconds, Seconds], Seconds]:
        """The function that gives the later of two times, worker by worker."""
        return max if self.is_scalar else np.maximum

    @property
    def earlier(self) -> Callable[[Seconds, Seconds], Seconds]:
        """The function that gives the earlier of two times, worker by worker."""
        return min if self.is_scalar else np.minimum

    def of(self, graph: Graph, place: int) -> Seconds:
        """The seconds of a task, (n, w) where workers differ in it."""
        cost, base = graph.tasks[place].cost, self.costs[place]
        if self.workers is None or cost.pace == "common" or isinstance(base, float):
            return base
        return self.workers.seconds(base, cost.pace, cost.index)

    def mean(self, values: Seconds) -> Seconds:
        """The mean over workers: a number, or (..., 1); of equal values that value, to the last digit."""
        if self.workers is None or isinstance(values, float) or values.shape[-1] == 1:
            return values
        one = values[..., -1:]
        return np.asarray(one + ((values - one) * self.workers.weights).sum(axis=-1, keepdims=True))


class UnlikeWorkers(Struct, eq=False):
    """How the workers of n iterations differ: their draws (n, w), and their shares of the mean over workers (n, w).

    `pace` (n, w or 1, c): factors on compute, one for each iteration or also for each part of the last backward pass;
    None where all are 1. `steps`: the same on the backward passes of local steps (n, w or 1). `chosen`, `spread`
    (n, w or 1, b): seconds of the selections, and their standard deviations.
    """

    compute: Floats
    selection: Floats
    weights: Floats
    pace: Floats | None
    steps: Floats | None
    chosen: Floats
    spread: Floats

    def seconds(self, base: Floats, pace: Pace, index: int) -> Floats:
        """The seconds of each worker (n, w) for a cost whose seconds at an even pace are `base` (n, 1)."""
        if pace == "selection":
            seconds, spread = self.chosen[:, :, index], self.spread[:, :, index]
            # A kernel can be slow without bound but not free: the normal spread is cut at half of its time.
            return np.asarray(np.maximum(seconds + self.selection * spread, seconds / 2))
        factor = self.compute
        if pace == "steps" and self.steps is not None:
            factor = factor * self.steps
        elif self.pace is not None:
            factor = factor * self.pace[:, :, 0 if pace == "early" else min(1 + index, self.pace.shape[2] - 1)]
        return np.asarray(base * factor)


def are_unlike(plan: Plan, draws: Draws) -> bool:
    """Whether workers differ, so that times are not plain numbers also where a point runs by itself."""
    pace, selection = plan.work.pace, plan.work.selection
    return draws is not ALIKE or pace.size > 1 or bool(pace[0, 0] != 1) or len(selection) > 1


def first_of(times: Seconds) -> float:
    """The time of the first worker of the first iteration."""
    return times if isinstance(times, float) else float(times[0, 0])


def column_of(values: Seconds, count: int) -> list[float]:
    """The value of each of so many iterations."""
    if isinstance(values, float):
        return [values] * count
    made: list[float] = np.broadcast_to(np.ravel(values), count).tolist()
    return made


def front_of(times: Seconds) -> Seconds:
    """The latest of all workers: a number, or (n, 1)."""
    return times if isinstance(times, float) else times.max(axis=1, keepdims=True)


def latest(times: Seconds) -> float:
    """The latest time of all."""
    return times if isinstance(times, float) else float(times.max())


def later_of(one: Seconds, other: Seconds) -> Seconds:
    """The later of two times, worker by worker."""
    if isinstance(one, float) and isinstance(other, float):
        return max(one, other)
    return np.maximum(one, other)


def sum_in_order(values: Floats) -> Floats:
    """Sums over the last axis, from the first entry to the last: zeros behind them, and neighbours, change no digit."""
    made = np.zeros(values.shape[:-1])
    for place in range(values.shape[-1]):
        made += values[..., place]
    return made


def number_tasks(graph: Graph, points: Sequence[Point], foremost: Sequence[bool] = ()) -> Numbers:
    """The numbers of iterations that have a graph in common.

    `foremost`: for each of them whether only those workers are followed that can be the slowest, and their mean;
    otherwise all are.
    """
    known = {id(plan): plan for plan, _ in points}
    plans, number = [*known.values()], {key: place for place, key in enumerate(known)}
    of_plan = np.array([number[id(plan)] for plan, _ in points])
    halves = [[sum_in_order(stages) for stages in chain_seconds(graph, plans, half)] for half in (0, 1)]
    vectors = [_vectors(plan, graph, [seconds[place] for seconds, _ in halves]) for place, plan in enumerate(plans)]
    columns = np.concatenate([np.array([each[name] for each in vectors]) for name in graph.costs], axis=1)
    kind, index, times = graph.cost_places
    first = np.cumsum([0, *(len(vectors[0][name]) for name in graph.costs[:-1])])
    table = (times * columns[:, first[kind] + index])[of_plan]
    cycle, launch, slowdown = (
        np.array(values)[of_plan, None]
        for values in (
            [plan.setup.cycle for plan in plans],
            [plan.setup.runtime.collective_launch for plan in plans],
            [plan.slowdown if plan.setup.scheduler.overlap or plan.period else 0.0 for plan in plans],
        )
    )
    calls = [graph.calls[name] for name in EXCHANGES]
    shared = np.array([_spent_on_axes(plan, graph) for plan in plans]).T
    whole, collective = (
        ((calls[0] * halves[0][part] + calls[1] * halves[1][part]).sum(axis=1) + shared[part])[of_plan]
        for part in (0, 1)
    )
    workers: UnlikeWorkers | None = None
    if any(are_unlike(*point) for point in points):
        workers = _differ(graph, points, plans, of_plan, foremost)
    if workers is None and len(points) == 1:
        first_cycle, first_launch, first_slowdown = (float(rule[0, 0]) for rule in (cycle, launch, slowdown))
        costs = table[0].tolist()
        return Numbers(points, costs, None, first_cycle, first_launch, first_slowdown, whole, collective)
    return Numbers(points, [*table.T[:, :, None]], workers, cycle, launch, slowdown, whole, collective)


def _differ(
    graph: Graph, points: Sequence[Point], plans: Sequence[Plan], of_plan: Ints, foremost: Sequence[bool]
) -> UnlikeWorkers:
    """How the workers of these iterations differ."""
    few = foremost or [False] * len(points)
    rows = [_rows(plan, draws, followed=each) for (plan, draws), each in zip(points, few, strict=True)]
    # Only those of the foremost are unlike in number: the first of them, which fills a row up, has no weight.
    widest = max(len(each[0]) for each in rows)
    compute, selection, weights = (
        np.array([np.concatenate([each[part][:1].repeat(widest - len(each[part])), each[part]]) for each in rows])
        for part in range(3)
    )
    pace: Floats | None = np.array([plan.work.pace for plan in plans])[of_plan]
    steps: Floats | None = None
    if graph.periodic:
        steps = np.array([_pace_of_steps(plan) for plan in plans])[of_plan]
    elif bool(np.all(pace == 1)):
        pace = None
    chosen, spread = (
        np.array([getattr(plan.work, name) for plan in plans])[of_plan] for name in ("selection", "selection_spread")
    )
    return UnlikeWorkers(compute, selection, weights, pace, steps, chosen, spread)


def foremost_are_enough(graph: Graph, plan: Plan, draws: Draws) -> bool:
    """Whether only the foremost workers need be followed: they all meet before anything else depends on them, and their
    times are linear in their two draws."""
    if not graph.meets_last or plan.slowdown or plan.own_pace or len(draws.compute) < 3 or len(plan.work.pace) > 1:
        return False
    return bool((float(draws.selection.min()) * plan.work.selection_spread >= -plan.work.selection / 2).all())


def _rows(plan: Plan, draws: Draws, *, followed: bool) -> tuple[Floats, Floats, Floats]:
    """Both draws of the workers that are followed, and their weights in the mean: all workers, or the foremost and
    their mean, which is never ahead of all of these."""
    if not followed:
        count = max(len(draws.compute), len(plan.work.pace), len(plan.work.selection))
        compute, selection = (np.broadcast_to(each, count) for each in (draws.compute, draws.selection))
        return compute, selection, np.full(count, 1.0 / count)
    few = foremost_workers(draws.compute, draws.selection)
    compute, selection = (np.append(each[few], each.mean()) for each in (draws.compute, draws.selection))
    return compute, selection, np.append(np.zeros(len(few)), 1.0)


def _pace_of_steps(plan: Plan) -> Floats:
    """The factor of each worker (w,) or (1,) on all backward passes of a local step, before its draw."""
    work, early, last = plan.work, plan.work.pace[:, 0], plan.work.pace[:, -len(plan.work.backward) :]
    whole = work.passes.earlier_backward + float(work.backward.sum())
    own = early * work.passes.earlier_backward + (last * work.backward).sum(axis=1)
    return np.asarray(own / whole if whole else np.ones_like(own))


def _vectors(plan: Plan, graph: Graph, exchanges: Sequence[Floats]) -> Mapping[str, Floats]:
    """The seconds of all costs that a graph names; `exchanges` (b,): of all exchanges, and of their second halves."""
    work, wanted = plan.work, set(graph.costs)
    made = {
        "load": np.array([work.input_time]),
        "pass": np.array([*work.passes.first, *work.passes.later]),
        "backward": work.backward,
        "selection": plan.work.selection[0],
        "combine": work.combine,
        "update": np.array([work.update]),
        "exchange": exchanges[0],
        "second": exchanges[1],
        "hook": np.array([plan.setup.runtime.forward_hook]),
        "nothing": np.zeros(1),
    }
    if "layer_forward" in wanted:
        made["layer_forward"] = work.layer_forward
        made["layer_update"] = work.update * work.layer_numel / work.layer_numel.sum()
        # A layer combines the buckets that it is the first one to need.
        made["layer_combine"] = np.bincount(work.priority, weights=work.combine, minlength=len(work.layer_forward))
    for part in plan.axis_parts:
        made[part.name] = made.get(part.name, 0.0) + part.seconds
    made["stages"] = np.array([plan.bubble.seconds])
    if (shared := work.shared) is not None:
        made["unit_forward"], made["first_backward"] = shared.forward, shared.first_backward
        made["copy_out"], made["copy_into"] = shared.copy_out, shared.copy_into
    if graph.periodic:
        made["steps_forward"] = np.array([work.passes.forward])
        made["steps_backward"] = np.array([work.passes.earlier_backward + float(work.backward.sum())])
        fragments = [bucket.fragment for bucket in work.buckets]
        made["outer"] = np.bincount(fragments, weights=work.outer) if len(work.outer) else np.zeros(max(fragments) + 1)
        if (inside := plan.inside) is not None:
            terms = inside.step.breakdown
            made |= {f"steps_{term}": np.array([terms[term]]) for term in ("forward", "backward", *TERMS_INSIDE)}
            made["load"] = made["load"] + terms["idle"] - inside.plan.work.input_time
            made["inside"] = np.bincount(fragments, weights=inside.gathers.seconds)
    return made


def _spent_on_axes(plan: Plan, graph: Graph) -> tuple[float, float]:
    """Seconds of all collectives among GPUs that are not the workers, and of these without kernels."""
    spent = [
        (weigh(graph.calls[part.name][: len(part.seconds)].astype(float), part.seconds), part)
        for part in plan.axis_parts
        if part.name in graph.calls
    ]
    return math.fsum(each for each, _ in spent), math.fsum(each for each, part in spent if part.steps)


def chain_seconds(graph: Graph, plans: Sequence[Plan], half: int) -> tuple[Floats, Floats]:
    """The seconds (n, b, s) of the stages of every exchange, 0 where there is none; and those of collectives alone."""
    if plans[0].live or (half and not graph.halves):  # the clock finds them, or there are none
        nothing = np.zeros((len(plans), len(plans[0].work.order), 0))
        return nothing, nothing
    tables = [plan.work.tables[half] for plan in plans]
    made = np.zeros((len(plans), len(tables[0].fixed), max(table.fixed.shape[1] for table in tables)))
    collective = np.zeros_like(made)
    same: dict[int, list[int]] = {}
    for number, table in enumerate(tables):
        same.setdefault(id(table), []).append(number)
    for numbers in same.values():
        fixed, step = tables[numbers[0]]
        # Step -1, of kernels, is the 0 at the end.
        calls = np.array([[*(plans[n].prices.seconds + plans[n].work.software), 0.0] for n in numbers])
        collective[numbers, :, : fixed.shape[1]] = calls[:, step]
        made[numbers, :, : fixed.shape[1]] = calls[:, step] + fixed
    return made, collective
