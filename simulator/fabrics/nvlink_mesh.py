"""NVLink between pairs of GPUs, without a switch."""

from __future__ import annotations

from itertools import combinations

from simulator.fabrics.intra_node import IntraNode, Mesh
from simulator.fabrics.nvswitch import OneNode
from simulator.fabrics.ring_packing import pack_rings
from simulator.models.exchange import Layout, Placement
from simulator.models.wiring import Links, Rings
from simulator.units import BytesPerSecond


class NvlinkMesh(OneNode, kind="nvlink_mesh"):
    """One node whose GPUs are joined in pairs by direct links (NVLink in a DGX-1); the other pairs go by the host.

    `links` such as [[0, 1, 1], [0, 3, 2]]: GPUs 0 and 1 are joined by one link of `bandwidth` bytes/s per direction, 0
    and 3 by two, which carry twice as much; by default one link joins every pair, with co-located servers as further
    GPUs. Links to GPUs that the job does not use are left out. Pairs that no link joins talk through one port of `host`
    bytes/s per GPU and direction. (NVIDIA, DGX-1 with Tesla V100 System Architecture, 2017: 6 links per GPU, in a
    hybrid cube mesh.) Over `links` that are given, a ring topology uses the rings that together carry the most.

    A number below 0, a GPU joined to itself, a count below 1 or a pair given twice is an expected-error; so is more
    than one node, and a pair of GPUs with neither a link nor a `host`.
    """

    links: Mesh = ()
    host: BytesPerSecond | None = None

    def inside(self, placement: Placement) -> Links:
        """The direct links of every pair, and the ports to the host behind them."""
        mesh = self.links or tuple((a, b, 1) for a, b in combinations(sorted(placement.rank.tolist()), 2))
        return IntraNode(bandwidth=self.bandwidth, latency=self.latency, mesh=mesh, host=self.host).links(placement)

    def rings(self, layout: Layout) -> Rings:
        """Rings over the links that are given; none where no ring closes over them alone."""
        return pack_rings(self.links, layout.workers) if self.links else ()
