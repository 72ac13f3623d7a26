"""The graph of a plan: what its scheduler writes down for its buckets."""

from __future__ import annotations

import numpy as np

from simulator.engine.plan.plan import Plan
from simulator.models.graph import Graph
from simulator.models.small_cache import ResultsOfObjects
from simulator.schedulers.step import Shape, Step

_graphs: ResultsOfObjects[Graph] = ResultsOfObjects(256)


def graph_of(plan: Plan) -> Graph:
    """The graph of a plan's iteration, or of a period of its local steps; shared by all plans of the same structure."""
    work, scheduler = plan.work, plan.scheduler
    exists, halves = (tuple(map(bool, chains)) for chains in (work.chains, work.halves))
    begins_module = work.begins_module if plan.runtime.forward_hook > 0 else ()
    alone = plan.wiring.layout.workers == 1

    def make() -> Graph:
        modules = tuple(np.flatnonzero(begins_module).tolist())
        turns = [0] * len(plan.order)
        for turn, bucket in enumerate(plan.order):
            turns[bucket] = turn
        shape = Shape(
            work.buckets, len(work.layer_forward), work.passes.count, tuple(turns), exists, halves, modules, alone
        )
        step = Step(shape, scheduler.queue)
        scheduler.lay_out(step)
        return step.graph()

    named = type(scheduler), scheduler.fingerprint, alone, begins_module
    return _graphs.get((work.buckets,), make, exists, halves, work.passes.count, tuple(plan.order), *named)
