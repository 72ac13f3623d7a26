"""Varied keys as columns of a table: their names with units, and their values in SI."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from simulator.component import Component, Spec
from simulator.scenario.conditions import number_of
from simulator.scenario.scenario import Scenario
from simulator.studies.sweep.grid import Axis
from simulator.units import COLUMN_SUFFIXES

Quantity = tuple[Any, str]
"""A number in SI and its unit."""


def quantity_at(scenario: Scenario, parts: tuple[str, ...]) -> Quantity | None:
    """The number at a key of a scenario, in SI, and its unit; None where the value is no number."""
    parent: Any = scenario
    for name in parts[:-1]:
        parent = parent[int(name)] if isinstance(parent, tuple) and name.isdecimal() else getattr(parent, name, None)
    value = getattr(parent, parts[-1], None) if isinstance(parent, Spec) else None
    if not isinstance(value, int | float) or isinstance(value, bool) or parts[-1] not in type(parent).model_fields:
        return None
    written = parent.model_dump(mode="json", include={parts[-1]})[parts[-1]]
    return value, written.rpartition(" ")[2] if isinstance(written, str) else ""


def describe(axis: Axis, known: Sequence[Quantity | None]) -> tuple[str, list[Any]]:
    """The name of an axis as a column, with its unit, and its values there; `known` are the quantities found so far.

    Quantities are numbers in SI, names stay as they are, mappings are JSON.
    """
    if any(known) and all(item is None or isinstance(item[0], int | float) for item in known):
        unit = next((item[1] for item in known if item and item[1]), "")
        numbers = [number_of(value) for value in axis.values]
        values = [item[0] if item else number and number[0] for item, number in zip(known, numbers, strict=True)]
        return axis.key + COLUMN_SUFFIXES.get(unit, ""), values
    return axis.key, [_cell(value) for value in axis.values]


def _cell(value: Any) -> Any:
    """A varied value in a table: plain values as they are, mappings and lists as JSON.

    >>> _cell("topk"), _cell({"kind": "topk", "density": 0.01})
    ('topk', '{"kind": "topk", "density": 0.01}')
    """
    if isinstance(value, Spec):
        value = value.described("json") if isinstance(value, Component) else value.model_dump(mode="json")
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, Mapping | list | tuple) else value
