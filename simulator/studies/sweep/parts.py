"""The parts of the scenarios of a sweep: each is validated once and then reused by all points that have it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from simulator.component import Spec
from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.loading.documents import Document, KeyPath, read_document
from simulator.loading.finding import find_file, missing_file_error
from simulator.loading.replacing import replace_key
from simulator.scenario.cluster import Cluster
from simulator.scenario.scenario import NOTES, Scenario
from simulator.studies.sweep.grid import Axis

_REMEMBERED = 4096
"""Validated parts, and clusters, that are kept: a sweep may have a new one at every point."""
Anchor = tuple[str, ...]
"""Where a part belongs: `(key,)` in the scenario, or `("cluster", key)`."""


class _Invalid:
    """A part that is not valid by itself; the points that have it report what is wrong."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Parts:
    """The parts of a sweep's scenarios, from the base and the values of the axes that a point chooses.

    A cluster is built from its own parts, unless it varies as a whole. `applied` are the places of the axes that
    changed a part of some point.
    """

    def __init__(self, document: Document, near: Path, axes: tuple[Axis, ...], strict: bool) -> None:
        self.document, self.axes = document, axes
        self.base_document, self.inside, self.base, self.near = _read_base(document, near)
        self.context = {"units_required": strict, "near": self.near}
        whole = {axis.key for axis in axes if "." not in axis.key}
        self.cut = "cluster" not in whole and isinstance(self.base.get("cluster"), dict)
        self.anchored: dict[Anchor, list[int]] = {}
        for place, axis in enumerate(axes):
            self.anchored.setdefault(self._anchor(axis), []).append(place)
        for places in self.anchored.values():
            places.sort(key=lambda place: len(axes[place].parts))
        fixed: dict[Anchor, Any] = {
            (key,): value for key, value in self.base.items() if key != "cluster" or not self.cut
        }
        fixed |= {("cluster", key): value for key, value in (self.base["cluster"] if self.cut else {}).items()}
        self.fixed = {anchor: self._fixed_part(anchor, value) for anchor, value in fixed.items()}
        self.varied: dict[tuple[Anchor, tuple[int, ...]], Any] = {}
        self.clusters: dict[tuple[int, ...], Any] = {}
        self.applied: set[int] = set()

    def of(self, choice: tuple[int, ...]) -> dict[str, Any]:
        """The fields of a point's scenario: validated specs, or plain data where a part is not valid by itself."""
        made = self._fields(1, choice)
        if self.cut:
            key = tuple(
                choice[place] for anchor, places in self.anchored.items() if len(anchor) == 2 for place in places
            )
            if key not in self.clusters:
                data = self._fields(2, choice)
                if len(self.clusters) >= _REMEMBERED:
                    self.clusters.clear()
                try:
                    self.clusters[key] = Cluster.model_validate(data, context=self.context)
                except ValidationError:
                    self.clusters[key] = data
            made["cluster"] = self.clusters[key]
        return made

    def ignore_memory(self) -> None:
        """Let every point that does not fit into the memory of a GPU be predicted all the same."""
        self.fixed["ignore_memory",] = True

    def unapplied(self) -> list[Problem]:
        """Keys that do not exist in any of the kinds that they were varied with."""
        problems = []
        for place, axis in enumerate(self.axes):
            if place not in self.applied:
                anchor = self._anchor(axis)
                parts = [value for (at, _), value in self.varied.items() if at == anchor and isinstance(value, Spec)]
                fields = {name for part in parts for name in type(part).model_fields}
                where = f"{self.document.where(axis.places[0][:2])}: {axis.key}"
                hint = suggest_nearest(axis.parts[-1], fields) if fields else ""
                problems.append(Problem(where, "a known key", f"'{axis.parts[-1]}'", hint))
        return problems

    def where(self, path: KeyPath, choice: tuple[int, ...]) -> str:
        """`file:line:column` of a key of a point: of the value chosen for it in the sweep file, or in the base."""
        names = tuple(str(part) for part in path)
        inside = [place for place, axis in enumerate(self.axes) if names[: len(axis.parts)] == axis.parts]
        if not inside:
            return self.base_document.where((*self.inside, *path))
        place = max(inside, key=lambda item: len(self.axes[item].parts))
        axis = self.axes[place]
        return self.document.where((*axis.places[choice[place]], *path[len(axis.parts) :]))

    def _anchor(self, axis: Axis) -> Anchor:
        return axis.parts[: 2 if self.cut and axis.parts[0] == "cluster" else 1]

    def _fields(self, depth: int, choice: tuple[int, ...]) -> dict[str, Any]:
        """The fields of the scenario (`depth` 1) or of its cluster (2)."""
        made = {anchor[-1]: part for anchor, part in self.fixed.items() if len(anchor) == depth}
        for anchor, places in self.anchored.items():
            if len(anchor) == depth:
                made[anchor[-1]] = self._part(anchor, tuple(choice[place] for place in places), choice)
        return {key: part.value if isinstance(part, _Invalid) else part for key, part in made.items()}

    def _part(self, anchor: Anchor, picked: tuple[int, ...], choice: tuple[int, ...]) -> Any:
        """A validated part with the values of its axes.

        A key below a kind that varies as well is left out for kinds that do not have it.
        """
        if (anchor, picked) in self.varied:
            return self.varied[anchor, picked]
        places = list(self.anchored[anchor])
        while True:
            value: Any = self.base
            for place in places:
                value = self._replace(value, place, choice[place])
            for name in anchor:
                value = value[name]
            try:
                made = self._validate(anchor, value)
            except ValidationError as error:
                foreign = self._foreign(places, anchor, error)
                if foreign:
                    places = [place for place in places if place not in foreign]
                    continue
                made = _Invalid(value)
            break
        self.applied.update(places)
        if len(self.varied) >= _REMEMBERED:
            self.varied.clear()
        self.varied[anchor, picked] = made
        return made

    def _foreign(self, places: list[int], anchor: Anchor, error: ValidationError) -> set[int]:
        """The axes whose key the chosen kind does not have, where that kind varies too."""
        unknown = {
            tuple(str(part) for part in item["loc"])
            for item in error.errors(include_url=False)
            if (item.get("ctx") or {}).get("what") == "a known key"
        }
        keys = [self.axes[place].key for place in self.anchored[anchor]]
        return {
            place
            for place in places
            if self.axes[place].parts[len(anchor) :] in unknown
            and any(self.axes[place].key.startswith(f"{key}.") for key in keys)
        }

    def _replace(self, data: Any, place: int, chosen: int) -> Any:
        axis = self.axes[place]
        try:
            return replace_key(data, axis.key, axis.values[chosen], self.near)
        except InputError as error:
            self.applied.add(place)
            where = f"{self.document.where(axis.places[chosen])}: {axis.key}"
            raise InputError([Problem(where, item.expected, item.got, item.hint) for item in error.problems]) from None

    def _fixed_part(self, anchor: Anchor, value: Any) -> Any:
        """A part that does not vary; one that varies stays plain data here."""
        try:
            return _Invalid(value) if anchor in self.anchored else self._validate(anchor, value)
        except ValidationError:
            return _Invalid(value)

    def _validate(self, anchor: Anchor, value: Any) -> Any:
        adapter = _adapter(anchor)
        return _Invalid(value) if adapter is None else adapter.validate_python(value, context=self.context)


