"""How a collective travels on a given fabric."""

from __future__ import annotations

from simulator.fabrics.base import Fabric
from simulator.models.curves import Floats
from simulator.models.exchange import Layout
from simulator.topologies.base import Rounds, Topology
from simulator.topologies.ring import Ring


def collective_rounds(primitive: str, payload: Floats, topology: Topology, fabric: Fabric, layout: Layout) -> Rounds:
    """Rounds of a primitive's payloads (b,), or (b, p) of an all-gather; a ring takes the fabric's own rings."""
    rings = fabric.rings(layout) if isinstance(topology, Ring) else ()
    if isinstance(topology, Ring) and rings:
        return topology.over(rings, primitive, payload, layout)
    rounds: Rounds = getattr(topology, primitive)(payload, layout)
    return rounds
