"""The fabric family: what a cluster's wires are, and the collectives measured on them."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, field_validator

from simulator.component import Component, Spec
from simulator.fabrics.intra_node import IntraNode
from simulator.models.curves import Floats, Piecewise, rising
from simulator.models.exchange import Ints, Layout, Placement, Route
from simulator.models.small_cache import cache_small_results
from simulator.models.wiring import Links, Rings, Wiring
from simulator.units import BytesPerSecond, Density, Fraction, PositiveBytes, Seconds


class Protocol(Spec):
    """A wire protocol of the collective library, used while the payload per worker is small enough.

    NCCL's LL sends 4 bytes of data with a 4-byte flag, so it reaches half the bandwidth, at a low latency.

    - `name`: of the protocol.
    - `up_to_per_worker`: largest payload per worker that it carries.
    - `efficiency`: share of the bandwidth that it leaves to the payload.
    """

    name: str
    up_to_per_worker: PositiveBytes
    efficiency: Density = 1.0


class MeasuredCollective(Spec):
    """A measured collective at one worker count: bytes of the payload to seconds.

    `bandwidth` and `latency` are the fabric's as it was measured: on any other fabric the curve does not apply.

    - `primitive`: the collective.
    - `topology`: kind whose price the curve replaces.
    - `workers`: at which it was measured, and at which alone it applies.
    - `gpus_per_node`: of the cluster it was measured on.
    - `points`: pairs of payload and seconds, payloads rising.
    - `held_out_mape`: mean absolute relative error on points that were left out.
    - `source`: where the measurement was published.
    """

    primitive: Literal["all_reduce", "all_gather", "reduce_scatter", "broadcast"]
    topology: str
    workers: int = Field(ge=2)
    gpus_per_node: int = Field(ge=1)
    bandwidth: BytesPerSecond
    latency: Seconds
    points: tuple[tuple[PositiveBytes, Seconds], ...] = Field(min_length=2)
    held_out_mape: Fraction | None = None
    source: str

    _checked = field_validator("points")(rising)

    @cached_property
    def curve(self) -> Piecewise:
        """The points as a curve, straight on log-log axes between them."""
        return Piecewise(points=self.points)

    @property
    def id(self) -> str:
        """Name of the curve in a result's `calibration`."""
        return f"{self.primitive}/{self.topology}/{self.workers}x{self.gpus_per_node}"


class Fabric(Component, family="fabric"):
    """Base of all fabrics: a NIC per node, a link inside the node, and what was measured on them.

    - `bandwidth`: what a NIC carries per direction after protocol headers.
    - `latency`: start-up of one message between nodes, end to end.
    - `intra_node`: what joins the GPUs of a node; without it they talk at the NIC's figures.
    - `incast`: measured pairs of concurrent senders and the share of a NIC's bandwidth that is left; none: all of it.
    - `name`: what results call it.
    - `source`: where the figures come from.
    - `held_out_mape`: mean absolute relative error of the link law on measurements that it was not fitted to.
    - `nics_per_node`: NICs of a node, which its GPUs take in turn.
    - `protocols`: wire protocols by payload; none: the full bandwidth for all.
    - `measured`: collectives that were measured on this fabric; a curve is used where it applies.

    What a collective takes beside the wires, whatever the number of workers; exchanges that meet others on the links go
    without both:

    - `collective_start_up`: seconds of every collective, once.
    - `copy_bandwidth`: at which its payload goes through the GPU's own memory.
    """

    name: str = ""
    source: str = ""
    bandwidth: BytesPerSecond
    latency: Seconds = 0.0
    held_out_mape: Fraction | None = None
    intra_node: IntraNode | None = None
    nics_per_node: int = Field(default=1, ge=1, le=64)
    incast: tuple[tuple[Annotated[int, Field(ge=1)], Density], ...] = ()
    protocols: tuple[Protocol, ...] = ()
    collective_start_up: Seconds = 0.0
    copy_bandwidth: BytesPerSecond | None = None
    measured: tuple[MeasuredCollective, ...] = ()

    def wire(self, layout: Layout, endpoint_bandwidth: float | None = None) -> Wiring:
        """Lay the fabric out; `endpoint_bandwidth` caps what the software of one endpoint moves.

        Raises an expected-error where the cluster does not fit on the fabric.
        """
        return self.lay(layout, layout.placement(), endpoint_bandwidth)

    def lay(self, layout: Layout, placement: Placement, endpoint_bandwidth: float | None = None) -> Wiring:
        """Lay the fabric out for places that stand anywhere; `layout` is that of the job in question."""
        across = self.across(placement, min(self.bandwidth, endpoint_bandwidth or np.inf))
        inside = self.inside(placement)
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
        )

    def across(self, placement: Placement, nic: float) -> Links:
        """Links between the nodes; `nic` is what one NIC moves per second and direction."""
        raise NotImplementedError

    def inside(self, placement: Placement) -> Links:
        """Links inside the nodes: `intra_node`, or ports at the NIC's figures."""
        return (self.intra_node or IntraNode(bandwidth=self.bandwidth, latency=self.latency)).links(placement)

    def nics(self, placement: Placement, nic: float) -> Links:
        """The NICs alone, out then in: the GPUs of a node share its `nics_per_node` in turn."""
        count, nodes = self.nics_per_node, placement.nodes
        out = placement.node * count + placement.rank % count
        ports, latency = nodes * count, np.float64(self.latency)

        def route(src: Ints, dst: Ints) -> Route:
            return Route(out[src], out[dst] + ports, np.broadcast_to(latency, src.shape))

        return Links(np.full(2 * ports, nic), _nic_names(nodes, count), route)

    def protocol_factor(self, nbytes: Floats, workers: int) -> Floats:
        """How many bytes the wire carries per byte of payload, for each payload (b,)."""
        factor = np.ones_like(nbytes)
        for protocol in sorted(self.protocols, key=lambda item: -item.up_to_per_worker):
            factor = np.where(nbytes <= protocol.up_to_per_worker * workers, 1 / protocol.efficiency, factor)
        return factor

    def beside(self, nbytes: Floats) -> Floats:
        """Seconds that collectives of payloads (b,) take beside the wires."""
        copied = nbytes / self.copy_bandwidth if self.copy_bandwidth else np.zeros(len(nbytes))
        return np.where(nbytes > 0, self.collective_start_up + copied, 0.0)

    def rings(self, layout: Layout) -> Rings:
        """The rings that a ring topology is to use here; none: one in node order."""
        return ()

    def measured_curve(self, primitive: str, topology: str, layout: Layout) -> MeasuredCollective | None:
        """The collective measured at exactly this layout and on this very fabric, or None."""
        wanted = (primitive, topology, layout.workers, layout.gpus_per_node, self.bandwidth, self.latency)
        for item in self.measured:
            same = (item.primitive, item.topology, item.workers, item.gpus_per_node, item.bandwidth, item.latency)
            if same == wanted:
                return item
        return None

    def foreign_curves(self) -> list[MeasuredCollective]:
        """Curves that were measured at another bandwidth or latency, and so are not used."""
        return [item for item in self.measured if (item.bandwidth, item.latency) != (self.bandwidth, self.latency)]


@cache_small_results  # a sweep lays the same cluster out again and again
def _nic_names(nodes: int, count: int) -> tuple[str, ...]:
    number = [f" {i}" if count > 1 else "" for i in range(count)]
    return tuple(f"node {n} NIC{i} {way}" for way in ("out", "in") for n in range(nodes) for i in number)