def _read_base(document: Document, near: Path) -> tuple[Document, KeyPath, dict[str, Any], Path]:
    """The base scenario: its document, its place there, its data, and the folder where its names are looked up."""
    given = document.data["base"]
    if isinstance(given, Scenario | Mapping):
        data = given.resolved() if isinstance(given, Scenario) else given
        return document, ("base",), _without_notes(data), near
    where = f"{document.where(('base',))}: base"
    if not isinstance(given, str):
        raise InputError(Problem(where, "a scenario or its name", format_value(given)))
    found = find_file(given, near, "scenarios")
    if found is None:
        raise missing_file_error(given, "scenarios", where, near=True)
    named = read_document(found)
    if not isinstance(named.data, dict):
        raise InputError(Problem(named.where(()), "a scenario: a mapping", format_value(named.data)))
    return named, (), _without_notes(named.data), found.parent


def _without_notes(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key == "name" or key not in NOTES}


@cache
def _adapter(anchor: Anchor) -> TypeAdapter[Any] | None:
    """Validates one field by itself; None where there is no such field."""
    fields = (Scenario if len(anchor) == 1 else Cluster).model_fields
    if anchor[-1] not in fields:
        return None
    about = fields[anchor[-1]]
    annotated: Any = Annotated
    plain: Any = about.annotation
    return TypeAdapter(annotated[(plain, *about.metadata)] if about.metadata else plain)
