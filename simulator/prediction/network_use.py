"""The networks that carry the exchanges of an iteration, each with what crosses its links."""

from __future__ import annotations

from simulator.engine.clock.graphs import graph_of
from simulator.engine.plan.plan import Plan
from simulator.engine.plan.traffic import Algorithms, count_traffic
from simulator.models.wiring import Traffic, Wiring
from simulator.records import Record


class NetworkUse(Record):
    """A network as one group of GPUs sees it: its links, the bytes on them, and which algorithms carry these.

    `groups`: how many such groups exchange at the same time.
    """

    traffic: Traffic
    wiring: Wiring
    algorithms: Algorithms
    groups: int = 1


def network_uses(plan: Plan) -> list[NetworkUse]:
    """The network of the workers, that of the GPUs that share a sharded model, and those of GPUs that divide
    layers."""
    divided, shared = plan.divided, plan.shared
    layers = plan.setup.divided
    stages = 1 if layers is None else layers.parallelism.pipeline.stages  # as if all had the traffic of the first
    inner = 1 if divided is None else divided.inner
    size = 1 if shared is None else shared.network.wiring.layout.workers
    workers = plan.wiring.layout.workers
    used = NetworkUse(plan.prices.traffic, plan.wiring, plan.prices.algorithms, size * inner * stages)
    made = [used]
    if shared is not None:
        uses = shared.uses(graph_of(plan).calls)
        traffic, algorithms = count_traffic(shared.work.steps, uses, shared.network, shared=False)
        made.append(NetworkUse(traffic, shared.network.wiring, algorithms, workers * inner * stages))
    for axis in () if divided is None else divided.axes:
        wiring = axis.work.network.wiring
        groups = workers * size * inner * stages // wiring.layout.workers
        made.append(NetworkUse(axis.prices.traffic, wiring, axis.prices.algorithms, groups))
    return made
