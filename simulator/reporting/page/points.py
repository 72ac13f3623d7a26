"""A sweep's rows for the browser: column by column, repeated values once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from simulator.models.terms import BREAKDOWN, TERM_LABELS
from simulator.records import replace
from simulator.reporting.figures.data.rows import methods, varied_keys
from simulator.reporting.figures.style.colours import assign_looks
from simulator.reporting.page.parts import Points
from simulator.reporting.page.plots import AXIS, LAYOUT, json_numbers
from simulator.reporting.page.theme import css_colour
from simulator.reporting.wording.blocks import Column, column_of
from simulator.reporting.wording.quantities import method_name

_RESULTS = (
    *("iteration_time_s", "iteration_time_interval_s.p5", "iteration_time_interval_s.p95", "throughput_samples_per_s"),
    *("verdict", "speed_up", "speed_up_interval.p5", "speed_up_interval.p95", "probability"),
    *("scaling_efficiency", *(f"breakdown_s.{phase}" for phase in BREAKDOWN), "communication_total_s"),
    *("traffic.sent_bytes_per_worker", "traffic.busiest_link.utilisation", "density.selected", "density.aggregated"),
    *("density.build_up", "density.padding", "workers", "fidelity.tier", "digest"),
)
"""The results in the table of points, in this order."""
_DIGEST = 12
_REFERENCES = {
    "speed_up": {"value": 1.0, "label": "break-even: as fast as dense"},
    "scaling_efficiency": {"value": 1.0, "label": "ideal"},
}
"""Lines of the plot of points, as in the figures."""
_FIRST = ("speed_up", "iteration_time_s", "throughput_samples_per_s")
"""What is plotted first, where it differs: the answer to whether a method pays, else how long an iteration takes."""


def points_of(table: pd.DataFrame) -> Points:
    """Every row of a sweep; columns that are the same in all rows are left out (`constants`)."""
    keys = varied_keys(table)
    different = [
        name for name in _RESULTS if name in table and name not in keys and table[name].nunique(dropna=False) > 1
    ]
    columns = [_varied_column(table, name) for name in keys] + [column_of(name) for name in different]
    names = methods(table)
    looks = {
        name: {"colour": css_colour(look.colour), "stroke": look.stroke} for name, look in assign_looks(names).items()
    }
    x, y = _choose_axes(table, columns[: len(keys)], different)
    entries = {**LAYOUT["legend"], "traceorder": "normal"}
    return Points(
        look=AXIS,
        layout=LAYOUT | {"height": 440, "legend": entries, "showlegend": True},
        x=x,
        y=y,
        references={key: reference for key, reference in _REFERENCES.items() if key in different},
        columns=columns,
        values={column.key: _encode(table[column.key], column) for column in columns}
        | {"method": _encode_levels(names.map(str).tolist())},
        count=len(table),
        varied=len(keys),
        palette=looks,
        phases=[
            {"key": f"breakdown_s.{phase}", "label": TERM_LABELS[phase], "look": f"term-{phase}"}
            for phase in BREAKDOWN
            if f"breakdown_s.{phase}" in table
        ],
        constant={name: value for name, value in constants(table).items() if name.startswith("breakdown_s.")},
    )


def _choose_axes(table: pd.DataFrame, varied: Sequence[Column], results: Sequence[str]) -> tuple[str, str]:
    """What is plotted first: the answer against the varied number with the most values, or against what is varied."""
    numbers = [name for name in results if pd.api.types.is_numeric_dtype(table[name])]
    y = next((name for name in (*_FIRST, *numbers) if name in numbers), "")
    ranked = sorted(varied, key=lambda column: (column.kind == "text", -table[column.key].nunique()))
    return (ranked[0].key if ranked else y), y


def constants(table: pd.DataFrame) -> dict[str, Any]:
    """What is the same in all rows, by column."""
    same = [name for name in table if len(table) and table[name].nunique(dropna=False) == 1]
    return {str(name): table[name].iloc[0] for name in same if not pd.isna(table[name].iloc[0])}


def _varied_column(table: pd.DataFrame, name: str) -> Column:
    column = column_of(name)
    return column if pd.api.types.is_numeric_dtype(table[name]) else replace(column, kind="text")


def _encode(values: pd.Series[Any], column: Column) -> dict[str, Any]:
    if column.key == "digest":
        return {"plain": [str(value)[:_DIGEST] for value in values]}
    if column.kind == "text" or not pd.api.types.is_numeric_dtype(values):
        return _encode_levels([None if pd.isna(value) else method_name(value) for value in values])
    numbers = json_numbers(values)
    return _encode_levels(numbers) if values.nunique() * 4 < len(values) else {"plain": numbers}


def _encode_levels(values: list[Any]) -> dict[str, Any]:
    """Each value as its place among the different ones."""
    levels = list(dict.fromkeys(values))
    place = {value: number for number, value in enumerate(levels)}
    return {"levels": levels, "codes": [place[value] for value in values]}
