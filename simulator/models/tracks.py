"""A timeline as it is drawn: tracks of slices, arrows between them, and counters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Slice:
    """Something that took time on a track; `category` is what such slices are added up by. Seconds."""

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
    """From a slice to a later one, each given by its track and start."""

    name: str
    source: tuple[int, float]
    target: tuple[int, float]


@dataclass(frozen=True, slots=True)
class Counter:
    """A quantity over time: from each moment on, the values of its `series`, in `points` of one column each."""

    group: str
    name: str
    series: tuple[str, ...]
    points: list[tuple[float, tuple[float, ...]]]


@dataclass(slots=True)
class Timeline:
    """Everything that is drawn; `about` is what it was made from."""

    tracks: list[Track]
    arrows: list[Arrow]
    counters: list[Counter]
    about: dict[str, Any]
