"""Tidy rows: a result document as one row, and the varied values beside it.

Columns are the document's keys joined by dots (`breakdown_s.forward`, `traffic.busiest_link.name`), so that units stand
in them as they do in the document. `iteration_time_interval_s` becomes `.p5` and `.p95`, `warnings` and `calibration`
(each curve or law with its held-out error) one text; other lists (`links`, `collectives`, `density_over_iterations`)
are left to `sparsim run`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from simulator.component import Component, Spec
from simulator.scenario.scenario import Scenario

UNITS = {"s": "_s", "B": "_bytes", "B/s": "_bytes_per_s"}
"""What a quantity's unit adds to the name of its column."""


def row_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """A result document as one row. The scenario's name is left out: points with one digest share a row."""
    row: dict[str, Any] = {}
    for key, value in document.items():
        if key == "scenario":
            continue
        if key == "iteration_time_interval_s":
            row |= {f"{key}.p5": value[0], f"{key}.p95": value[1]}
        elif key == "warnings":
            row[key] = "; ".join(value)
        elif key == "calibration":
            row[key] = "; ".join(_evidence(item) for item in value)
        else:
            _flatten(key, value, row)
    return row


def _evidence(item: Mapping[str, Any]) -> str:
    error = item["held_out_mape"]
    known = "no held-out error known" if error is None else f"held-out error {100 * error:.3g} %"
    return f"{item['what']} {item['id']}: {known}".replace(";", ",")


def _flatten(name: str, value: Any, row: dict[str, Any]) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _flatten(f"{name}.{key}", inner, row)
    elif not isinstance(value, (list, tuple)):
        row[name] = value


def figure(scenario: Scenario, parts: tuple[str, ...]) -> tuple[Any, str] | None:
    """What a key is in a scenario, in SI, and its unit; None where it is no plain value."""
    parent: Any = scenario
    for name in parts[:-1]:
        parent = parent[int(name)] if isinstance(parent, tuple) and name.isdecimal() else getattr(parent, name, None)
    value = getattr(parent, parts[-1], None) if isinstance(parent, Spec) else None
    if not isinstance(value, int | float) or isinstance(value, bool) or parts[-1] not in type(parent).model_fields:
        return None
    written = parent.model_dump(mode="json", include={parts[-1]})[parts[-1]]
    return value, written.rpartition(" ")[2] if isinstance(written, str) else ""


def label(value: Any) -> Any:
    """A varied value as it stands in a table: plain ones as they are, mappings and lists as JSON.

    >>> label("topk"), label({"kind": "topk", "density": 0.01})
    ('topk', '{"kind": "topk", "density": 0.01}')
    """
    if isinstance(value, Spec):
        value = value.described("json") if isinstance(value, Component) else value.model_dump(mode="json")
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, Mapping | list | tuple) else value
