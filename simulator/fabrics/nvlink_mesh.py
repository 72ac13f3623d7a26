"""NVLink between pairs of GPUs, without a switch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from simulator.fabrics.intra_node import IntraNode, Mesh, pack_rings
from simulator.fabrics.nvswitch import OneNode
from simulator.models.exchange import Layout
from simulator.models.wiring import Rings
from simulator.units import BytesPerSecond


class NvlinkMesh(OneNode, kind="nvlink_mesh"):
    """One node whose GPUs have direct links in pairs (NVLink in a DGX-1); pairs without a link go through the host.

    `links` such as [[0, 1, 1], [0, 3, 2]]: one link of `bandwidth` bytes/s per direction joins GPUs 0 and 1; two links,
    which carry twice as much, join 0 and 3. By default one link joins every pair, and co-located servers count as
    further GPUs. Links to GPUs that the job does not use are left out. Pairs without a link communicate through one
    port of `host` bytes/s per GPU and direction. (NVIDIA, DGX-1 with Tesla V100 System Architecture, 2017: 6 links per
    GPU, in a hybrid cube mesh.) If `links` are given, a ring topology uses the rings over them that together carry the
    most.

    These are an expected-error: a number below 0, a link from a GPU to itself, a count below 1, a pair given twice,
    more than one node, and a pair of GPUs that has neither a link nor a `host`.
    """

    links: Mesh = ()
    host: BytesPerSecond | None = None

    def node_links(self, ranks: Sequence[int]) -> IntraNode:
        """The links given, or one between every pair, and the ports to the host."""
        mesh = self.links or tuple((a, b, 1) for a, b in combinations(ranks, 2))
        return self.own_links(mesh=mesh, host=self.host)

    def rings(self, layout: Layout) -> Rings:
        """The rings over the given links; none if no ring closes over them alone."""
        return pack_rings(self.links, layout.workers) if self.links else ()
