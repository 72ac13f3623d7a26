"""The network as exchanges see it: topology, fabric, its layout for one cluster, and its conditions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Literal

import numpy as np
from pydantic import Field

from simulator.bounds import Index, ShareOfLink
from simulator.component import Spec, expected
from simulator.engine.rounds.disturbances import NO_DISTURBANCES, Disturbances, LinkChange, SteadyTraffic
from simulator.errors import suggest_nearest
from simulator.fabrics.base import Fabric
from simulator.hardware.machine import Machine
from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.models.wiring import Wiring
from simulator.records import Record, replace
from simulator.topologies.base import Topology
from simulator.units import BytesPerSecond, RateOrZero, Seconds, show_bandwidth

_ROUNDING = 1e-9
MAX_STEPS = 100_000
"""Rows of a trace: a day at one row a second."""


class LinkCondition(Spec):
    """Links with less bandwidth: all whose name is or starts with `link`, such as `node 3 NIC` or `leaf 0 to spine 1`.

    They keep `factor` of their bandwidth (0: none) from `start` to `until`, in seconds of an iteration (default: the
    whole time). A link that fails over is described by two conditions: down, then at the bandwidth of the backup link.
    """

    link: str = Field(min_length=1)
    factor: ShareOfLink
    start: Seconds = 0.0
    until: Seconds | None = None

    def refuse_unfit(self) -> None:
        if self.until is not None and self.until <= self.start:
            raise expected("`until` after `start`", f"{self.start:g} s to {self.until:g} s")

    @property
    def seconds(self) -> tuple[float, ...]:
        """The times at which it changes what a link carries."""
        return (self.start,) if self.until is None else (self.start, self.until)

    def shares_at(self, times: Floats, capacity: float, name: str) -> Floats:
        """The share at each time, whatever the link and its capacity."""
        holds = (self.start <= times) & (times < (np.inf if self.until is None else self.until))
        return np.where(holds, self.factor, 1.0)


class RecordedLink(Spec):
    """What the links whose name is or starts with `link` carried from each of `seconds` on, until the next one.

    - `link`: as in the `links` of a cluster.
    - `seconds`: times in rising order.
    - `share`: shares of their bandwidth that they carried.
    - `rate`: bandwidths, at most those that the network states; instead of `share`.
    """

    link: str = Field(min_length=1)
    seconds: tuple[Seconds, ...] = Field(min_length=1, max_length=MAX_STEPS)
    share: tuple[ShareOfLink, ...] = ()
    rate: tuple[RateOrZero, ...] = ()

    def refuse_unfit(self) -> None:
        if {len(self.share), len(self.rate)} != {0, len(self.seconds)}:
            got = f"{len(self.share)} and {len(self.rate)} for {len(self.seconds)} times"
            raise expected("a share, or a rate, for each time", got)
        fallen = next((pair for pair in pairwise(self.seconds) if pair[0] >= pair[1]), None)
        if fallen:
            raise expected("times that rise", f"{fallen[0]:g} s, then {fallen[1]:g} s", f"rows of {self.link} in order")

    def shares_at(self, times: Floats, capacity: float, name: str) -> Floats:
        """The share at each time of a link of this capacity (bytes/s). Raises an expected-error for rates above it."""
        if self.rate and max(self.rate) > capacity * (1 + _ROUNDING):
            most, hint = show_bandwidth(capacity), "the network states less than the trace carried: raise its rate"
            raise expected(f"at most {most} on {name}", show_bandwidth(max(self.rate)), hint)
        shares = np.array(self.share) if self.share else np.minimum(np.array(self.rate) / capacity, 1.0)
        return np.concatenate([[1.0], shares])[np.searchsorted(np.array(self.seconds), times, side="right")]


class LinkTrace(Spec):
    """Recorded bandwidths of links: the name of a CSV file beside the scenario, or a mapping with `file` and `start`.

    The columns of the file are `seconds`, `link` (a name as in the `links` of a cluster) and either `share` (of the
    link's bandwidth, 0 to 1) or `rate` (with its unit); the rows of a link are in order of time. Each row holds until
    the next one of the same link. A link has its whole bandwidth before its first row, and after its last row what
    that says; a result warns where an iteration is longer than the trace.

    Every iteration, and every period of local steps, begins at second `start` of the trace. Schedules whose exchanges
    reach into the next period are refused.

    - `start`: seconds of the trace that have passed when an iteration begins.
    - `links`: the rows of the file, link by link.
    """

    start: Seconds = 0.0
    links: tuple[RecordedLink, ...] = Field(min_length=1)

    @property
    def length(self) -> float:
        """Seconds from `start` to the last row."""
        return max(item.seconds[-1] for item in self.links) - self.start

    def refuse_unfit(self) -> None:
        if self.length < 0:
            last = self.length + self.start
            raise expected(f"a `start` within the trace, at most {last:g} s", f"{self.start:g} s")

    def recorded(self) -> tuple[RecordedLink, ...]:
        """What was recorded of every link, in seconds of an iteration, which may be below 0."""
        shifted = (tuple(time - self.start for time in item.seconds) for item in self.links)
        return tuple(item.model_copy(update={"seconds": each}) for item, each in zip(self.links, shifted, strict=True))


class BackgroundTraffic(Spec):
    """Endless traffic between two nodes that is not this training's: at most `bandwidth`, with fair shares of links.

    - `source`: node that sends, counted from 0.
    - `destination`: node that receives.
    """

    source: Index
    destination: Index
    bandwidth: BytesPerSecond

    def refuse_unfit(self) -> None:
        if self.source == self.destination:
            raise expected("two different nodes", f"{self.source} twice")


class Conditions(Record):
    """Links that are slow or change, what was recorded of links, and traffic that is not the job's own."""

    links: tuple[LinkCondition | RecordedLink, ...] = ()
    background: tuple[BackgroundTraffic, ...] = ()

    def slowed(self, wiring: Wiring) -> Wiring:
        """The wiring with the capacities of links that are slow all the time."""
        capacity = wiring.capacity.copy()
        for link, conditions in self._by_link(wiring).items():
            capacity[link] *= prod(_lasting_factors(conditions))
        return replace(wiring, capacity=capacity) if self.links else wiring

    def disturbances(self, wiring: Wiring) -> Disturbances:
        """Changes in time and steady traffic on this wiring; where conditions overlap, their factors multiply.

        Raises an expected-error for a link or node that does not exist, and for a link that carried more than it can.
        """
        together: dict[tuple[float, float], list[int]] = {}
        for link, conditions in self._by_link(wiring).items():
            if _lasting_factors(conditions):
                continue
            times = np.unique([max(0.0, time) for item in conditions for time in item.seconds])
            factors = np.ones(len(times))
            for item in conditions:
                factors *= item.shares_at(times, float(wiring.capacity[link]), wiring.names[link])
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

    def _by_link(self, wiring: Wiring) -> dict[int, list[LinkCondition | RecordedLink]]:
        """The conditions of each link that has any."""
        made: dict[int, list[LinkCondition | RecordedLink]] = {}
        for condition in self.links:
            for link in _find_links(wiring, condition.link):
                made.setdefault(link, []).append(condition)
        return made


IDLE = Conditions()


def _lasting_factors(conditions: Sequence[LinkCondition | RecordedLink]) -> list[float]:
    """The factors of conditions that make a link slow all the time; none where it changes, or is dead."""
    lasting = (item for item in conditions if isinstance(item, LinkCondition) and item.seconds == (0.0,))
    factors = [item.factor for item in lasting if item.factor > 0]
    return factors if len(factors) == len(conditions) else []


def _find_links(wiring: Wiring, name: str) -> list[int]:
    found = [i for i, each in enumerate(wiring.names) if each == name or each.startswith(f"{name} ")]
    if not found:
        raise expected("a link of this fabric", name, suggest_nearest(name, wiring.names))
    return found


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
