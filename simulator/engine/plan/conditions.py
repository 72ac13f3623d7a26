"""Conditions on the wires: links that are slow or change, and traffic of others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from simulator.component import expected
from simulator.engine.rounds.surroundings import NOTHING_ELSE, Change, Steady, Surroundings
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
    """Traffic of others between two nodes, at most `bandwidth` bytes/s, fair to all."""

    source: int
    destination: int
    bandwidth: float


@dataclass(frozen=True, slots=True)
class Conditions:
    """What is not as it should be, or not ours alone."""

    links: tuple[LinkSpeed, ...] = ()
    background: tuple[Background, ...] = ()

    def slowed(self, wiring: Wiring) -> Wiring:
        """The wiring with links that are slow throughout."""
        capacity = wiring.capacity.copy()
        for link, windows in self._windows(wiring).items():
            if all(_throughout(item) for item in windows):
                capacity[link] *= prod(item.factor for item in windows)
        return replace(wiring, capacity=capacity) if self.links else wiring

    def surroundings(self, wiring: Wiring) -> Surroundings:
        """Changes in time and steady traffic on this wiring; where conditions overlap, their factors multiply.

        Raises an expected-error for links or nodes unknown.
        """
        together: dict[tuple[float, float], list[int]] = {}
        for link, windows in self._windows(wiring).items():
            if all(_throughout(item) for item in windows):
                continue
            times = {item.start for item in windows} | {item.until for item in windows if item.until is not None}
            last = 1.0
            for time in sorted(times):
                factor = prod(item.factor for item in windows if _holds(item, time))
                if factor != last:
                    together.setdefault((time, factor), []).append(link)
                last = factor
        changes = [Change(time, tuple(links), factor) for (time, factor), links in sorted(together.items())]
        steady = []
        for other in self.background:
            ends = []
            for node in (other.source, other.destination):
                there = np.flatnonzero(wiring.node == node)
                if not len(there):
                    raise expected(f"a node below {int(wiring.node.max()) + 1}", str(node), "nodes count from 0")
                ends.append(int(there[0]))
            steady.append(Steady(ends[0], ends[1], other.bandwidth))
        return Surroundings(tuple(changes), tuple(steady)) if changes or steady else NOTHING_ELSE

    def _windows(self, wiring: Wiring) -> dict[int, list[LinkSpeed]]:
        """The conditions of each link that has any."""
        made: dict[int, list[LinkSpeed]] = {}
        for item in self.links:
            for link in _named(wiring, item.link).tolist():
                made.setdefault(link, []).append(item)
        return made


IDLE = Conditions()


def _throughout(item: LinkSpeed) -> bool:
    return item.start == 0 and item.until is None and item.factor > 0


def _holds(item: LinkSpeed, time: float) -> bool:
    return item.start <= time and (item.until is None or time < item.until)


def _named(wiring: Wiring, name: str) -> np.ndarray:
    found = [i for i, each in enumerate(wiring.names) if each == name or each.startswith(f"{name} ")]
    if not found:
        raise expected("a link of this fabric", name, suggest_nearest(name, wiring.names))
    return np.array(found)
