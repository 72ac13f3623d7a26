"""What disturbs exchanges on the network: links that change, and traffic of others; and what cannot be followed."""

from __future__ import annotations

from simulator.records import Record


class LinkChange(Record):
    """From `time` (seconds) on, links `links` carry `factor` times their capacity."""

    time: float
    links: tuple[int, ...]
    factor: float


class SteadyTraffic(Record):
    """Traffic that never ends, from place `src` to place `dst`: at most `rate` bytes/s."""

    src: int
    dst: int
    rate: float


class Disturbances(Record):
    """Changes of links, and steady traffic of others."""

    changes: tuple[LinkChange, ...] = ()
    steady: tuple[SteadyTraffic, ...] = ()


NO_DISTURBANCES = Disturbances()


class Stalled(Exception):
    """Some flows will never end; the error carries the names of the dead links that they wait for."""


class TooManyMessages(Exception):
    """An exchange has more different messages than one machine can follow; the error carries their number."""
