"""The graph of a plan: what its scheduler writes down for its buckets."""

from __future__ import annotations

import numpy as np

from simulator.engine.plan.plan import Plan
from simulator.engine.refusals import as_input_error
from simulator.models.graph import Graph
from simulator.models.small_cache import ResultsOfObjects
from simulator.schedulers.base import Scheduler
from simulator.schedulers.contract import refuse_loop
from simulator.schedulers.step import Shape, Step

_graphs: ResultsOfObjects[Graph] = ResultsOfObjects(256)


def graph_of(plan: Plan) -> Graph:
    """The graph of a plan's iteration, or of a period of its local steps; shared by all plans of the same structure.

    Raises InputError where its scheduler writes down what is no iteration.
    """
    work, scheduler = plan.work, plan.setup.scheduler
    exists, halves = (tuple(map(bool, chains)) for chains in (work.chains, work.halves))
    begins_module = work.begins_module if plan.setup.runtime.forward_hook > 0 else ()
    alone, sharding = plan.wiring.layout.workers == 1, plan.setup.sharding
    shares = sharding is not None and sharding.size > 1
    divided = plan.setup.divided
    joint, runs = divided is not None and bool(divided.axes), 0
    if divided is not None and divided.link is not None:
        runs = divided.parallelism.pipeline.runs
    kinds = alone, shares, joint, runs, plan.inside is not None, plan.live

    def make() -> Graph:
        modules = tuple(np.flatnonzero(begins_module).tolist())
        turns = [0] * len(plan.work.order)
        for turn, bucket in enumerate(plan.work.order):
            turns[bucket] = turn
        shape = Shape(
            work.buckets,
            len(work.layer_forward),
            work.passes.count,
            tuple(turns),
            exists,
            halves,
            modules,
            *kinds,
        )
        step = Step(shape, scheduler.queue)
        with as_input_error(f"scheduler {scheduler.kind}"):
            scheduler.lay_out(step)
            graph = step.graph()
            refuse_loop(scheduler, graph, shape, sharded=sharding is not None)
        return graph

    common = exists, halves, work.passes.count, tuple(plan.work.order), *kinds
    own = type(scheduler).lay_out is not Scheduler.lay_out or scheduler.period
    if not (own or scheduler.gated or scheduler.queue.by_priority):  # layers count for nothing
        how = scheduler.overlap, scheduler.queue, scheduler.rounds(2)
        return _graphs.get((), make, len(work.buckets), *how, *common)
    return _graphs.get((work.buckets,), make, type(scheduler), scheduler.fingerprint, begins_module, *common)
