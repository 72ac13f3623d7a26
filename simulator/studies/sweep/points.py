"""The scenarios of a sweep's points: each part is validated once, and a point is put together from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from simulator.component import Spec
from simulator.errors import InputError, Problem, nearest, shown
from simulator.loading.documents import Document, Path_, read_document
from simulator.loading.finding import find, missing
from simulator.loading.problems import problems_of
from simulator.loading.replacing import replaced
from simulator.prediction.run import run
from simulator.scenario.cluster import Cluster
from simulator.scenario.scenario import Scenario
from simulator.studies.storage.rows import UNITS, figure, label, row_of
from simulator.studies.sweep.executors import Outcome
from simulator.studies.sweep.grid import Axis, Grid, read_grid
from simulator.studies.sweep.skip_conditions import number_of

_INERT = ("versus", "question", "measured")
_NETWORK = ("cluster.network", "topology", "fidelity")
_HELD = 4096
"""Parts, and clusters, that are kept once they have been validated: a sweep may have a new one at every point."""
Anchor = tuple[str, ...]


class _Unfit:
    """A part that did not pass by itself; the point that has it says what is wrong."""

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass(frozen=True, slots=True)
class _Overlaid(Document):
    """A scenario whose varied keys stand in another file than the rest."""

    lookup: Callable[[Path_], str] = field(kw_only=True)

    def where(self, path: Path_) -> str:
        """`file:line:column` of a part: of the value that was chosen for it, or in the base."""
        return self.lookup(path)


class Points:
    """The scenarios of a grid, by number. What the parts are made of is read and validated once.

    `strict`: numbers need their units, as they do in files. Can be pickled: a process that gets it needs no files but
    traces.
    """

    def __init__(self, document: Document, near: Path, strict: bool) -> None:
        self.document = document
        self.grid: Grid = read_grid(document, near)
        self.axes: tuple[Axis, ...] = self.grid.axes
        self.base_document, self.inside, self.base, self.near = _base(document, near)
        self.context = {"units_required": strict, "near": self.near}
        whole = {axis.key for axis in self.axes if "." not in axis.key}
        self.cut = "cluster" not in whole and isinstance(self.base.get("cluster"), dict)
        self.anchored: dict[Anchor, list[int]] = {}
        for place, axis in enumerate(self.axes):
            self.anchored.setdefault(self._anchor(axis), []).append(place)
        for places in self.anchored.values():
            places.sort(key=lambda place: len(self.axes[place].parts))
        self.constant = {k: self._checked((k,), v) for k, v in self.base.items() if k != "cluster" or not self.cut}
        cluster = self.base["cluster"] if self.cut else {}
        self.constant_cluster = {k: self._checked(("cluster", k), v) for k, v in cluster.items()}
        self.parts: dict[tuple[Anchor, tuple[int, ...]], Any] = {}
        self.clusters: dict[tuple[int, ...], Any] = {}
        self.applied: set[int] = set()
        self.shown: dict[tuple[int, int], tuple[Any, str]] = {}

    @property
    def name(self) -> str:
        """What the sweep is called."""
        return str(self.document.data.get("name") or self.base.get("name") or "sweep")

    def scenario(self, number: int) -> Scenario:
        """The validated scenario of a point. Raises InputError with every problem found."""
        choice = self.grid.choice(number)
        made = dict(self.constant)
        for anchor, places in self.anchored.items():
            if len(anchor) == 1:
                made[anchor[0]] = self._part(anchor, tuple(choice[place] for place in places), choice)
        if self.cut:
            made["cluster"] = self._cluster(choice)
        data = {key: value.value if isinstance(value, _Unfit) else value for key, value in made.items()}
        try:
            scenario = Scenario.model_validate(data, context=self.context)
        except ValidationError as error:
            document = _Overlaid(self.document.path, data, {}, lookup=lambda path: self._where(path, choice))
            raise InputError(problems_of(error, document)) from None
        for place, chosen in enumerate(choice):
            if (place, chosen) not in self.shown and place in self.applied:
                value = figure(scenario, self.axes[place].parts)
                if value is not None:
                    self.shown[place, chosen] = value
        return scenario

    def evaluate(self, number: int) -> Outcome:
        """Predict one point; what goes wrong becomes the outcome's error."""
        scenario = self.scenario(number)
        try:
            row = row_of(run(scenario).document)
            return _outcome(number, row["digest"], row=row)
        except InputError as error:
            return _outcome(number, scenario.digest, error=one_line(error))
        except Exception as error:  # a point that breaks must not take the others with it
            return _outcome(number, scenario.digest, error=f"{type(error).__name__}: {error}")

    def failure(self, number: int, message: str) -> Outcome:
        """The outcome of a point that could not be evaluated at all."""
        return _outcome(number, self.scenario(number).digest, error=message)

    def neighbourhood(self, number: int) -> tuple[int, ...]:
        """Equal for points that differ in nothing but network and topology: their work is priced once."""
        choice = self.grid.choice(number)
        return tuple(
            chosen
            for axis, chosen in zip(self.axes, choice, strict=True)
            if not any(f"{axis.key}.".startswith(f"{key}.") for key in _NETWORK)
        )

    def column(self, place: int) -> tuple[str, list[Any]]:
        """The name of an axis as a column, with its unit, and what each of its values is called there.

        Quantities are numbers in SI, names stand as they are, mappings as JSON.
        """
        axis = self.axes[place]
        known = [self.shown.get((place, chosen)) for chosen in range(len(axis.values))]
        if all(item is None or isinstance(item[0], int | float) for item in known) and any(known):
            unit = next((item[1] for item in known if item and item[1]), "")
            numbers = [number_of(value) for value in axis.values]
            values = [
                item[0] if item else number[0] if number else None for item, number in zip(known, numbers, strict=True)
            ]
            return axis.key + UNITS.get(unit, ""), values
        return axis.key, [label(value) for value in axis.values]

    def unapplied(self) -> list[Problem]:
        """Keys that belong to no kind that they were varied with."""
        problems = []
        for place, axis in enumerate(self.axes):
            if place not in self.applied:
                anchor = self._anchor(axis)
                parts = [value for (at, _), value in self.parts.items() if at == anchor and isinstance(value, Spec)]
                fields = {name for part in parts for name in type(part).model_fields}
                where = f"{self.document.where(axis.places[0][:2])}: {axis.key}"
                hint = nearest(axis.parts[-1], fields) if fields else ""
                problems.append(Problem(where, "a known key", f"'{axis.parts[-1]}'", hint))
        return problems

    def place_of(self, place: int, chosen: int) -> str:
        """Where in the sweep file a value of an axis stands."""
        return self.document.where(self.axes[place].places[chosen])

    def _anchor(self, axis: Axis) -> Anchor:
        return axis.parts[: 2 if self.cut and axis.parts[0] == "cluster" else 1]

    def _cluster(self, choice: tuple[int, ...]) -> Any:
        anchors = {anchor: places for anchor, places in self.anchored.items() if len(anchor) == 2}
        key = tuple(choice[place] for places in anchors.values() for place in places)
        if key not in self.clusters:
            made = dict(self.constant_cluster)
            for anchor, places in anchors.items():
                made[anchor[1]] = self._part(anchor, tuple(choice[place] for place in places), choice)
            data = {name: value.value if isinstance(value, _Unfit) else value for name, value in made.items()}
            if len(self.clusters) >= _HELD:
                self.clusters.clear()
            try:
                self.clusters[key] = Cluster.model_validate(data, context=self.context)
            except ValidationError:
                self.clusters[key] = _Unfit(data)
        return self.clusters[key]

    def _part(self, anchor: Anchor, picked: tuple[int, ...], choice: tuple[int, ...]) -> Any:
        """A validated part of the scenario with its axes' values.

        A key below a kind that varies as well is left out for kinds that do not have it.
        """
        if (anchor, picked) in self.parts:
            return self.parts[anchor, picked]
        places = list(self.anchored[anchor])
        while True:
            data: Any = self.base
            for place in places:
                data = self._replaced(data, place, choice[place])
            value = data
            for name in anchor:
                value = value[name]
            adapter = _adapter(anchor)
            try:
                made = _Unfit(value) if adapter is None else adapter.validate_python(value, context=self.context)
            except ValidationError as error:
                foreign = {place for place in places if self._foreign(place, anchor, error)}
                if foreign:
                    places = [place for place in places if place not in foreign]
                    continue
                made = _Unfit(value)
            self.applied.update(places)
            if len(self.parts) >= _HELD:
                self.parts.clear()
            self.parts[anchor, picked] = made
            return made

    def _foreign(self, place: int, anchor: Anchor, error: ValidationError) -> bool:
        """Whether a key is one that the kind beside it, varied too, does not have."""
        axis = self.axes[place]
        above = any(axis.key.startswith(f"{self.axes[other].key}.") for other in self.anchored[anchor])
        rest = axis.parts[len(anchor) :]
        return above and any(
            tuple(str(part) for part in item["loc"]) == rest and (item.get("ctx") or {}).get("what") == "a known key"
            for item in error.errors(include_url=False)
        )

    def _replaced(self, data: Any, place: int, chosen: int) -> Any:
        axis = self.axes[place]
        try:
            return replaced(data, axis.key, axis.values[chosen], self.near)
        except InputError as error:
            self.applied.add(place)
            where = f"{self.place_of(place, chosen)}: {axis.key}"
            raise InputError([Problem(where, item.expected, item.got, item.hint) for item in error.problems]) from None

    def _checked(self, anchor: Anchor, value: Any) -> Any:
        """A part that does not vary."""
        adapter = None if anchor in self.anchored else _adapter(anchor)
        try:
            return _Unfit(value) if adapter is None else adapter.validate_python(value, context=self.context)
        except ValidationError:
            return _Unfit(value)

    def _where(self, path: Path_, choice: tuple[int, ...]) -> str:
        names = tuple(str(part) for part in path)
        inside = [place for place, axis in enumerate(self.axes) if names[: len(axis.parts)] == axis.parts]
        if not inside:
            return self.base_document.where((*self.inside, *path))
        place = max(inside, key=lambda item: len(self.axes[item].parts))
        axis = self.axes[place]
        return self.document.where((*axis.places[choice[place]], *path[len(axis.parts) :]))


