"""A timeline for drawing: tracks of slices, arrows between them, and counters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Slice:
    """One activity on a track, in seconds; `category` groups slices for sums."""

    name: str
    start: float
    end: float
    category: str
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Track:
    """One line of a timeline, within a group such as a worker. Its slices never overlap."""

    group: str
    name: str
    slices: list[Slice] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from a slice to a later one, each given by its track and start."""

    name: str
    source: tuple[int, float]
    target: tuple[int, float]


@dataclass(frozen=True, slots=True)
class Counter:
    """A quantity over time: `points` are pairs of a time and the values of all `series` from then on."""

    group: str
    name: str
    series: tuple[str, ...]
    points: list[tuple[float, tuple[float, ...]]]


@dataclass(slots=True)
class Timeline:
    """All that is drawn; `about` describes its source."""

    tracks: list[Track]
    arrows: list[Arrow]
    counters: list[Counter]
    about: dict[str, Any]
