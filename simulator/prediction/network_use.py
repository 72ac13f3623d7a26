"""The networks that carry the exchanges of an iteration, each with what crosses its links; overfull links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from simulator.engine.clock.graphs import graph_of
from simulator.engine.plan.phases import Algorithms
from simulator.engine.plan.plan import Plan
from simulator.errors import InputError, Problem
from simulator.fabrics.base import Fabric
from simulator.models.exchange import Ints
from simulator.models.sharding import LAYERS, REPLICA, SHARD, SITE
from simulator.models.wiring import Traffic, Wiring
from simulator.records import Record, replace
from simulator.scenario.scenario import Scenario


class NetworkUse(Record):
    """A network as one group of GPUs sees it: its links, the bytes on them, and which algorithms carry these.

    `fabric`: a group's part of the network. `groups`: how many such groups exchange at the same time. `axis`: along
    which they exchange.
    """

    traffic: Traffic
    wiring: Wiring
    algorithms: Algorithms
    fabric: Fabric
    groups: int = 1
    axis: str = REPLICA


def network_uses(plan: Plan) -> list[NetworkUse]:
    """The network of the workers, that of the GPUs that share a sharded model or divide layers, and those inside the
    sites."""
    groups = plan.setup.groups
    made = [NetworkUse(plan.prices.traffic, plan.wiring, plan.prices.algorithms, plan.setup.fabric, groups)]
    if (inside := plan.inside) is not None:
        gathers, sites = inside.gathers, plan.wiring.layout.workers
        there = []
        for use in network_uses(inside.plan):
            often = Counter({name: plan.steps * calls for name, calls in use.algorithms.items()})
            there.append(replace(use, groups=sites * use.groups, algorithms=often))
        copies = there[0]  # which have what came of the exchange from each other
        gathered = copies.traffic.plus(gathers.traffic), copies.algorithms + gathers.algorithms
        there[0] = replace(copies, traffic=gathered[0], algorithms=gathered[1])
        return [replace(made[0], axis=SITE), *there]
    gpus = groups * plan.wiring.layout.workers  # of a pipeline, as if all stages had the traffic of the first
    for axis in plan.axes:
        network, algorithms = axis.network, Algorithms()
        traffic, called = axis.prices.count(axis.often(graph_of(plan).calls).astype(float))
        for (primitive, name), times in called.items():
            if times:
                algorithms[primitive, network.topology.kind if primitive == "messages" else name] += times
        groups = gpus // network.wiring.layout.workers
        made.append(NetworkUse(traffic, network.wiring, algorithms, network.fabric, groups, axis.axis))
    return made


def sent_in_layers(plan: Plan) -> list[float]:
    """Bytes that a GPU of each stage sends in an iteration among those that divide its layers."""
    divided = plan.setup.divided
    if divided is None:
        return []
    pipeline, known = divided.parallelism.pipeline, dict[bytes, float]()

    def sent(calls: Sequence[Ints]) -> float:
        made = 0.0
        for axis, often in zip((axis for axis in plan.axes if axis.axis == LAYERS), calls, strict=True):
            traffic, _ = axis.prices.count(plan.work.passes.count * often.astype(float))
            made += float(traffic.sent[: axis.network.wiring.layout.workers].mean())
        return made

    stages = []
    for stage in range(pipeline.stages):
        own = np.isin(divided.chunk, pipeline.chunks_of(stage))
        calls = [work.calls[:, own].sum(axis=(0, 1)) for work in divided.axes]
        key = b"".join(each.tobytes() for each in calls)
        known[key] = known[key] if key in known else sent(calls)
        stages.append(known[key])
    return stages


_MOST_BUSY = 1 + 1e-9


def refuse_overfull_links(scenario: Scenario, plan: Plan, time: float) -> None:
    """Raise an InputError where the fold was asked for and a link would carry more than it can in an iteration's time.

    Where messages of different workers meet on a link, the fold lets them pass at the same time.
    """
    priced = [plan.prices, *(axis.prices for axis in plan.axes if axis.axis == SHARD)]
    if scenario.fidelity != "fold" or not (plan.live or any(each.obstacles for each in priced)):
        return
    name, seconds = max(map(_busiest, network_uses(plan)), key=lambda found: found[1])
    if seconds <= _MOST_BUSY * time:
        return
    raise InputError(
        Problem(
            f"scenario '{scenario.name}': fidelity",
            "`auto` or `flows`",
            f"`fold`, by which {name} would be {100 * seconds / time:.0f} % busy",
            "the fold is not exact here: messages of different workers share this link; use `fidelity: auto`",
        )
    )


def _busiest(use: NetworkUse) -> tuple[str, float]:
    """The busiest link of a network, and the seconds for which it carries bytes beyond its token bucket."""
    held = 0.0 if use.wiring.burst is None else use.wiring.burst
    busy = np.maximum(use.traffic.links - held, 0.0) / use.wiring.capacity
    link = int(busy.argmax())
    return use.wiring.names[link], float(busy[link])
