"""Conditions on the wires: links that are slow or change, and traffic of others."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simulator.component import expected
from simulator.engine.network import NOTHING_ELSE, Change, Steady, Surroundings
from simulator.errors import nearest
from simulator.fabrics.base import Wiring


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
        for item in self.links:
            if item.start == 0 and item.until is None and item.factor > 0:
                capacity[_named(wiring, item.link)] *= item.factor
        return replace(wiring, capacity=capacity) if self.links else wiring

    def surroundings(self, wiring: Wiring) -> Surroundings:
        """Changes in time and steady traffic on this wiring. Raises an expected-error for links or nodes unknown."""
        changes = []
        for item in self.links:
            if item.start == 0 and item.until is None and item.factor > 0:
                continue
            links = tuple(_named(wiring, item.link).tolist())
            changes.append(Change(item.start, links, item.factor))
            if item.until is not None:
                changes.append(Change(item.until, links, 1.0))
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


IDLE = Conditions()


def _named(wiring: Wiring, name: str) -> np.ndarray:
    found = [i for i, each in enumerate(wiring.names) if each == name or each.startswith(f"{name} ")]
    if not found:
        raise expected("a link of this fabric", name, nearest(name, wiring.names))
    return np.array(found)
