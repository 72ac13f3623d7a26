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
from simulator.scenario.scenario import Scenario


def load(path: str | Path, overrides: tuple[str, ...] = ()) -> Scenario:
    """Read a scenario file (a path, or a name in ./scenarios or the package), with `a.b=c` overrides applied.

    Raises InputError with every problem found, each with file, line and column.
    """
    document, near = _opened_scenario(path)
    data = document.data
    for item in overrides:
        key, equals, text = item.partition("=")
        if not equals or not key:
            hint = "for example sparsifier.density=0.01"
            raise InputError(Problem(f"--set {item}", "key=value", format_value(item), hint))
        data = replace_key(data, key, parse_document(text, f"--set {key}").data, near)
    return scenario_of(data, document, near)


def load_versus(path: str | Path, overrides: tuple[str, ...] = ()) -> Scenario | None:
    """The scenario that `versus` describes: the file's own with those keys replaced; None without `versus`."""
    document, near = _opened_scenario(path)
    changes = document.data.get("versus")
    if not isinstance(changes, dict):
        return None
    data = {key: value for key, value in document.data.items() if key not in ("versus", "question", "measured")}
    for item in overrides:
        key, _, text = item.partition("=")
        data = replace_key(data, key, parse_document(text).data, near)
    for key, value in changes.items():
        data = replace_key(data, key, value, near)
    return scenario_of({**data, "name": "versus"}, document, near)


def scenario_of(data: Any, document: Document, near: Path) -> Scenario:
    """A validated scenario from parsed data. Raises InputError with every problem found."""
    return validate_document(Scenario.model_validate, replace(document, data=data), near)


def _opened_scenario(path: str | Path) -> tuple[Document, Path]:
    found = find_file(str(path), None, "scenarios")
    if found is None:
        raise missing_file_error(str(path), "scenarios")
    document = read_document(found)
    if not isinstance(document.data, dict):
        raise InputError(Problem(document.where(()), "a scenario: a mapping", format_value(document.data)))
    return document, found.parent
