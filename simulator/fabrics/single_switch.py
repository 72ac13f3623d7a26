"""One switch that never blocks."""

from __future__ import annotations

from simulator.fabrics.base import Fabric, Links
from simulator.models.exchange import Placement


class SingleSwitch(Fabric, kind="single_switch"):
    """All nodes on one non-blocking switch: only the NICs and the links inside the nodes can be busy."""

    def across(self, placement: Placement, nic: float) -> Links:
        """One link per NIC and direction."""
        return self.nics(placement, nic)
