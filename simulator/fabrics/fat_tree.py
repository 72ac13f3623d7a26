"""The fat tree: three layers of equal switches."""

from __future__ import annotations

import numpy as np
from pydantic import Field, field_validator

from simulator.component import expected
from simulator.fabrics.leaf_spine import Switched, spread
from simulator.models.exchange import Ints, Placement, Route
from simulator.models.small_cache import cache_small_results
from simulator.models.wiring import Links


class FatTree(Switched, kind="fat_tree"):
    """k-ary fat tree: k pods of k/2 edge and k/2 aggregation switches under (k/2)^2 cores, for k^3/4 nodes.

    Every edge switch has k/2 nodes below it and links to all aggregation switches of its pod. Aggregation switch a of
    every pod has links to the cores a k/2 to (a+1) k/2 - 1 (Al-Fares, Loukissas and Vahdat, SIGCOMM 2008). Nodes fill
    one edge switch after the other, and one pod after the other. A message crosses 1 switch below one edge switch, 3
    within a pod, and 5 between pods: its start-up is latency + 0, 2 or 4 hop_latency. `spread` chooses one of the
    (k/2)^2 cores by the pair of nodes; core // (k/2) is the aggregation switch on the way up and on the way down.

    Each link between switches carries nics_per_node * bandwidth / oversubscription bytes/s per direction, or `uplink`.
    If neither is given, the bisection carries all that the nodes send. `k`, the ports per switch, is even; if it is
    left out, the smallest tree that holds the nodes is built. More than k^3/4 nodes are an expected-error.
    """

    k: int | None = Field(default=None, ge=2, le=128)

    @field_validator("k")
    @classmethod
    def _even(cls, value: int | None) -> int | None:
        if value is not None and value % 2:
            raise expected("an even number of ports", value, "half of a switch's ports lead down, half up")
        return value

    @property
    def between_switches(self) -> float:
        """Bytes/s of one link between switches and direction."""
        return self.uplink or self.nics_per_node * self.bandwidth / self.oversubscription

    def across(self, placement: Placement, nic: float) -> Links:
        """The NICs, then the links between switches: edges up, aggregation up, cores down, aggregation down."""
        ends, half = self.nics(placement, nic), self._half(placement.nodes)
        edge = placement.node // half
        pod = edge // half
        # Only switches above existing nodes: messages never pass through another pod.
        edges, pods = int(edge.max()) + 1, int(pod.max()) + 1
        low, high = edges * half, pods * half * half
        start = len(ends.capacity) + np.cumsum([0, low, high, high])

        def route(src: Ints, dst: Ints) -> Route:
            at = ends.route(src, dst)
            core = spread(placement.node[src], placement.node[dst], half * half)
            up = [edge[src] * half + core // half, pod[src] * half * half + core]
            down = [pod[dst] * half * half + core, edge[dst] * half + core // half]
            middle = np.stack(up + down, axis=1) + start
            leaves_edge, leaves_pod = edge[src] != edge[dst], pod[src] != pod[dst]
            middle[~leaves_edge] = -1
            middle[~leaves_pod, 1:3] = -1
            hops = 2 * leaves_edge.astype(np.int64) + 2 * leaves_pod
            return Route(at.first, at.last, at.latency + self.hop_latency * hops, middle)

        # The limit of the software at an endpoint holds for the NICs, not for the switches.
        capacity = np.concatenate([ends.capacity, np.full(2 * (low + high), self.between_switches)])
        return Links(capacity, ends.names + _names(half, edges, pods), route)

    def _half(self, nodes: int) -> int:
        """Half the ports of a switch, h: there are 2 h pods, with h edge switches of h nodes each."""
        if self.k is None:
            half = 1
            while 2 * half**3 < nodes:
                half += 1
            return half
        half = self.k // 2
        if nodes > 2 * half**3:
            fits = f"at most {2 * half**3} nodes on a fat tree of {self.k}-port switches"
            raise expected(fits, f"{nodes} nodes", "raise `k`, or leave it out for the smallest tree that fits")
        return half


@cache_small_results  # a sweep asks for the same cluster again and again
def _names(half: int, edges: int, pods: int) -> tuple[str, ...]:
    low = [
        (f"pod {e // half} edge {e % half}", f"pod {e // half} aggregation {a}")
        for e in range(edges)
        for a in range(half)
    ]
    high = [(f"pod {p} aggregation {core // half}", f"core {core}") for p in range(pods) for core in range(half * half)]
    up = [f"{one} to {other}" for one, other in low + high]
    return (*up, *(f"{other} to {one}" for one, other in high + low))