def _base(document: Document, near: Path) -> tuple[Document, Path_, dict[str, Any], Path]:
    """The base scenario: its document, where in it, its data, and the folder that its names are looked up beside."""
    given = document.data["base"]
    if isinstance(given, Scenario):
        return document, ("base",), _active(given.resolved()), near
    if isinstance(given, Mapping):
        return document, ("base",), _active(given), near
    where = f"{document.where(('base',))}: base"
    if not isinstance(given, str):
        raise InputError(Problem(where, "a scenario or its name", shown(given)))
    found = find(given, near, "scenarios")
    if found is None:
        raise missing(given, where, "", "scenarios")
    named = read_document(found)
    if not isinstance(named.data, dict):
        raise InputError(Problem(named.where(()), "a scenario: a mapping", shown(named.data)))
    return named, (), _active(named.data), found.parent


def _active(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in _INERT}


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


def one_line(error: InputError) -> str:
    """Every problem of an error, on one line."""
    return "; ".join(str(problem) for problem in error.problems)


def _outcome(number: int, digest: str, *, row: dict[str, Any] | None = None, error: str | None = None) -> Outcome:
    record = {"digest": digest, "row": row} if error is None else {"digest": digest, "error": error}
    return Outcome(number, digest, json.dumps(record, ensure_ascii=False, allow_nan=False).encode(), error)
