"""The network as exchanges see it: topology, fabric, its layout for one cluster, and its conditions."""

from __future__ import annotations

from math import prod
from typing import Literal

import numpy as np

from simulator.component import expected
from simulator.engine.rounds.disturbances import NO_DISTURBANCES, Disturbances, LinkChange, SteadyTraffic
from simulator.errors import suggest_nearest
from simulator.fabrics.base import Fabric
from simulator.hardware.machine import Machine
from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.models.wiring import Wiring
from simulator.records import Record, replace
from simulator.topologies.base import Topology
from simulator.units import show_bandwidth

_ROUNDING = 1e-9


class LinkSpeed(Record):
    """Links whose name is or starts with `link` carry `factor` of their bandwidth from `start` to `until` (seconds)."""

    link: str
    factor: float
    start: float = 0.0
    until: float | None = None


class LinkSteps(Record):
    """What links whose name is or starts with `link` carry from each of `times` on: seconds, rising, perhaps below 0.

    Either `shares` of their bandwidth or `rates` in bytes/s, one for each time. Before the first time they carry all of
    their bandwidth, after the last one what that says.
    """

    link: str
    times: tuple[float, ...]
    shares: tuple[float, ...] = ()
    rates: tuple[float, ...] = ()

    def shares_at(self, times: Floats, capacity: float, name: str) -> Floats:
        """The share at each time of a link of this capacity (bytes/s). Raises an expected-error for rates above it."""
        if self.rates and max(self.rates) > capacity * (1 + _ROUNDING):
            most, hint = show_bandwidth(capacity), "the network states less than the trace carried: raise its rate"
            raise expected(f"at most {most} on {name}", show_bandwidth(max(self.rates)), hint)
        shares = np.array(self.shares) if self.shares else np.minimum(np.array(self.rates) / capacity, 1.0)
        return np.concatenate([[1.0], shares])[np.searchsorted(np.array(self.times), times, side="right")]


class Background(Record):
    """Traffic between two nodes that is not the job's own: at most `bandwidth` bytes/s, with fair shares of links."""

    source: int
    destination: int
    bandwidth: float


class Conditions(Record):
    """Links that are slow or change, what was recorded of links, and traffic that is not the job's own."""

    links: tuple[LinkSpeed, ...] = ()
    background: tuple[Background, ...] = ()
    recorded: tuple[LinkSteps, ...] = ()

    def slowed(self, wiring: Wiring) -> Wiring:
        """The wiring with the capacities of links that are slow all the time."""
        capacity = wiring.capacity.copy()
        for link, (windows, steps) in self._by_link(wiring).items():
            if not steps and all(_is_permanent(item) for item in windows):
                capacity[link] *= prod(item.factor for item in windows)
        return replace(wiring, capacity=capacity) if self.links else wiring

    def disturbances(self, wiring: Wiring) -> Disturbances:
        """Changes in time and steady traffic on this wiring; where conditions overlap, their factors multiply.

        Raises an expected-error for a link or node that does not exist, and for a link that carried more than it can.
        """
        together: dict[tuple[float, float], list[int]] = {}
        for link, (windows, steps) in self._by_link(wiring).items():
            if not steps and all(_is_permanent(item) for item in windows):
                continue
            starts = [item.start for item in windows] + [max(0.0, time) for item in steps for time in item.times]
            times = np.unique([*starts, *(item.until for item in windows if item.until is not None)])
            factors = np.ones(len(times))
            for item in windows:
                factors[(item.start <= times) & (times < (np.inf if item.until is None else item.until))] *= item.factor
            for each in steps:
                factors *= each.shares_at(times, float(wiring.capacity[link]), wiring.names[link])
            new = factors != np.concatenate([[1.0], factors[:-1]])
            for time, factor in zip(times[new].tolist(), factors[new].tolist(), strict=True):
                together.setdefault((time, factor), []).append(link)
        changes = [LinkChange(time, tuple(links), factor) for (time, factor), links in sorted(together.items())]
        steady = []
        for other in self.background:
            ends = []
            for node in (other.source, other.destination):
                there = np.flatnonzero(wiring.node == node)
                if not len(there):
                    raise expected(f"a node below {int(wiring.node.max()) + 1}", str(node), "nodes count from 0")
                ends.append(int(there[0]))
            steady.append(SteadyTraffic(ends[0], ends[1], other.bandwidth))
        return Disturbances(tuple(changes), tuple(steady)) if changes or steady else NO_DISTURBANCES

    def _by_link(self, wiring: Wiring) -> dict[int, tuple[list[LinkSpeed], list[LinkSteps]]]:
        """The conditions of each link that has any, and what was recorded of it."""
        made: dict[int, tuple[list[LinkSpeed], list[LinkSteps]]] = {}
        for condition in self.links:
            for link in _find_links(wiring, condition.link).tolist():
                made.setdefault(link, ([], []))[0].append(condition)
        for recorded in self.recorded:
            for link in _find_links(wiring, recorded.link).tolist():
                made.setdefault(link, ([], []))[1].append(recorded)
        return made


IDLE = Conditions()


def _is_permanent(item: LinkSpeed) -> bool:
    return item.start == 0 and item.until is None and item.factor > 0


def _find_links(wiring: Wiring, name: str) -> np.ndarray:
    found = [i for i, each in enumerate(wiring.names) if each == name or each.startswith(f"{name} ")]
    if not found:
        raise expected("a link of this fabric", name, suggest_nearest(name, wiring.names))
    return np.array(found)


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
