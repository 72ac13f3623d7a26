"""One switch that never blocks."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from simulator.fabrics.base import Fabric, IntraNode, Wiring
from simulator.models.exchange import Layout


@lru_cache(maxsize=64)  # a sweep lays the same cluster out again and again
def _names(nodes: int, places: int) -> tuple[str, ...]:
    names = [f"node {n} NIC {way}" for way in ("out", "in") for n in range(nodes)]
    return (*names, *(f"place {p} local {way}" for way in ("out", "in") for p in range(places)))


class SingleSwitch(Fabric, kind="single_switch"):
    """All nodes on one non-blocking switch: only the NICs and the links inside the nodes can be busy."""

    def wire(self, layout: Layout, endpoint_bandwidth: float | None = None) -> Wiring:
        """One link per NIC and direction, and one per GPU and direction inside the node."""
        places = np.arange(layout.places)
        node = layout.node_of(places)
        nodes = int(node.max()) + 1
        nic = min(self.bandwidth, endpoint_bandwidth or np.inf)
        local = self.intra_node or IntraNode(bandwidth=self.bandwidth, latency=self.latency)
        ports = 2 * nodes
        return Wiring(
            layout=layout,
            node=node,
            capacity=np.concatenate([np.full(ports, nic), np.full(2 * layout.places, local.bandwidth)]),
            names=_names(nodes, layout.places),
            egress=node,
            ingress=node + nodes,
            local_egress=ports + places,
            local_ingress=ports + layout.places + places,
            latency=self.latency,
            local_latency=local.latency,
        )
