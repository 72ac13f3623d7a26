"""Iterations of many plans: those of one graph side by side, all others one by one, on the clock where it has to be."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TypeVar

from simulator.engine.clock.evaluate import evaluate, run_periods
from simulator.engine.clock.graphs import graph_of
from simulator.engine.clock.intervals import Intervals
from simulator.engine.clock.numbers import (
    ALIKE,
    Draws,
    Point,
    are_unlike,
    column_of,
    foremost_are_enough,
    front_of,
    number_tasks,
)
from simulator.engine.clock.terms import account, let_tell
from simulator.engine.plan.plan import Inside, Plan, plan_jobs
from simulator.engine.plan.prices import price_steps
from simulator.engine.plan.setup import seat_jobs
from simulator.engine.plan.work.work import prepare_work
from simulator.models.exchange import AllGather
from simulator.models.graph import Graph
from simulator.models.precision import FP32_BYTES
from simulator.models.small_cache import ResultsOfObjects
from simulator.models.timeline import Iteration
from simulator.records import replace

_MOST_NUMBERS = 2**21
"""Workers times tasks of iterations that run side by side."""
_MOST_DRAWS = 2**19
"""Workers times iterations that are drawn at a time."""
_FEW_POINTS = 8
"""From so many points on that differ in numbers alone arrays of them are faster than one after the other."""
_FOREMOST = 4
"""Workers that are usually followed where only those are that can be the slowest."""
Made = TypeVar("Made")


def run_points(points: Sequence[Point]) -> list[Iteration]:
    """Iterations, each by itself. Raises Stalled where an exchange never ends."""
    return _run_each(points, _run_together)


def times_of(points: Sequence[Point]) -> list[float]:
    """Seconds of iterations, each by itself, without their terms. Raises Stalled where an exchange never ends."""
    return _run_each(points, _time_together)


def _run_each(
    points: Sequence[Point], run: Callable[[Graph, Sequence[Point], Sequence[bool]], list[Made]]
) -> list[Made]:
    """What is made of iterations; those that can `run` side by side do."""
    made: dict[int, Made] = {}
    groups: dict[Hashable, list[int]] = {}
    of_plan = {id(plan): graph_of(plan) for plan in {id(plan): plan for plan, _ in points}.values()}
    graphs = [of_plan[id(plan)] for plan, _ in points]
    foremost = [foremost_are_enough(graph, *point) for graph, point in zip(graphs, points, strict=True)]
    for number, (point, graph) in enumerate(zip(points, graphs, strict=True)):
        groups.setdefault(_kind(graph, point, number, foremost[number]), []).append(number)
    for numbers in groups.values():
        graph = graphs[numbers[0]]
        if len(numbers) < _FEW_POINTS and not any(are_unlike(*points[number]) for number in numbers):
            made |= {number: run(graph, [points[number]], [False])[0] for number in numbers}
            continue
        for some in _in_parts(graph, numbers, points, foremost):
            every, few = [points[number] for number in some], [foremost[number] for number in some]
            made |= zip(some, run(graph, every, few), strict=True)
    return [made[number] for number in range(len(points))]


def run_point(plan: Plan, draws: Draws = ALIKE) -> Iteration:
    """One iteration by itself. Raises Stalled where an exchange never ends."""
    return run_points([(plan, draws)])[0]


def run_in_a_row(
    plan: Plan, draws: Iterable[Draws], other_jobs: Sequence[Plan] = (), *, keep: bool = False
) -> Iterator[Iteration]:
    """The iterations of one plan, one for each of `draws`, beside other jobs. Raises Stalled where one never ends.

    Without `keep`, an iteration has spans until the next one is asked for.
    """
    graph = graph_of(plan)
    if other_jobs or needs_clock(graph, plan):
        from simulator.engine.clock.simulation import simulate_all  # brings SimPy and the event loop

        iterations = simulate_all(plan, draws, other_jobs, keep)
    else:
        iterations = run_periods(graph, plan, draws) if graph.periodic else _run_side_by_side(plan, draws)
    made: Iteration | None = None
    for found in iterations:
        if made is not None and made is not found and not keep:  # one that repeats itself is the same object
            made.forget()
        made = found
        yield made


def _run_side_by_side(plan: Plan, draws: Iterable[Draws]) -> Iterator[Iteration]:
    """Iterations of one plan, as many at a time as fit into memory."""
    left, some = iter(draws), max(1, _MOST_DRAWS // plan.wiring.layout.workers)
    while points := [(plan, each) for each in islice(left, some)]:
        yield from run_points(points)


def needs_clock(graph: Graph, plan: Plan) -> bool:
    """Whether exchanges have to be followed event by event: they share links, or compute that they slow down decides
    which of them goes first."""
    return plan.live or bool(plan.slowdown and plan.setup.scheduler.overlap and not graph.in_turn)


def _run_together(graph: Graph, points: Sequence[Point], foremost: Sequence[bool]) -> list[Iteration]:
    if needs_clock(graph, points[0][0]):
        from simulator.engine.clock.simulation import simulate  # brings SimPy and the event loop

        return [simulate(*point) for point in points]
    if graph.periodic:
        return [made for plan, draws in points for made in run_periods(graph, plan, [draws])]
    made = account(evaluate(graph, number_tasks(graph, points, foremost)))
    for iteration, point in zip(made, points, strict=True):
        let_tell(iteration, partial(_run_again, graph, point))
    return made


def _time_together(graph: Graph, points: Sequence[Point], foremost: Sequence[bool]) -> list[float]:
    if needs_clock(graph, points[0][0]) or graph.periodic:
        return [iteration.time for iteration in _run_together(graph, points, foremost)]
    ran = evaluate(graph, number_tasks(graph, points, foremost))
    return column_of(front_of(ran.end[graph.compute[-1]]), len(points))


def _run_again(graph: Graph, point: Point) -> Intervals:
    """The intervals of all workers, also where only the foremost were followed."""
    return evaluate(graph, number_tasks(graph, [point]))


def _kind(graph: Graph, point: Point, number: int, foremost: bool) -> Hashable:
    """Equal for iterations that are evaluated side by side."""
    plan, draws = point
    slowed = plan.slowdown > 0 and plan.setup.scheduler.overlap
    if graph.periodic or not graph.in_turn or plan.live or (slowed and (graph.slows_each or graph.overlaps)):
        return number
    costs = slowed, plan.setup.cycle > 0, plan.setup.runtime.collective_launch > 0
    shapes = plan.work.pace.shape, plan.work.selection.shape, "foremost" if foremost else len(draws.compute)
    return id(graph), costs, shapes


def _in_parts(
    graph: Graph, numbers: Sequence[int], points: Sequence[Point], foremost: Sequence[bool]
) -> Iterator[list[int]]:
    """The numbers of iterations in parts whose times fit into memory."""
    part, held = list[int](), 0
    for number in numbers:
        plan, draws = points[number]
        size = (_FOREMOST if foremost[number] else max(len(draws.compute), len(plan.work.pace))) * len(graph.tasks)
        if part and held + size > _MOST_NUMBERS:
            yield part
            part, held = [], 0
        part.append(number)
        held += size
    yield part


_ran: ResultsOfObjects[tuple[Plan, Iteration]] = ResultsOfObjects(64)
"""Sites that differ in what they exchange with others have the same local steps."""


def run_inside(plan: Plan) -> Plan:
    """The plan of local steps between sites with what an iteration inside a site takes; any other plan as it is.

    Weights as the optimiser works on them are gathered by all copies of the model in a site. Compute beside an exchange
    is as slow as beside any collective, also where one inside a site has slowed it down. Raises Stalled where an
    exchange never ends.
    """
    if plan.setup.inside is None:
        return plan
    (inner,) = seat_jobs([plan.setup.inside])
    work, precision = prepare_work(inner), plan.setup.workload.precision

    def run() -> tuple[Plan, Iteration]:
        (own,) = plan_jobs([(inner, work)])
        return own, run_point(own)

    networks = inner.network, inner.sharding and inner.sharding.network
    own, step = _ran.get((work, *networks), run, inner.scheduler.fingerprint, inner.runtime.fingerprint)
    width = FP32_BYTES if precision.has_master_weights else precision.gradient_bytes
    steps = [AllGather(float(width * bucket.numel)) for bucket in plan.work.buckets]
    gathers = price_steps(steps, [(0, number) for number in range(len(steps))], inner.network)
    gathers.traffic = gathers.traffic.shared_by(plan.steps)
    alone = own.work.compute_alone
    slowdown = max(0.0, plan.slowdown - step.breakdown["slowdown"] / alone) if alone else 0.0
    made = replace(plan.work, update=step.breakdown["update"])
    return replace(plan, work=made, slowdown=slowdown, inside=Inside(own, step, gathers))
