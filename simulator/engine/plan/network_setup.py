"""The network as exchanges see it: topology, fabric, its layout for one cluster, and what else uses its links."""

from __future__ import annotations

from typing import Literal

from simulator.engine.rounds.disturbances import NO_DISTURBANCES, Disturbances
from simulator.fabrics.base import Fabric
from simulator.hardware.machine import Machine
from simulator.models.exchange import Ints
from simulator.models.wiring import Wiring
from simulator.records import Record
from simulator.topologies.base import Topology

Fidelity = Literal["auto", "fold", "flows"]


class NetworkSetup(Record):
    """What exchanges are timed on: the topology, the fabric and its links, and the interpreter of rounds.

    `disturbances`: changes of links and traffic that is not the job's own. `healthy`: every link has the capacity that
    the fabric states, so that what was measured on the fabric applies. `device`: name of the GPUs. `shared`: links
    change in time, or carry traffic of other jobs. `seats`: numbers of another job's places among all places.
    """

    topology: Topology
    fabric: Fabric
    wiring: Wiring
    fidelity: Fidelity = "auto"
    disturbances: Disturbances = NO_DISTURBANCES
    healthy: bool = True
    device: str = ""
    shared: bool = False
    seats: Ints | None = None

    @property
    def machine(self) -> Machine | None:
        """The hardware as a collective library sees it, for a topology that chooses by it."""
        return self.fabric.machine(self.wiring.layout, self.device) if self.topology.by_machine else None
