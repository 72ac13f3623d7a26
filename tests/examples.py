"""Example values for fields without a default, and small clusters, for tests that go over the registries."""

from __future__ import annotations

from typing import Any

from simulator.component import Component, build, discover, required_fields
from simulator.fabrics.base import Fabric
from simulator.fabrics.intra_node import IntraNode
from simulator.fabrics.single_switch import SingleSwitch
from simulator.models.exchange import Layout
from simulator.models.wiring import Wiring
from simulator.topologies.base import Topology

EXAMPLE = {
    "density": 0.01,
    "bandwidth": 1.25e9,
    "nodes_per_leaf": 2,
    "dimensions": (4, 4),
    "inner_steps": 3,
    "sites": ({"name": "one", "nodes": 2}, {"name": "two", "nodes": 6, "up": 2.5e7}),
    "between": {"rate": 1.25e7, "latency": 0.02},
    "nodes_per_site": 2,
}
PRIMITIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")


def mapping(base: type[Component], kind: str, **changes: Any) -> dict[str, Any]:
    """What a person would write for a member: its kind and the fields that have no default."""
    member = discover(base)[kind]
    return {"kind": kind} | {name: EXAMPLE[name] for name in required_fields(member)} | changes


def example(base: type[Component], kind: str, **changes: Any) -> Any:
    """A member of a family, from its defaults and the example values."""
    return build(base, mapping(base, kind, **changes))


def switch(
    nodes: int,
    gpus_per_node: int = 1,
    bandwidth: float = 1.25e9,
    latency: float = 0.0,
    local: tuple[float, float] = (0, 0),
) -> Wiring:
    """A wired single switch; `local` is bandwidth and latency inside the nodes (0: the NIC's figures)."""
    intra = IntraNode(bandwidth=local[0], latency=local[1]) if local[0] else None
    fabric: Fabric = SingleSwitch(bandwidth=bandwidth, latency=latency, intra_node=intra)
    return fabric.wire(Layout(nodes, gpus_per_node))


def supported(topology: Topology) -> list[str]:
    """The peer primitives that a topology implements."""
    return [name for name in topology.primitives() if name in PRIMITIVES]


def pairs(base: type[Topology] = Topology) -> list[tuple[str, str]]:
    """Every (topology, primitive) that is implemented among workers alone, to parametrise over."""
    members = {kind: example(base, kind) for kind in discover(base)}
    return [(kind, name) for kind, one in members.items() if not one.layout(2, 1).servers for name in supported(one)]
