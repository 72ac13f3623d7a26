"""Where a combination exists: in a released framework or in research code, with the lines that turn it on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field

from simulator.component import Component, Spec
from simulator.hardware.runtime import FRAMEWORKS
from simulator.loading.documents import read_document, validate_document
from simulator.loading.finding import find_shipped
from simulator.models.sharding import Mesh
from simulator.reporting.answers.advised import Availability, PartPlaces, Status
from simulator.scenario.scenario import Scenario
from simulator.schedulers.sharded import Sharded
from simulator.studies.variants.names import mesh_of, sharded_part
from simulator.units import join_words

ONE_GROUP = Mesh(2, 2, 1)
TABLE = "configs/availability.yaml"
CODE = "code"
GIVEN = "given"


class Entry(Spec):
    """One place where a kind exists.

    - `framework` (`in`): a framework of the table, or `code`: code that was published with a paper.
    - `where`: the address of code; empty where none was published.
    - `lines`: what a user writes; `{bucket_size:MiB}` stands for a parameter, in MiB, bytes, elements or ms.
    - `needs`: parameters that it holds for; None: not given, `given`: given, whatever its value.
    - `source`: documentation or source of the framework.
    - `note`: what differs from the kind.
    """

    framework: str = Field(alias="in")
    where: str = ""
    lines: tuple[str, ...] = ()
    needs: dict[str, str | None] = Field(default_factory=dict)
    source: str = ""
    note: str = ""

    def holds_for(self, member: Component) -> bool:
        """Whether it is the place of this member, with its parameters."""
        values = ((getattr(member, name, None), wanted) for name, wanted in self.needs.items())
        return all(value is not None if wanted == GIVEN else value == wanted for value, wanted in values)

    def lines_for(self, member: Component) -> list[str]:
        """Its lines with the parameters of a member."""
        values = {name: _Quantity(value) for name, value in _parameters(member).items()}
        return [line.format_map(values) for line in self.lines]


class _Framework(Spec):
    """A framework of the table.

    - `label`: what it is called.
    - `released`: whether its makers maintain it for users.
    """

    label: str
    released: bool


class _Document(Spec):
    """The table of frameworks and places.

    - `frameworks`: by the word that entries use for it.
    - `sparsifier`, `scheduler`, `topology`: by kind, the places where it exists.
    - `travels`: by number format, the places where gradients in fp32 can be sent in it.
    - `settings`: `no_sync`: only the last micro-batch is exchanged; `dense_rows`: gradients of embeddings are dense;
      `tensor_overlap`: collectives of the tensor axis run beside products.
    """

    frameworks: dict[str, _Framework]
    sparsifier: dict[str, tuple[Entry, ...]]
    scheduler: dict[str, tuple[Entry, ...]]
    topology: dict[str, tuple[Entry, ...]]
    travels: dict[str, tuple[Entry, ...]]
    settings: dict[str, tuple[Entry, ...]]


class _Quantity:
    """A parameter that a line shows in a unit: `{bucket_size:MiB}`."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __format__(self, unit: str) -> str:
        scales = {"MiB": 2.0**20, "bytes": 1.0, "elements": 4.0, "ms": 1e-3, "g": 1.0}
        if unit not in scales:
            return str(self.value)
        shown = float(self.value or 0.0) / scales[unit]
        return f"{round(shown)}" if unit in ("bytes", "elements") else f"{shown:.4g}"


@cache
def _table() -> _Document:
    return validate_document(_Document.model_validate, read_document(find_shipped(TABLE) or Path(TABLE)))


def framework_label(name: str) -> str:
    """What a framework is called: as the table or the scenario's runtime names it."""
    known = _table().frameworks.get(name)
    return known.label if known else FRAMEWORKS[name].label if name in FRAMEWORKS else name


def entries_of(member: Component, mesh: Mesh = ONE_GROUP) -> tuple[Entry, ...] | None:
    """Where a member exists with its parameters; None where nobody stated anything.

    A plug-in states it in its class variable `availability`, a schedule of sharded models in `places`, on a `mesh`;
    other shipped kinds have a row in the table.
    """
    stated: Sequence[Mapping[str, Any]] = type(member).availability
    if isinstance(member, Sharded) and not stated:
        return tuple(Entry.model_validate(dict(item)) for item in member.places(mesh))
    if stated:
        rows: tuple[Entry, ...] | None = tuple(Entry.model_validate(dict(item)) for item in stated)
    else:
        rows = getattr(_table(), member.family, {}).get(member.kind)
    return None if rows is None else tuple(item for item in rows if item.holds_for(member))


