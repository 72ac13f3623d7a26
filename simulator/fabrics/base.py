"""The fabric family: links with capacities, routes over them, and the collectives measured on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from pydantic import Field, field_validator

from simulator.component import Component, Spec
from simulator.models.curves import Floats, Piecewise, rising
from simulator.models.exchange import Ints, Layout
from simulator.units import BytesPerSecond, Density, Fraction, PositiveBytes, Seconds


class IntraNode(Spec):
    """The link between the GPUs of one node (NVLink, PCIe through host memory): per direction, per GPU."""

    bandwidth: BytesPerSecond
    latency: Seconds = 0.0


class Protocol(Spec):
    """A wire protocol of the collective library, used while the payload per worker is small enough.

    NCCL's LL sends 4 bytes of data with a 4-byte flag, so it reaches half the bandwidth, at a low latency.
    """

    name: str
    up_to_per_worker: PositiveBytes
    efficiency: Density = 1.0


class MeasuredCollective(Spec):
    """A measured collective at one worker count: bytes of the payload to seconds.

    `bandwidth` and `latency` are the fabric's as it was measured: on any other fabric the curve does not apply.
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


@dataclass(frozen=True)
class Wiring:
    """A fabric laid out for one cluster: link capacities (L,), names, and the ends of each route.

    A message leaves through its first link and arrives through its last; what lies between never blocks here.
    """

    layout: Layout
    node: Ints
    capacity: Floats
    names: tuple[str, ...]
    egress: Ints
    ingress: Ints
    local_egress: Ints
    local_ingress: Ints
    latency: float
    local_latency: float

    def route(self, src: Ints, dst: Ints) -> tuple[Ints, Ints, Floats]:
        """First link, last link and latency of each message, each (m,)."""
        local = self.node[src] == self.node[dst]
        first = np.where(local, self.local_egress[src], self.egress[src])
        last = np.where(local, self.local_ingress[dst], self.ingress[dst])
        return first, last, np.where(local, self.local_latency, self.latency)


class Fabric(Component, family="fabric"):
    """Base of all fabrics: a NIC per node, a link inside the node, and what was measured on them.

    `bandwidth` is what a NIC carries per direction after protocol headers, `latency` the start-up of one message
    between nodes, end to end. Without `intra_node` the GPUs of a node talk through the NIC's figures.
    """

    name: str = ""
    source: str = ""
    bandwidth: BytesPerSecond
    latency: Seconds = 0.0
    held_out_mape: Fraction | None = None
    intra_node: IntraNode | None = None
    protocols: tuple[Protocol, ...] = ()
    measured: tuple[MeasuredCollective, ...] = ()

    def wire(self, layout: Layout, endpoint_bandwidth: float | None = None) -> Wiring:
        """Lay the fabric out; `endpoint_bandwidth` caps what the software of one endpoint moves."""
        raise NotImplementedError

    def protocol_factor(self, nbytes: Floats, workers: int) -> Floats:
        """How many bytes the wire carries per byte of payload, for each payload (b,)."""
        factor = np.ones_like(nbytes)
        for protocol in sorted(self.protocols, key=lambda item: -item.up_to_per_worker):
            factor = np.where(nbytes <= protocol.up_to_per_worker * workers, 1 / protocol.efficiency, factor)
        return factor

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
