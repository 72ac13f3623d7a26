"""What else happens on the wires while exchanges are under way."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """From `time` on, links `links` carry `factor` times their capacity."""

    time: float
    links: tuple[int, ...]
    factor: float


@dataclass(frozen=True, slots=True)
class Steady:
    """Traffic that never ends: from one place to another, at most `rate` bytes/s."""

    src: int
    dst: int
    rate: float


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What else happens on the wires: changing capacities, and traffic of others."""

    changes: tuple[Change, ...] = ()
    steady: tuple[Steady, ...] = ()


NOTHING_ELSE = Surroundings()
