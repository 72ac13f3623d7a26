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
    """The network of the workers, and that of the GPUs that share a sharded model."""
    workers, shared = NetworkUse(plan.prices.traffic, plan.wiring, plan.prices.algorithms), plan.shared
    if shared is None:
        return [workers]
    wiring, replicas = shared.network.wiring, plan.wiring.layout.workers
    uses = shared.uses(graph_of(plan).calls)
    traffic, algorithms = count_traffic(shared.work.steps, uses, shared.network, shared=False)
    size = wiring.layout.workers
    return [
        NetworkUse(workers.traffic, workers.wiring, workers.algorithms, size),
        NetworkUse(traffic, wiring, algorithms, replicas),
    ]
