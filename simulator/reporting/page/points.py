"""A sweep's rows for the browser: column by column, repeated values once."""

from __future__ import annotations

from typing import Any

import pandas as pd

from simulator.models.timeline import BREAKDOWN
from simulator.reporting.figures.data.rows import method_name, methods, varied
from simulator.models.terms import TERM_LABELS
from simulator.reporting.figures.style.colours import GREY, PHASES, assign_looks
from simulator.reporting.page.columns import OUTCOMES, column_of
from simulator.reporting.page.parts import Column, Points
from simulator.reporting.page.plots import values

_LEFT_OUT = ("warnings", "calibration")
_DIGEST = 12


def points_of(table: pd.DataFrame) -> Points:
    """Every row of a sweep; columns that are the same in all rows are left out (`constants`)."""
    keys = [name for name in varied(table) if table[name].nunique(dropna=False) > 1]
    known = [*OUTCOMES[:5], *(f"breakdown_s.{phase}" for phase in BREAKDOWN), *OUTCOMES[5:]]
    outcomes = [
        name
        for name in known
        if name in table and name not in keys and name not in _LEFT_OUT and table[name].nunique(dropna=False) > 1
    ]
    columns = [Column(name, item.label, _kind(table[name], item), item.about) for name in keys
               for item in [column_of(name)]]  # fmt: skip
    columns += [column_of(name) for name in outcomes]
    names = methods(table)
    found = assign_looks(names)
    return Points(
        columns=columns,
        values={column.key: _packed(table[column.key], column) for column in columns}
        | {"method": _coded(names.map(str).tolist())},
        count=len(table),
        varied=len(keys),
        palette={name: {"colour": look.colour, "stroke": look.stroke} for name, look in found.items()},
        constant={name: value for name, value in constants(table).items() if name.startswith("breakdown_s.")},
        phases=[
            {"key": f"breakdown_s.{phase}", "label": TERM_LABELS[phase], "colour": PHASES[phase],
             "pattern": "/" if PHASES[phase] == GREY else ""}
            for phase in BREAKDOWN if f"breakdown_s.{phase}" in table
        ],
    )  # fmt: skip


def constants(table: pd.DataFrame) -> dict[str, Any]:
    """What is the same in all rows, by column."""
    same = [name for name in table if len(table) and table[name].nunique(dropna=False) == 1]
    return {str(name): table[name].iloc[0] for name in same if not pd.isna(table[name].iloc[0])}


def _kind(values_: pd.Series[Any], column: Column) -> str:
    return column.kind if pd.api.types.is_numeric_dtype(values_) else "text"


def _packed(held: pd.Series[Any], column: Column) -> dict[str, Any]:
    if column.key == "digest":
        return {"plain": [str(value)[:_DIGEST] for value in held]}
    if column.kind == "text" or not pd.api.types.is_numeric_dtype(held):
        return _coded([None if pd.isna(value) else method_name(value) for value in held])
    return _coded(values(held)) if held.nunique() * 4 < len(held) else {"plain": values(held)}


def _coded(held: list[Any]) -> dict[str, Any]:
    """Each value by its place among the different ones."""
    levels = list(dict.fromkeys(held))
    place = {value: number for number, value in enumerate(levels)}
    return {"levels": levels, "codes": [place[value] for value in held]}
