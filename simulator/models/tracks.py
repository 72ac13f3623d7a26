"""A timeline for drawing: tracks of slices, arrows between them, and counters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulator.records import Record, Struct, field


class Slice(Record):
    """One activity on a track, in seconds; `category` groups slices for sums."""

    name: str
    start: float
    end: float
    category: str
    details: dict[str, Any] = field(default_factory=dict)


class Track(Struct):
    """One line of a timeline, within a group such as a worker. Its slices never overlap."""

    group: str
    name: str
    slices: list[Slice] = field(default_factory=list)


class Arrow(Record):
    """An arrow from a slice to a later one, each given by its track and start."""

    name: str
    source: tuple[int, float]
    target: tuple[int, float]


class Counter(Record):
    """A quantity over time: `points` are pairs of a time and the values of all `series` from then on."""

    group: str
    name: str
    series: tuple[str, ...]
    points: list[tuple[float, tuple[float, ...]]]


class Timeline(Struct):
    """All that is drawn; `about` describes its source."""

    tracks: list[Track]
    arrows: list[Arrow]
    counters: list[Counter]
    about: Mapping[str, Any]
