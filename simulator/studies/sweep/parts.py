"""The parts of the scenarios of a sweep: each is validated once and then reused by all points that have it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from simulator.errors import InputError, Problem, format_value
from simulator.loading.documents import Document, KeyPath, read_document
from simulator.loading.finding import named_file
from simulator.loading.replacing import replace_key
from simulator.models.small_cache import LatestResults
from simulator.scenario.changes import as_data
from simulator.scenario.reading import bind, bind_measurement
from simulator.scenario.scenario import NOTES, Scenario
from simulator.studies.sweep.grid import Axis

_REMEMBERED = 4096
"""Validated parts that are kept: a sweep may have a new one at every point."""


class Parts:
    """The parts of a sweep's scenarios, from the base and the values of the axes that a point chooses.

    A part that is not valid by itself stays plain data; the points that have it report what is wrong. `applied` are the
    places of the axes that changed a part of some point; `foreign`, of those whose key some kind does not have, what is
    wrong if no other kind has it.
    """

    def __init__(self, document: Document, near: Path, axes: tuple[Axis, ...], strict: bool) -> None:
        self.document, self.axes = document, axes
        self.base_document, self.near = _read_base(document, near, strict)
        self.base = _shared_data(self.base_document, self.near, axes)
        self.context = {"units_required": strict, "near": self.near}
        self.anchored: dict[str, list[int]] = {}
        for place in sorted(range(len(axes)), key=lambda place: len(axes[place].parts)):
            self.anchored.setdefault(axes[place].parts[0], []).append(place)
        self.varied: LatestResults[Any] = LatestResults(_REMEMBERED)
        self.applied: set[int] = set()
        self.foreign: dict[int, Problem] = {}
        self.fixed = {key: self._part(key, [], ()) for key in self.base if key not in self.anchored}

    def of(self, choice: tuple[int, ...]) -> dict[str, Any]:
        """The fields of a point's scenario: validated specs, or plain data where a part is not valid by itself."""
        parts = dict(self.fixed)
        for key, places in self.anchored.items():
            picked = key, tuple([choice[place] for place in places])
            parts[key] = self.varied.get(picked, partial(self._part, key, places, choice))
        return parts

    def _part(self, key: str, places: list[int], choice: tuple[int, ...]) -> Any:
        """A validated part with the values of these axes.

        A key below a kind that varies as well is left out for kinds that do not have it.
        """
        value: Any = self.base
        for place in places:
            value = self._replace(value, place, choice[place])
        made, adapter = value[key], _adapter(key)
        try:
            made = made if adapter is None else adapter.validate_python(made, context=self.context)
        except ValidationError as error:
            foreign = self._find_foreign(places, error)
            for place, problem in foreign.items():  # a near key (`did you mean`) before a list (`valid`)
                self.foreign[place] = min(problem, self.foreign.get(place, problem), key=attrgetter("hint"))
            if foreign:
                return self._part(key, [place for place in places if place not in foreign], choice)
        self.applied.update(places)
        return made

    def _find_foreign(self, places: list[int], error: ValidationError) -> dict[int, Problem]:
        """The axes whose key the chosen kind does not have, where that kind varies too."""
        hints = {
            tuple(map(str, item["loc"])): item["ctx"]["hint"]
            for item in error.errors(include_url=False)
            if (item.get("ctx") or {}).get("what") == "a known key"
        }
        kinds, foreign = [f"{axis.key}." for axis in self.axes], dict[int, Problem]()
        for place, axis in ((place, self.axes[place]) for place in places):
            if axis.parts[1:] in hints and any(axis.key.startswith(kind) for kind in kinds):
                where = f"{self.document.where(axis.place[:2])}: {axis.key}"
                foreign[place] = Problem(where, "a known key", f"'{axis.parts[-1]}'", hints[axis.parts[1:]])
        return foreign

    def _replace(self, data: Any, place: int, chosen: int) -> Any:
        axis = self.axes[place]
        where = f"{self.document.where((*axis.place, chosen))}: {axis.key}"
        return replace_key(data, axis.key, axis.values[chosen], self.near, where)


class PointDocument(Document, kw_only=True):
    """The scenario of a point: a varied key stands where its value is written in the sweep file, others in the base."""

    parts: Parts
    choice: tuple[int, ...]

    def where(self, path: KeyPath) -> str:
        """`file:line:column` of a key."""
        parts, names = self.parts, tuple(str(part) for part in path)
        inside = [place for place, axis in enumerate(parts.axes) if names[: len(axis.parts)] == axis.parts]
        if not inside:
            return parts.base_document.where(path)
        place = max(inside, key=lambda item: len(parts.axes[item].parts))
        axis = parts.axes[place]
        return parts.document.where((*axis.place, self.choice[place], *path[len(axis.parts) :]))


def _read_base(document: Document, near: Path, strict: bool) -> tuple[Document, Path]:
    """The document of the base scenario, and the folder where its names are looked up."""
    given = document.data["base"]
    if isinstance(given, Scenario):
        return Document(document.path, {**given.resolved(), "measured": bind_measurement(given).measured}, {}), near
    if isinstance(given, Mapping):
        marks = {path[1:]: mark for path, mark in document.marks.items() if path[:1] == ("base",)}
        return Document(document.path, dict(given) if strict else as_data(given), marks), near
    where = document.describe_place(("base",))
    if not isinstance(given, str):
        raise InputError(Problem(where, "a scenario or its name", format_value(given)))
    found = named_file(given, "scenarios", where, near)
    named = read_document(found)
    named.mapping("a scenario: a mapping")
    return named, found.parent


def _shared_data(base: Document, near: Path, axes: tuple[Axis, ...]) -> dict[str, Any]:
    """What the points have of the base: all but the question and the baseline.

    Its measurement is that of the base as it is written; one that varies is of the points themselves.
    """
    varies = any(axis.parts[0] == "measured" for axis in axes)
    data: dict[str, Any] = base.data if varies else bind(base.data, base, near)
    return {key: value for key, value in data.items() if key in ("name", "measured") or key not in NOTES}


@cache
def _adapter(key: str) -> TypeAdapter[Any] | None:
    """Validates one field of a scenario by itself; None where there is no such field."""
    about = Scenario.model_fields.get(key)
    if about is None:
        return None
    annotated: Any = Annotated
    plain: Any = about.annotation
    return TypeAdapter(annotated[(plain, *about.metadata)] if about.metadata else plain)
