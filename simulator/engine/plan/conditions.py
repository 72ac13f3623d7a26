"""Conditions of the network: links that are slow or change, and traffic that is not the job's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from simulator.component import expected
from simulator.engine.rounds.disturbances import NO_DISTURBANCES, Disturbances, LinkChange, SteadyTraffic
from simulator.errors import suggest_nearest
from simulator.models.wiring import Wiring


@dataclass(frozen=True, slots=True)
class LinkSpeed:
    """Links whose name is or starts with `link` carry `factor` of their bandwidth from `start` to `until` (seconds)."""

    link: str
    factor: float
    start: float = 0.0
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Background:
    """Traffic between two nodes that is not the job's own: at most `bandwidth` bytes/s, with fair shares of links."""

    source: int
    destination: int
    bandwidth: float


@dataclass(frozen=True, slots=True)
class Conditions:
    """Links that are slow or change, and traffic that is not the job's own."""

    links: tuple[LinkSpeed, ...] = ()
    background: tuple[Background, ...] = ()

    def slowed(self, wiring: Wiring) -> Wiring:
        """The wiring with the capacities of links that are slow all the time."""
        capacity = wiring.capacity.copy()
        for link, windows in self._windows(wiring).items():
            if all(_is_permanent(item) for item in windows):
                capacity[link] *= prod(item.factor for item in windows)
        return replace(wiring, capacity=capacity) if self.links else wiring

    def disturbances(self, wiring: Wiring) -> Disturbances:
        """Changes in time and steady traffic on this wiring; where conditions overlap, their factors multiply.

        Raises an expected-error for a link or node that does not exist.
        """
        together: dict[tuple[float, float], list[int]] = {}
        for link, windows in self._windows(wiring).items():
            if all(_is_permanent(item) for item in windows):
                continue
            times = {item.start for item in windows} | {item.until for item in windows if item.until is not None}
            last = 1.0
            for time in sorted(times):
                factor = prod(item.factor for item in windows if _applies_at(item, time))
                if factor != last:
                    together.setdefault((time, factor), []).append(link)
                last = factor
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

    def _windows(self, wiring: Wiring) -> dict[int, list[LinkSpeed]]:
        """The conditions of each link that has any."""
        made: dict[int, list[LinkSpeed]] = {}
        for item in self.links:
            for link in _find_links(wiring, item.link).tolist():
                made.setdefault(link, []).append(item)
        return made


IDLE = Conditions()


def _is_permanent(item: LinkSpeed) -> bool:
    return item.start == 0 and item.until is None and item.factor > 0


def _applies_at(item: LinkSpeed, time: float) -> bool:
    return item.start <= time and (item.until is None or time < item.until)


def _find_links(wiring: Wiring, name: str) -> np.ndarray:
    found = [i for i, each in enumerate(wiring.names) if each == name or each.startswith(f"{name} ")]
    if not found:
        raise expected("a link of this fabric", name, suggest_nearest(name, wiring.names))
    return np.array(found)
