"""What disturbs exchanges on the network: links that change their capacity, and traffic of others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LinkChange:
    """From `time` (seconds) on, links `links` carry `factor` times their capacity."""

    time: float
    links: tuple[int, ...]
    factor: float


@dataclass(frozen=True, slots=True)
class SteadyTraffic:
    """Traffic that never ends, from place `src` to place `dst`: at most `rate` bytes/s."""

    src: int
    dst: int
    rate: float


@dataclass(frozen=True, slots=True)
class Disturbances:
    """Changes of links, and steady traffic of others."""

    changes: tuple[LinkChange, ...] = ()
    steady: tuple[SteadyTraffic, ...] = ()


NO_DISTURBANCES = Disturbances()
