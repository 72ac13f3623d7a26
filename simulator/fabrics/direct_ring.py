"""A ring of nodes without a switch."""

from __future__ import annotations

from simulator.fabrics.torus import Direct
from simulator.models.exchange import Placement
from simulator.models.wiring import Links


class DirectRing(Direct, kind="direct_ring"):
    """Nodes joined in a ring by direct links in both directions; a message takes the shorter way.

    Node n has links to n+1 and n-1, modulo the number of nodes, which includes dedicated servers. With N nodes, a
    message from a to b takes min((b-a) mod N, (a-b) mod N) hops (forward if both ways are equally long) and shares the
    links of the nodes between them. h hops have a start-up of latency + (h-1) hop_latency. This is the torus of one
    dimension (Dally and Seitz 1987). Any number of nodes fits.
    """

    def across(self, placement: Placement, nic: float) -> Links:
        """The out ends of all direct links, node by node, then their in ends."""
        return self.grid(placement, nic, (placement.nodes,))
