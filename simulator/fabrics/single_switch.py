"""One switch that never blocks."""

from __future__ import annotations

from dataclasses import replace

from simulator.fabrics.base import Fabric
from simulator.models.exchange import Placement
from simulator.models.wiring import Links
from simulator.units import Bytes


class SingleSwitch(Fabric, kind="single_switch"):
    """All nodes on one non-blocking switch: only the NICs and the links inside the nodes can be busy.

    `burst`: depth of the token bucket that shapes every NIC, in bytes of payload, as `tc tbf` and cloud providers have
    them: it fills at `bandwidth` while the NIC is not busy, and what it holds passes at once, so that a message on an
    idle NIC takes alpha + max(0, S - burst)/B.
    """

    burst: Bytes = 0.0

    def across(self, placement: Placement, nic: float) -> Links:
        """One link per NIC and direction."""
        return replace(self.nics(placement, nic), burst=self.burst)
