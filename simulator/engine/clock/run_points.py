"""Iterations of many plans: those of one graph side by side, all others one by one, on the clock where it has to be."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from simulator.engine.clock.draws import ALIKE, Draws
from simulator.engine.clock.evaluate import evaluate
from simulator.engine.clock.intervals import Intervals, State
from simulator.engine.clock.numbers import Point, follows_foremost, number_tasks
from simulator.engine.clock.spans import spans_of_slowest, spans_of_worker
from simulator.engine.clock.terms import account, computed_at
from simulator.engine.plan.plan import Plan
from simulator.models.graph import Graph
from simulator.models.small_cache import ResultsOfObjects
from simulator.models.timeline import Iteration
from simulator.schedulers.step import Shape, Step

_MOST_NUMBERS = 2**20
"""Workers times tasks of iterations that run side by side."""
_graphs: ResultsOfObjects[Graph] = ResultsOfObjects(256)


def graph_of(plan: Plan) -> Graph:
    """The graph of a plan's iteration, or of a period of its local steps; shared by all plans of the same structure."""
    work, scheduler = plan.work, plan.scheduler
    exists, halves = (tuple(map(bool, chains)) for chains in (work.chains, work.halves))
    hooks = plan.runtime.forward_hook > 0
    alone = plan.wiring.layout.workers == 1

    def make() -> Graph:
        modules = tuple(np.flatnonzero(work.begins_module).tolist()) if hooks else ()
        turns = [0] * len(plan.order)
        for turn, bucket in enumerate(plan.order):
            turns[bucket] = turn
        shape = Shape(
            work.buckets, len(work.layer_forward), work.passes.count, tuple(turns), exists, halves, modules, alone
        )
        step = Step(shape, scheduler.queue)
        scheduler.lay_out(step)
        return step.graph()

    named = type(scheduler), scheduler.fingerprint, alone, hooks
    return _graphs.get((work.buckets,), make, exists, halves, work.passes.count, tuple(plan.order), *named)


def run_points(points: Sequence[Point]) -> list[Iteration]:
    """Iterations, each by itself. Raises Stalled where an exchange never ends."""
    made: dict[int, Iteration] = {}
    groups: dict[Hashable, list[int]] = {}
    graphs = [graph_of(plan) for plan, _ in points]
    for number, (point, graph) in enumerate(zip(points, graphs, strict=True)):
        groups.setdefault(_kind(graph, point, number), []).append(number)
    for numbers in groups.values():
        graph = graphs[numbers[0]]
        for some in _in_parts(graph, numbers, points):
            every = [points[number] for number in some]
            made |= zip(some, _run_together(graph, every), strict=True)
    return [made[number] for number in range(len(points))]


def run_point(plan: Plan, draws: Draws = ALIKE) -> Iteration:
    """One iteration by itself. Raises Stalled where an exchange never ends."""
    return run_points([(plan, draws)])[0]


def needs_clock(graph: Graph, plan: Plan) -> bool:
    """Whether exchanges have to be followed event by event: they share links, or compute that they slow down decides
    which of them goes first."""
    return plan.live or bool(plan.slowdown and plan.overlap and not graph.in_turn)


def _run_together(graph: Graph, points: Sequence[Point]) -> list[Iteration]:
    if needs_clock(graph, points[0][0]):
        from simulator.engine.clock.iterations import simulate  # brings SimPy and the event loop

        return [simulate(*point) for point in points]
    if graph.periodic:
        return [made for plan, draws in points for made in run_periods(graph, plan, [draws])]
    made = account(evaluate(graph, number_tasks(graph, points)))
    for iteration, point in zip(made, points, strict=True):
        add_details(iteration, partial(_run_again, graph, point))
    return made


def add_details(iteration: Iteration, ran: Callable[[], Intervals]) -> None:
    """Let an iteration make its spans from the intervals of all workers, when they are asked for."""
    iteration.computed = lambda: computed_at(ran())
    iteration.spans = lambda: spans_of_slowest(ran())
    iteration.spans_of = lambda worker: spans_of_worker(ran(), worker)


def _run_again(graph: Graph, point: Point) -> Intervals:
    """The intervals of all workers, also where only the foremost were followed."""
    return evaluate(graph, number_tasks(graph, [point], every=True))


_MOST = 1000
"""Periods after which one is taken as it is; a queue of exchanges can grow slowly before compute waits for it."""
_SAME = 1e-12


def run_periods(graph: Graph, plan: Plan, draws: Iterable[Draws]) -> Iterator[Iteration]:
    """Periods of local steps, each from where the one before it ended; the first is repeated until it repeats itself."""
    state: State | None = None
    settled = not graph.crosses
    for each in draws:
        numbers, before = number_tasks(graph, [(plan, each)]), (-1.0, 0.0)
        for _ in range(1 if settled else _MOST):
            ran = evaluate(graph, numbers, state)
            state, (made,) = ran.state, account(ran)
            # A queue of exchanges that grows shows in the length of a period only later.
            left = float(np.max(np.maximum(state.free, state.now) - state.now))
            if np.allclose(before, (made.time, left), _SAME, _SAME * made.time):
                break
            before = made.time, left
        settled = True
        add_details(made, partial(_itself, ran))
        yield made


def _itself(ran: Intervals) -> Intervals:
    return ran


def _kind(graph: Graph, point: Point, number: int) -> Hashable:
    """Equal for iterations that are evaluated side by side."""
    plan, draws = point
    slowed = plan.slowdown > 0 and plan.overlap
    if graph.periodic or not graph.in_turn or plan.live or (slowed and any(graph.tasks[i].slowed == "own" for i in graph.compute)):
        return number
    costs = slowed, plan.runtime.cycle_time > 0, plan.runtime.collective_launch > 0
    alike = len(draws.compute) == 1 and draws is ALIKE
    shapes = plan.pace.shape, plan.selection.shape, alike or follows_foremost(graph, plan, draws) or len(draws.compute)
    return id(graph), costs, shapes


def _in_parts(graph: Graph, numbers: Sequence[int], points: Sequence[Point]) -> Iterator[list[int]]:
    """The numbers of iterations in parts whose times fit into memory."""
    part, held = list[int](), 0
    for number in numbers:
        size = len(points[number][1].compute) * len(graph.tasks)
        if part and held + size > _MOST_NUMBERS:
            yield part
            part, held = [], 0
        part.append(number)
        held += size
    yield part
