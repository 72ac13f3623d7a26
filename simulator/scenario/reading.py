"""Scenario files: read, changed by dotted keys, validated, with the place of every mistake."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from simulator.errors import InputError, Problem, format_value
from simulator.loading.documents import Document, parse_document, read_document
from simulator.loading.finding import find_file, missing_file_error
from simulator.loading.problems import validate_document
from simulator.loading.replacing import replace_key
from simulator.scenario.scenario import NOTES, Scenario
from simulator.scenario.titles import make_title

_MOST_OF_OVERRIDE = 60
"""Characters of an override that a title repeats."""


def load(path: str | Path, overrides: tuple[str, ...] = ()) -> Scenario:
    """Read a scenario file (a path, or a name in ./scenarios or the package), with `a.b=c` overrides applied.

    A file without a name gets one made of its model, method and cluster. So does one whose prediction overrides have
    changed, since its own name and question may no longer hold; the name then tells the overrides.

    Raises InputError with every problem found, each with file, line and column.
    """
    document, near = _read_scenario(path)
    data, changed = _override(document.data, overrides, near)
    stated = {item.partition("=")[0] for item in overrides}
    if changed and "question" not in stated:
        data = {key: value for key, value in data.items() if key != "question"}
    scenario = scenario_of(data, document, near)
    if "name" in stated or ("name" in data and not changed):
        return scenario
    return scenario.model_copy(update={"name": make_title(scenario) + _tell_changes(document, changed)})


def _tell_changes(document: Document, changed: list[str]) -> str:
    """The file and the overrides that changed its prediction, in brackets; nothing where there are none."""
    parts = (item if len(item) <= _MOST_OF_OVERRIDE else f"{item[: _MOST_OF_OVERRIDE - 3]}..." for item in changed)
    return f" ({Path(document.path).stem} with {', '.join(parts)})" if changed else ""


def load_versus(path: str | Path, overrides: tuple[str, ...] = ()) -> Scenario | None:
    """The baseline: the scenario with the keys of `versus` replaced; None where its `versus` is not a mapping."""
    document, near = _read_scenario(path)
    data, _ = _override(document.data, overrides, near)
    changes = data.get("versus")
    if not isinstance(changes, dict):
        return None
    data = {key: value for key, value in data.items() if key not in NOTES}
    for key, value in changes.items():
        data = replace_key(data, key, value, near)
    return scenario_of({**data, "name": "versus"}, document, near)


def scenario_of(data: Any, document: Document, near: Path) -> Scenario:
    """A validated scenario from parsed data. Raises InputError with every problem found."""
    return validate_document(Scenario.model_validate, replace(document, data=data), near)


def _override(data: Any, overrides: tuple[str, ...], near: Path) -> tuple[Any, list[str]]:
    """Parsed data with each `key=value` applied, and those that changed what the prediction depends on.

    Raises InputError for an override of another form.
    """
    changed = []
    for item in overrides:
        key, equals, text = item.partition("=")
        if not equals or not key:
            hint = "for example sparsifier.density=0.01"
            raise InputError(Problem(f"--set {item}", "key=value", format_value(item), hint))
        before, data = data, replace_key(data, key, parse_document(text, f"--set {key}").data, near)
        if key.partition(".")[0] not in NOTES and data != before:
            changed.append(item)
    return data, changed


def _read_scenario(path: str | Path) -> tuple[Document, Path]:
    """The document of a scenario file, and the folder that it stands in."""
    found = find_file(str(path), None, "scenarios")
    if found is None:
        raise missing_file_error(str(path), "scenarios")
    document = read_document(found)
    if not isinstance(document.data, dict):
        raise InputError(Problem(document.where(()), "a scenario: a mapping", format_value(document.data)))
    return document, found.parent
