"""The fabric family: the links of a network, the route of every message, and what was measured on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from pydantic import Field

from simulator.bounds import Count
from simulator.component import Component
from simulator.fabrics.collectives import FittedLaw, MeasuredCollective, Protocol
from simulator.fabrics.intra_node import IntraNode, pack_chains, pack_rings, port_links
from simulator.fabrics.transport import NamedTransport
from simulator.hardware.machine import NOTHING_MEASURED, LibraryTerms, Machine, generation_of
from simulator.hardware.runtime import TransportKind, Way
from simulator.models.curves import Floats
from simulator.models.exchange import Layout, Placement
from simulator.models.small_cache import cache_small_results
from simulator.models.wiring import Links, Rings, Wiring
from simulator.units import BytesPerSecond, Density, Fraction, Seconds, print_alike

_MOST_GPUS = 8
"""GPUs of a node with more NICs than that, where nothing else is stated: those of HGX and OAM boards."""


class Fabric(Component, family="fabric"):
    """Base of all fabrics: the NICs of every node, the links inside a node, and what was measured on them.

    - `bandwidth`: what a NIC carries per direction after protocol headers.
    - `latency`: start-up of one message between nodes, end to end.
    - `intra_node`: links between the GPUs of a node; none: they have the NIC's bandwidth and latency.
    - `incast`: measured pairs of a number of concurrent messages and the share of a NIC's bandwidth that is left; none:
      all of it.
    - `name`: of the network, as results show it.
    - `source`: where the figures come from.
    - `held_out_mape`: mean absolute relative error of the link law on measurements that it was not fitted to.
    - `fitted_for`: the measurements that the link law was fitted to; none: the network is only described.
    - `transport`: what the software between memory and NIC leaves of the NIC's rate; none: all of it.
    - `nics_per_node`: NICs of a node; its GPUs are assigned to them in turn.
    - `nics_per_gpu`: NICs of one GPU, which carry its messages together (a rail); none: 1, and an eighth of more than 8
      NICs, since their nodes have 8 GPUs.
    - `protocols`: protocols of the collective library by payload; none: the full bandwidth for all payloads.
    - `nccl`: what was measured of NCCL on this fabric; none: NCCL's own constants.
    - `measured`: collectives that were measured on this fabric; a curve is used where it applies.

    A collective also takes time that no link explains, whatever the number of workers. It is not counted for exchanges
    that share links with other jobs:

    - `collective_start_up`: seconds of every collective, once.
    - `copy_bandwidth`: at which the payload passes through the GPU's own memory.
    """

    name: str = ""
    source: str = ""
    bandwidth: BytesPerSecond
    latency: Seconds = 0.0
    held_out_mape: Fraction | None = None
    fitted_for: FittedLaw | None = None
    intra_node: IntraNode | None = None
    transport: NamedTransport | None = None
    nics_per_node: int = Field(default=1, ge=1, le=1024)
    nics_per_gpu: int | None = Field(default=None, ge=1, le=64)
    incast: tuple[tuple[Count, Density], ...] = ()
    protocols: tuple[Protocol, ...] = ()
    collective_start_up: Seconds = 0.0
    copy_bandwidth: BytesPerSecond | None = None
    nccl: LibraryTerms = NOTHING_MEASURED
    measured: tuple[MeasuredCollective, ...] = ()

    def wire(
        self, layout: Layout, endpoint_bandwidth: float | None = None, placement: Placement | None = None
    ) -> Wiring:
        """Links and routes for a cluster, or for another placement than its own; `endpoint_bandwidth` limits what the
        software of one endpoint moves. Raises an expected-error if the cluster does not fit on the fabric.
        """
        placement = placement or layout.placement()
        across = self.across(placement, min(self.carried(placement.nodes), endpoint_bandwidth or np.inf))
        inside = self.inside(placement)
        ceiling = across.ceiling
        if ceiling is not None:
            ceiling = np.concatenate([ceiling, np.full(len(inside.capacity), np.inf)])
        return Wiring(
            layout=layout,
            node=placement.node,
            capacity=np.concatenate([across.capacity, inside.capacity]),
            names=across.names + inside.names,
            across=across.route,
            inside=inside.route,
            offset=len(across.capacity),
            incast=np.array(self.incast) if self.incast else None,
            burst=np.repeat([across.burst, 0.0], [len(across.names), len(inside.names)]) if across.burst else None,
            ceiling=ceiling,
        )

    @property
    def nics_of_rail(self) -> int:
        """NICs that carry the messages of one GPU together."""
        return min(self.nics_per_node, self.nics_per_gpu or max(1, self.nics_per_node // _MOST_GPUS))

    @property
    def rails(self) -> int:
        """NICs of a node, those that work together counted as one."""
        return self.nics_per_node // self.nics_of_rail

    def carried(self, nodes: int) -> float:
        """Bytes/s that the transport leaves of a rail per direction when so many nodes exchange."""
        return self.nics_of_rail * self.carried_by_nic(self.bandwidth, nodes)

    def carried_by_nic(self, nic: float, nodes: int) -> float:
        """Bytes/s that the transport leaves of a NIC that carries `nic` bytes/s when so many nodes exchange."""
        return nic if self.transport is None else self.transport.rate(nic, nodes, self.nics_per_node)

    @property
    def transport_kind(self) -> TransportKind | None:
        """How messages between nodes travel; None where it is not stated."""
        return None if self.transport is None else self.transport.kind

    def way(self, nodes: int) -> Way:
        """How messages between so many nodes travel; not stated where there is one node."""
        return Way(self.transport_kind, self.carried(nodes)) if nodes > 1 else Way()

    def across(self, placement: Placement, nic: float) -> Links:
        """Links between the nodes; `nic` is the bandwidth of one rail per direction (bytes/s)."""
        raise NotImplementedError

    def inside(self, placement: Placement) -> Links:
        """Links inside the nodes: `intra_node`, or one port per GPU with the NIC's bandwidth and latency."""
        return self.node_links(np.unique(placement.rank).tolist()).links(placement)

    def node_links(self, ranks: Sequence[int]) -> IntraNode:
        """What joins the places of these ranks of a node."""
        return self.intra_node or self.own_links()

    def own_links(self, **more: Any) -> IntraNode:
        """Links with the network's bandwidth and latency, which an end of an interval may put beyond their bounds."""
        return IntraNode.model_construct(bandwidth=self.bandwidth, latency=self.latency, **more)

    def shared_by(self, groups: int, in_node: int, stride: int = 1) -> Self:
        """The network as one of so many groups of GPUs sees it that exchange at once, with those of its nodes that have
        GPUs of this group: `in_node` groups share a node, and every `stride`-th node is one of them."""
        share, each = self.share_of_rail(in_node), self.nics_of_rail
        changes = {
            "bandwidth": self.bandwidth * share,
            "nics_per_node": each * max(1, self.rails // in_node),
            "nics_per_gpu": each,
            "transport": self.transport and self.transport.shared_by(in_node, share),
        }
        return self.model_copy(update=changes)

    def share_of_rail(self, in_node: int) -> float:
        """The share of a rail that each of so many groups in a node has, where there are more groups than rails."""
        return min(1.0, self.rails / in_node)

    def groups_on(self, link: str, part: Fabric, groups: int) -> float:
        """How many groups of GPUs send over a link between nodes, where `part` is what each of `groups` sees."""
        return self.bandwidth / part.bandwidth

    def nics(self, placement: Placement, nic: float) -> Links:
        """The links of the NICs, first out, then in; the GPUs of a node are assigned to its NICs in turn.

        NICs that work together are one link.
        """
        count, nodes = self.rails, placement.nodes
        port = placement.node * count + placement.rank % count
        return port_links(port, nic, self.latency, _nic_names(nodes, count))

    @property
    def title(self) -> str:
        """Its name in a sentence."""
        return self.name or "this network"

    def protocol_factor(self, nbytes: Floats, workers: int) -> Floats:
        """How many bytes the links carry per byte of payload, for each payload (b,)."""
        factor = np.ones_like(nbytes)
        for protocol in sorted(self.protocols, key=lambda item: -item.up_to_per_worker):
            factor = np.where(nbytes <= protocol.up_to_per_worker * workers, 1 / protocol.efficiency, factor)
        return factor

    def added_seconds(self, nbytes: Floats) -> Floats:
        """Seconds that collectives of payloads (b,) take in addition to the time on the links."""
        copied = nbytes / self.copy_bandwidth if self.copy_bandwidth else np.zeros(len(nbytes))
        return np.where(nbytes > 0, self.collective_start_up + copied, 0.0)

    def rings(self, layout: Layout) -> Rings:
        """The rings that a ring topology uses on this fabric; none: one ring in node order."""
        return ()

    def machine(self, layout: Layout, device: str = "") -> Machine:
        """The hardware as a collective library sees it, on nodes with GPUs of this name."""
        gpus = layout.gpus_per_node
        links = self.node_links(range(gpus))
        mesh, switched = links.mesh, links.joined_by == "nvlink" and not links.mesh
        cycles = pack_rings(mesh, gpus) if mesh else ()
        return Machine(
            generation=generation_of(device, links.bandwidth if switched else 0.0),
            nics=min(self.rails, gpus),
            reported=self.nics_of_rail * (self.nccl.reported_bandwidth or self.bandwidth),
            latency=self.latency,
            far_latency=self.far_latency(layout),
            terms=self.nccl,
            start_up_measured=self.collective_start_up > 0,
            port=links.bandwidth,
            inside=links.joined_by,
            switched=switched,
            cycles=cycles,
            chains=pack_chains(mesh, gpus) if mesh and not cycles else (),
            full_mesh=links.joins_all_alike(gpus),
            inside_latency=links.latency,
            host=links.host,
        )

    def far_latency(self, layout: Layout) -> float:
        """Seconds of a way through all nodes in order and back, beyond `latency` for each of its steps."""
        return 0.0

    def latency_around(self, layout: Layout) -> float:
        """`far_latency` as it is found on the routes between the nodes' first GPUs."""
        placement = layout.placement()
        firsts = np.flatnonzero((placement.rank == 0) & ~np.isin(placement.node, placement.servers))
        if len(firsts) < 2:
            return 0.0
        route = self.across(placement, self.bandwidth).route(firsts, np.roll(firsts, -1))
        return float(np.maximum(0.0, route.latency - self.latency).sum())

    def times(self, rates: float, streams: float, start_ups: float) -> dict[str, Any]:
        """Links between nodes that are this fabric's own parts: their rates, those of streams and start-ups multiplied.

        As changes of its fields; a fabric whose links are described by plain fields has none.
        """
        return {}

    def measured_curve(self, primitive: str, topology: str, layout: Layout) -> MeasuredCollective | None:
        """The collective that was measured with this layout, bandwidth and latency, or None."""
        wanted = (primitive, topology, layout.workers, layout.gpus_per_node)
        same = (item for item in self.measured if self.applies(item))
        return next((i for i in same if (i.primitive, i.topology, i.workers, i.gpus_per_node) == wanted), None)

    def applies(self, item: MeasuredCollective) -> bool:
        """Whether a collective was measured at the bandwidth and latency that the fabric has."""
        return print_alike(item.bandwidth, self.bandwidth) and print_alike(item.latency, self.latency)


@cache_small_results  # a sweep asks for the same cluster again and again
def _nic_names(nodes: int, count: int) -> tuple[str, ...]:
    number = [f" {i}" if count > 1 else "" for i in range(count)]
    return tuple(f"node {n} NIC{i} {way}" for way in ("out", "in") for n in range(nodes) for i in number)
