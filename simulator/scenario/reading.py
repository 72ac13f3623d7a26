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

_MOST_OF_OVERRIDE = 60
"""Characters of an override that a name repeats."""


def load(path: str | Path, overrides: tuple[str, ...] = ()) -> Scenario:
    """Read a scenario file (a path, or a name in ./scenarios or the package), with `a.b=c` overrides applied.

    Overrides that the prediction depends on become part of the name, and the question of the file no longer holds.
    Raises InputError with every problem found, each with file, line and column.
    """
    document, near = _read_scenario(path)
    data, changed = _override(document.data, overrides, near)
    return scenario_of(_retitle(data, changed, overrides), document, near)


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
        if key.partition(".")[0] not in (*NOTES, "ignore_memory") and data != before:
            changed.append(item)
    return data, changed


def _retitle(data: Any, changed: list[str], overrides: tuple[str, ...]) -> Any:
    """Data whose name says what was changed, and without its question, unless overrides state them."""
    stated = {item.partition("=")[0] for item in overrides}
    if changed and "name" not in stated and isinstance(data.get("name", ""), str):
        parts = (item if len(item) <= _MOST_OF_OVERRIDE else f"{item[: _MOST_OF_OVERRIDE - 3]}..." for item in changed)
        data = {**data, "name": f"{data.get('name', 'unnamed')}, with {', '.join(parts)}"}
    return {key: value for key, value in data.items() if not changed or key != "question" or key in stated}


def _read_scenario(path: str | Path) -> tuple[Document, Path]:
    """The document of a scenario file, and the folder that it stands in."""
    found = find_file(str(path), None, "scenarios")
    if found is None:
        raise missing_file_error(str(path), "scenarios")
    document = read_document(found)
    if not isinstance(document.data, dict):
        raise InputError(Problem(document.where(()), "a scenario: a mapping", format_value(document.data)))
    return document, found.parent
