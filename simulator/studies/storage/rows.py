"""A result as one row of a table.

Columns are the keys of its JSON joined by dots (`breakdown_s.forward`, `traffic.busiest_link.name`), with the units in
their names. `iteration_time_interval_s` becomes `.p5` and `.p95`; `warnings` (without their sizes, so that they can
be counted) and `calibration` (each curve or law with its held-out error) become one text each; other lists (`links`,
`collectives`, `density_over_iterations`) are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from simulator.answers import plain
from simulator.prediction.result import TIME_INTERVAL, RunResult
from simulator.prediction.run import Prediction

_PLAIN = frozenset((float, int, bool, str, type(None)))
_LISTS = (list, tuple)


def rows_of(predictions: Sequence[Prediction]) -> list[dict[str, Any]]:
    """Predictions as rows: what `row_of` makes of their results, without the parts that it leaves out."""
    return [row_of(prediction.result_without_lists) for prediction in predictions]


def row_of(result: RunResult) -> dict[str, Any]:
    """A result as one row. The scenario's name is left out: points with one digest share a row."""
    row: dict[str, Any] = {}
    for key, value in plain(result).items():
        if key == "scenario":
            continue
        if key == TIME_INTERVAL:
            row |= {f"{key}.p5": value[0], f"{key}.p95": value[1]}
        elif key == "warnings":
            row[key] = "; ".join(text.replace(";", ",") for text in result.warning_texts)
        elif key == "calibration":
            row[key] = "; ".join(
                [_describe_basis(item.what, item.id, item.held_out_mape) for item in result.calibration]
            )
        else:
            _flatten(key, value, row)
    return row


@lru_cache(maxsize=4096)
def _describe_basis(what: str, name: str, error: float | None) -> str:
    known = "held-out error not stated" if error is None else f"held-out error {100 * error:.3g} %"
    return f"{what} {name}: {known}".replace(";", ",")


def _flatten(name: str, value: Any, row: dict[str, Any]) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            if type(inner) in _PLAIN:
                row[f"{name}.{key}"] = inner
            else:
                _flatten(f"{name}.{key}", inner, row)
    elif not isinstance(value, _LISTS):
        row[name] = value