def availability_of(scenario: Scenario, own_topology: str = "") -> Availability:
    """Where the scenario's sparsifier, scheduler and topology exist together.

    `own_topology`: the topology that the cluster has; where no framework lists it, it is taken as given.
    """
    members: dict[str, Component] = {
        "topology": scenario.topology,
        "scheduler": scenario.scheduler,
        "sparsifier": scenario.sparsifier,
    }
    part = sharded_part(scenario.scheduler)
    mesh = ONE_GROUP if part is None else mesh_of(scenario, part)
    found = {family: entries_of(member, mesh) for family, member in members.items()}
    if found["sparsifier"] is not None:
        found["sparsifier"] = _on_exchanges(scenario, found["sparsifier"])
    precision = scenario.workload.precision
    if precision.gradients == "fp32" != precision.sent_as and part is None:
        found["sparsifier"] = _both(found["sparsifier"], _travels(scenario))
    if found["topology"] == () and members["topology"].kind == own_topology:
        del members["topology"], found["topology"]
    parts = {family: _part(members[family], rows) for family, rows in found.items()}
    unknown = [members[family].kind for family, rows in found.items() if rows is None]
    if unknown:
        return Availability("unknown", f"unknown: {', '.join(unknown)}", parts=parts)
    own = scenario.cluster.runtime.framework
    frameworks = _table().frameworks
    for name in [own, *(name for name, item in frameworks.items() if item.released and name != own)]:
        chosen = {family: _entry_in(name, rows or ()) for family, rows in found.items()}
        if name != "none" and all(chosen.values()):
            status: Status = "offered" if own in (name, "none") else "other_framework"
            entries = [(members[family], entry) for family, entry in chosen.items() if entry is not None]
            return Availability(
                status,
                framework_label(name),
                tuple(line for member, entry in entries for line in entry.lines_for(member)),
                tuple(dict.fromkeys(entry.note for _, entry in entries if entry.note)),
                tuple(dict.fromkeys(entry.source for _, entry in entries if entry.source)),
                parts,
            )
    places = () if part is None else entries_of(part, mesh) or ()
    home = next((item for item in places if item.framework == own), places[0] if places else None)
    whose = part.exact.places(mesh)[0]["in"] if part is not None and own == "none" and places else own
    lines = () if home is None else tuple(home.lines_for(part or scenario.scheduler))
    notes = (home.note,) if home is not None and home.note else ()
    return Availability("research_code", _describe_code(found, whose), lines, notes, parts=parts)


def lines_of_setting(name: str, scenario: Scenario) -> tuple[str, ...]:
    """The lines of a setting in the scenario's framework, or where none is named in one with its scheduler; else none.

    `name`: one of `settings` in the table, or `travels` for the format in which the scenario's gradients travel.
    """
    schedules = {item.framework for item in entries_of(scenario.scheduler) or ()}
    rows = _travels(scenario) if name == "travels" else _table().settings.get(name, ())
    entry = _entry_for(scenario, sorted(rows, key=lambda item: item.framework not in schedules))
    return () if entry is None else entry.lines


def _travels(scenario: Scenario) -> tuple[Entry, ...]:
    """Where the scenario's gradients can travel in the format that it states."""
    return _on_exchanges(scenario, _table().travels.get(scenario.workload.precision.sent_as, ()))


def _on_exchanges(scenario: Scenario, rows: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The places whose lines change what the scenario exchanges.

    Those of methods and of formats act on the gradients of every step, which local steps do not exchange.
    """
    return rows if scenario.scheduler.period is None else tuple(item for item in rows if not item.lines)


def lines_in(scenario: Scenario, member: Component) -> tuple[str, ...]:
    """The lines of a member in the scenario's framework, or in the first released one where it names none."""
    entry = _entry_for(scenario, entries_of(member) or ())
    return () if entry is None else tuple(entry.lines_for(member))


def _entry_for(scenario: Scenario, rows: Sequence[Entry]) -> Entry | None:
    """The entry of the scenario's framework, or of the first released one where it names none.

    Schedules of sharded models belong to frameworks, whatever the costs of the runtime were measured in.
    """
    own, scheduler = scenario.cluster.runtime.framework, scenario.scheduler
    known = {*_table().frameworks} if own == "none" else {own}
    if isinstance(scheduler, Sharded):
        places = {item.framework for item in entries_of(scheduler) or ()}
        known = known & places or places
    return next((item for item in rows if item.framework in known), None)


def _both(first: tuple[Entry, ...] | None, second: tuple[Entry, ...]) -> tuple[Entry, ...] | None:
    """Where a method exists with gradients that are rounded: entries of both, in the frameworks that have both."""
    pairs = [(one, other) for one in first or () if (other := _entry_in(one.framework, second))]
    joined = [one.model_copy(update={"lines": one.lines + other.lines, "source": other.source}) for one, other in pairs]
    return None if first is None else tuple(joined)


def _entry_in(framework: str, rows: tuple[Entry, ...]) -> Entry | None:
    return next((item for item in rows if item.framework == framework), None)


def _part(member: Component, rows: tuple[Entry, ...] | None) -> PartPlaces:
    known = _table().frameworks
    released = [item.framework for item in rows or () if item.framework in known and known[item.framework].released]
    code = [item.where for item in rows or () if item.where]
    labels = tuple(dict.fromkeys(framework_label(name) for name in released))
    return PartPlaces(member.kind, labels, tuple(dict.fromkeys(code)))


def _describe_code(found: Mapping[str, tuple[Entry, ...] | None], own: str) -> str:
    """The code to take each part from that the scenario's framework does not have, in a few words."""
    needed = [tuple(rows or ()) for rows in found.values() if _entry_in(own, rows or ()) is None]
    places = [{item.where for item in rows if item.where} for rows in needed]
    both = sorted(set.intersection(*places)) if places and all(places) else []
    if both:
        return both[0]
    names = [_first_place(rows) for rows in needed]
    return join_words(list(dict.fromkeys(name for name in names if name))) or "no public code"


def _first_place(rows: tuple[Entry, ...]) -> str:
    """The code of a part, else the first framework that has it."""
    code = [item for item in rows if item.framework == CODE] or [item for item in rows if item.where]
    if code:
        return code[0].where or "no public code"
    return framework_label(rows[0].framework) if rows else "a textbook algorithm"


def _parameters(member: Component) -> Mapping[str, Any]:
    """The parameters of a member, and those that follow from them."""
    made = {name: getattr(member, name) for name in type(member).model_fields}
    density, partition, credit = (made.get(name) for name in ("density", "partition", "credit"))
    made["left_out"] = None if density is None else 1 - density
    made["credit_slices"] = max(1, math.ceil(credit / partition)) if credit is not None and partition else None
    return made
