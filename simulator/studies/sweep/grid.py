"""The grid of a sweep: which keys vary, over which values, and which points are left out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.loading.documents import Document, KeyPath
from simulator.records import Record
from simulator.scenario.conditions import COMPARE, NOT, is_comparison, matches, number_of, part_of
from simulator.units import DIMENSIONS

MAX_POINTS = 250_000
MAX_VALUES = 2 * MAX_POINTS
KEYS = ("name", "question", "base", "vary", "zip", "skip", "intervals", "verdicts")
_RANGE = ("from", "to", "scale", "points")
_SCALES = ("linear", "log")
_MOST = 1e30


class Axis(Record):
    """One varied key: its values as they are written, and the place of each in the sweep file."""

    key: str
    values: tuple[Any, ...]
    places: tuple[KeyPath, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """The key, split at its dots."""
        return tuple(self.key.split("."))


class SweepGrid(Record, dict=True):
    """All combinations of the entries of the dimensions; a dimension is a varied key or a group of keys under `zip`.

    Points are numbered from 0, the last dimension changes fastest; `left_out` (size,) marks the skipped ones.
    """

    dimensions: tuple[tuple[Axis, ...], ...]
    left_out: np.ndarray

    @cached_property
    def steps(self) -> tuple[tuple[int, int], ...]:
        """Of each axis: by how many points its value changes, and how many values there are."""
        shape = self.shape
        each = [(math.prod(shape[place + 1 :]), size) for place, size in enumerate(shape)]
        return tuple(step for step, dimension in zip(each, self.dimensions, strict=True) for _ in dimension)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All varied keys in the order they are written."""
        return tuple(chain.from_iterable(self.dimensions))

    @property
    def shape(self) -> tuple[int, ...]:
        """Entries of each dimension."""
        return tuple(len(dimension[0].values) for dimension in self.dimensions)

    def numbers(self) -> list[int]:
        """The points that are not skipped, in order."""
        return [int(number) for number in np.flatnonzero(~self.left_out)]

    def choice(self, number: int) -> tuple[int, ...]:
        """Which of its values each axis takes at a point."""
        return tuple([number // step % size for step, size in self.steps])


def read_grid(document: Document, near: Path) -> SweepGrid:
    """The grid of a sweep file. Raises InputError with every problem found, each with its place."""
    return _GridReader(document, near).grid()


class _GridReader:
    """Reads `vary`, `zip` and `skip`, and collects the problems."""

    def __init__(self, document: Document, near: Path) -> None:
        self.document, self.near = document, near
        self.problems: list[Problem] = []
        self.seen: set[str] = set()
        self.made = 0

    def grid(self) -> SweepGrid:
        data = self.document.mapping("a sweep: a mapping")
        for key in data:
            if key not in KEYS:
                self._wrong((key,), "a known key", f"'{key}'", suggest_nearest(str(key), KEYS))
        dimensions: list[tuple[Axis, ...]] = [(axis,) for axis in self._axes(data.get("vary", {}), ("vary",))]
        dimensions += self._zipped(data.get("zip", []))
        if "base" not in data:
            self._wrong((), "a `base`: a scenario or its name", "nothing", name="base")
        if not dimensions and not self.problems:
            self._wrong((), "keys to `vary` or to `zip`", "none", name="vary")
        size = math.prod(len(dimension[0].values) for dimension in dimensions)
        if size > MAX_POINTS:
            self._wrong(("vary",), f"at most {MAX_POINTS:,} points", f"{size:,}", "sweep one part after the other")
        if self.problems:
            raise InputError(self.problems)
        left_out = self._left_out(data.get("skip", []), SweepGrid(tuple(dimensions), np.zeros(size, dtype=bool)))
        if not self.problems and left_out.all():
            self._wrong(("skip",), "at least one point that is not skipped", "none")
        if self.problems:
            raise InputError(self.problems)
        return SweepGrid(tuple(dimensions), left_out)

    def _wrong(self, path: KeyPath, what: str, got: str, hint: str = "", name: str = "") -> None:
        place = f"{self.document.where(path)}: {name}" if name else self.document.describe_place(path)
        self.problems.append(Problem(place, what, got, hint))

    def _axes(self, given: Any, path: KeyPath) -> Iterator[Axis]:
        if not isinstance(given, dict):
            self._wrong(path, "a mapping from dotted keys to values", format_value(given))
            return
        for key, values in given.items():
            at = (*path, key)
            if not all(str(key).split(".")):
                self._wrong(at, "a dotted key such as cluster.nodes", format_value(key))
            elif key in self.seen:
                self._wrong(at, "each key once", f"'{key}' again")
            else:
                self.seen.add(key)
                listed, places = self._values(values, at)
                if listed:
                    yield Axis(key, tuple(listed), tuple(places))

    def _zipped(self, given: Any) -> Iterator[tuple[Axis, ...]]:
        if not isinstance(given, list):
            self._wrong(("zip",), "a list of mappings whose lists go together", format_value(given))
            return
        for number, group in enumerate(given):
            axes = tuple(self._axes(group, ("zip", number)))
            lengths = {axis.key: len(axis.values) for axis in axes}
            if len(set(lengths.values())) > 1:
                counts = ", ".join(f"{key} {count}" for key, count in lengths.items())
                self._wrong(("zip", number), "lists of one length", counts)
            elif axes:
                yield axes

    def _values(self, given: Any, path: KeyPath) -> tuple[list[Any], list[KeyPath]]:
        """Values of one key, and their places; none where they cannot be read."""
        if isinstance(given, dict) and ("from" in given or "to" in given):
            listed = self._range(given, path)
            return listed, [path] * len(listed)
        if not isinstance(given, list | tuple) or not given:
            self._wrong(path, "a list of values, or {from, to, scale, points}", format_value(given))
            return [], []
        return list(given), [(*path, place) for place in range(len(given))]

    def _range(self, given: Mapping[str, Any], path: KeyPath) -> list[Any]:
        found = len(self.problems)
        for key in given:
            if key not in _RANGE:
                self._wrong((*path, key), "a known key", f"'{key}'", suggest_nearest(str(key), _RANGE))
        ends = []
        for key in ("from", "to"):
            end = number_of(given.get(key))
            if end is None:
                got = format_value(given[key]) if key in given else "nothing"
                self._wrong((*path, key), "a number or a quantity with its unit", got)
            else:
                ends.append(end)
        scale, points = given.get("scale", "linear"), given.get("points")
        if scale not in _SCALES:
            self._wrong((*path, "scale"), "linear or log", format_value(scale))
        if isinstance(points, bool) or not isinstance(points, int) or not 2 <= points <= MAX_POINTS:
            got = "nothing" if points is None else format_value(points)
            self._wrong((*path, "points"), f"a whole number from 2 to {MAX_POINTS:,}", got)
        if len(ends) == 2:
            self._check_ends(given, ends, scale == "log", path)
        if len(self.problems) == found:
            self.made += int(points or 0)
            if self.made > MAX_VALUES:
                self._wrong(path, f"at most {MAX_VALUES:,} values of all ranges together", f"{self.made:,}")
        if len(self.problems) > found:
            return []
        whole = all(isinstance(given[key], int) for key in ("from", "to"))
        unit = next((DIMENSIONS[dimension].si for _, dimension in ends if dimension), "")
        made = _spread(ends[0][0], ends[1][0], int(points or 0), scale == "log", whole)
        return [f"{value!r} {unit}" for value in made] if unit else made

    def _check_ends(self, given: Mapping[str, Any], ends: list[tuple[float, str]], log: bool, path: KeyPath) -> None:
        """Check that both ends have units of one kind and that the steps between them are finite."""
        got, least = f"{given['from']} and {given['to']}", min(ends)[0]
        if len({dimension for value, dimension in ends if value or dimension}) > 1:
            self._wrong(path, "both ends in units of one kind", got)
        if log and least <= 0:
            self._wrong(path, "both ends above 0, for a log scale", got)
        if max(abs(end) for end, _ in ends) > _MOST or (log and 0 < least < 1 / _MOST):
            self._wrong(path, f"ends from {1 / _MOST:g} to {_MOST:g}", got)

    def _left_out(self, given: Any, grid: SweepGrid) -> np.ndarray:
        """Which points (size,) match every condition of one of the entries."""
        left_out = np.zeros(grid.shape, dtype=bool)
        if not isinstance(given, list):
            self._wrong(("skip",), "a list of mappings from dotted keys to values", format_value(given))
            given = []
        for number, entry in enumerate(given):
            if not isinstance(entry, dict) or not entry:
                self._wrong(("skip", number), "a mapping from dotted keys to values", format_value(entry))
                continue
            match = np.ones(grid.shape, dtype=bool)
            for key, condition in entry.items():
                match &= self._matching(key, condition, ("skip", number, key), grid)
            left_out |= match
        return left_out.ravel()

    def _matching(self, key: str, condition: Any, path: KeyPath, grid: SweepGrid) -> np.ndarray:
        """Where one condition holds, in a shape that broadcasts with the grid's."""
        matching: list[tuple[int, int, Axis]] = []
        for number, dimension in enumerate(grid.dimensions):
            matching += [(len(a.key), number, a) for a in dimension if f"{key}.".startswith(f"{a.key}.")]
        if not matching:
            self._wrong(path, "a key that varies, or a part of it", f"'{key}'", suggest_nearest(key, self.seen))
            return np.zeros(1, dtype=bool)
        if not self._readable(condition, path):
            return np.zeros(1, dtype=bool)
        _, number, axis = max(matching, key=lambda item: item[0])
        rest = key[len(axis.key) + 1 :].split(".") if key != axis.key else []
        shape = [1] * len(grid.shape)
        shape[number] = len(axis.values)
        values = [part_of(value, rest, self.near) for value in axis.values]
        return np.array([matches(value, condition) for value in values]).reshape(shape)

    def _readable(self, condition: Any, path: KeyPath) -> bool:
        found = len(self.problems)
        if is_comparison(condition):
            for word, operand in condition.items():
                if word in COMPARE and number_of(operand) is None:
                    self._wrong((*path, word), "a number or a quantity with its unit", format_value(operand))
                elif word not in COMPARE and word != NOT:
                    self._wrong(
                        (*path, word), "a known comparison", f"'{word}'", suggest_nearest(word, [*COMPARE, NOT])
                    )
        return len(self.problems) == found


def _spread(first: float, last: float, points: int, log: bool, whole: bool) -> list[Any]:
    """`points` values from `first` to `last`, to 12 digits; whole numbers where both ends and the value are whole."""
    steps = [place / (points - 1) for place in range(points)]
    made = [first * (last / first) ** step if log else first + (last - first) * step for step in steps]
    made = [first, *(float(f"{value:.12g}") for value in made[1:-1]), last]
    return [int(value) if whole and value == int(value) else value for value in made]
