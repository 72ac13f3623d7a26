"""Scenarios: read from files or given in Python, changed by dotted keys, validated, with the place of every mistake."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from simulator.aliases import describe_not_modelled
from simulator.errors import InputError, Problem, format_value
from simulator.loading.documents import Document, parse_document, read_document, validate_document
from simulator.loading.finding import named_file
from simulator.loading.replacing import replace_key
from simulator.records import replace
from simulator.scenario.changes import Override, Overrides, as_data, read_overrides
from simulator.scenario.scenario import NO_QUANTITIES, NOTES, WHOLE_JOB, Scenario
from simulator.scenario.titles import make_title, tell_changes

ScenarioSource: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Scenario
"""A scenario, or where it comes from: a name in ./scenarios or the package, a path, or what YAML would contain."""


def load(source: ScenarioSource, overrides: Overrides = ()) -> Scenario:
    """Read a scenario (a name, a path, a mapping, or a scenario), with `a.b=c` overrides applied.

    Overrides are texts as on the command line, or a mapping of dotted keys to values; numbers in Python are in SI.

    A scenario without a name gets one made of its model, method and cluster. So does one whose prediction overrides
    have changed, since its own name and question may no longer hold; the name then tells the overrides.

    Raises InputError with every problem found, each with file, line and column.
    """
    if isinstance(source, Scenario) and not overrides:
        return bind_measurement(source)
    document, near = _read_scenario(source)
    given = read_overrides(overrides)
    document, changed = _override(document, given, near)
    data, stated = document.data, {item.key for item in given}
    if changed and "question" not in stated:
        data = {key: value for key, value in data.items() if key != "question"}
    scenario = scenario_of(data, document, near)
    if "name" in stated or ("name" in data and not changed):
        return scenario
    file = Path(document.path).stem if isinstance(source, str | os.PathLike) else ""
    return scenario.model_copy(update={"name": make_title(scenario) + tell_changes(file, changed)})


def load_versus(source: ScenarioSource, overrides: Overrides = ()) -> Scenario | None:
    """The baseline: the scenario with the keys of `versus` replaced; None where its `versus` is not a mapping."""
    document, near = _read_scenario(source)
    return versus_of(_override(document, read_overrides(overrides), near)[0], near)


def versus_of(document: Document, near: Path | None) -> Scenario | None:
    """The baseline of parsed data: the scenario with the keys of `versus` replaced; None where that is no mapping."""
    changes = document.data.get("versus")
    if not isinstance(changes, dict):
        return None
    data = bind(document.data, document, near)
    data = {key: value for key, value in data.items() if key not in NOTES or key == "measured"}
    for key, value in changes.items():
        data = replace_key(data, key, value, near, f"versus.{key}")
    document = document.with_changes(changes, document.describe_place(("versus",)))
    return scenario_of({**data, "name": "versus"}, document, near)


def scenario_of(data: Any, document: Document, near: Path | None) -> Scenario:
    """A validated scenario from parsed data. Raises InputError with every problem found."""
    return validate_document(Scenario.model_validate, replace(document, data=bind(data, document, near)), near)


def bind(data: Any, document: Document, near: Path | None) -> Any:
    """Parsed data whose measurement knows the scenario that it was taken of, whatever is changed later."""
    measured = data.get("measured") if isinstance(data, dict) else None
    if not isinstance(measured, dict) or isinstance(measured.get("at"), Scenario):
        return data
    if all(name in NO_QUANTITIES for name in measured):
        return data
    at, base = measured.get("at") or {}, {key: value for key, value in data.items() if key not in NOTES}
    if not isinstance(at, dict):
        return data | {"measured": {**measured, "at": {}}}
    for key, value in at.items():
        base = value if key == WHOLE_JOB else replace_key(base, key, value, near, f"measured.at.{key}")
    document = document.with_changes(at, document.describe_place(("measured", "at")))
    base = {"name": data.get("name", "measured"), **base}
    return {**data, "measured": {**measured, "at": scenario_of(base, document, near)}}


def bind_measurement(scenario: Scenario) -> Scenario:
    """A scenario whose measurement knows the scenario that it was taken of: it itself, unless `at` says otherwise."""
    measured = scenario.measured
    if measured is None or isinstance(measured.at, Scenario):
        return scenario
    if measured.at:
        return load(scenario.model_copy(), {"name": scenario.name})
    at = scenario.model_copy(update={"measured": None, "versus": None})
    return scenario.model_copy(update={"measured": measured.model_copy(update={"at": at})})


def _override(document: Document, given: list[Override], near: Path) -> tuple[Document, list[str]]:
    """The document with each override applied, and those that changed what the prediction depends on.

    Its measurement is bound to it as it is, before keys change; one that is given with the changes is of the scenario
    with them.
    """
    names = [item.key.partition(".")[0] for item in given]
    data = bind(document.data, document, near) if given and "measured" not in names else document.data
    changed = []
    _refuse_unknown(given)
    for name, item in zip(names, given, strict=True):
        before, data = data, replace_key(data, item.key, item.value, near, item.where)
        if name not in (*NOTES, "ignore_memory") and data != before:
            changed.append(item.text)
        document = document.with_changes([item.key], "--set" if item.where.startswith("--set") else "overrides")
    return replace(document, data=data), changed


def _refuse_unknown(overrides: list[Override]) -> None:
    unknown = [item for item in overrides if item.key.partition(".")[0] not in Scenario.model_fields]
    if unknown:
        from simulator.scenario.catalogue import suggest_key  # imports every plug-in

        problems = []
        for item in unknown:
            name = item.key.partition(".")[0]
            refused = describe_not_modelled(name)
            what = ("", *refused) if refused else ("a known key", f"'{name}'", suggest_key(name))
            problems.append(Problem(item.where, *what))
        raise InputError(problems)


def _read_scenario(source: ScenarioSource) -> tuple[Document, Path]:
    """The document of a scenario, and the folder in which its names are looked up first."""
    if isinstance(source, Scenario):
        # Without defaults: what nobody stated counts as assumed.
        data = as_data(source.model_dump(mode="json", exclude_unset=True))
        if source.measured is not None and isinstance(source.measured.at, Scenario):
            data["measured"]["at"] = source.measured.at
        return Document(source.name, data, {}), Path()
    if isinstance(source, Mapping):
        return Document("the scenario", as_data(source), {}), Path()
    if not isinstance(source, str | os.PathLike):
        what = "the name or path of a scenario, a mapping or a Scenario"
        raise InputError(Problem("scenario", what, format_value(source)))
    path = os.fspath(source)
    found = named_file(path, "scenarios")
    return _check_mapping(read_document(found)), found.parent


def parse_scenario(text: str, name: str) -> Document:
    """The document of a scenario's text; `name` stands in its problems instead of a file. Raises InputError."""
    return _check_mapping(parse_document(text, name))


def _check_mapping(document: Document) -> Document:
    document.mapping("a scenario: a mapping")
    return document
