"""One switch that never blocks."""

from __future__ import annotations

from typing import Self

from simulator.fabrics.base import Fabric
from simulator.models.exchange import Placement
from simulator.models.wiring import Links
from simulator.records import replace
from simulator.units import Bytes


class SingleSwitch(Fabric, kind="single_switch"):
    """All nodes on one non-blocking switch: only NICs and links inside the nodes limit the bandwidth.

    `burst`: depth of the token bucket of every NIC, in bytes of payload, as `tc tbf` and cloud providers use them. The
    bucket fills at `bandwidth` while the NIC is not busy, and as many bytes as it holds pass at once: a message on an
    idle NIC takes alpha + max(0, S - burst)/B. The bucket is full before the first iteration; each exchange finds what
    those before it have left, so a bucket that lasts for many iterations needs as many of `warmup`.
    """

    burst: Bytes = 0.0

    def across(self, placement: Placement, nic: float) -> Links:
        """One link per NIC and direction."""
        return replace(self.nics(placement, nic), burst=self.burst)

    def shared_by(self, groups: int, in_node: int, stride: int = 1) -> Self:
        """The network with a group's share of NICs and of their buckets."""
        burst = self.burst * self.share_of_rail(in_node)
        return super().shared_by(groups, in_node, stride).model_copy(update={"burst": burst})
