"""The rows of a build-up study, or of a replay of a trace, and their panels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from simulator.engine.build_up import build_up
from simulator.errors import InputError, Problem
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.colours import line_styles
from simulator.reporting.figures.style.panels import Band, Mark, Panel, PanelAxis, Series

_PANELS = 3
_MARKED = 60
"""Iterations whose marks can be told apart."""


def build_up_rows(
    source: Source, columns: list[str], methods: Sequence[Mapping[str, Any] | str], at_most_workers: bool = False
) -> pd.DataFrame:
    """Columns of the rows of a build-up study, or of a replay of `methods` over a trace; all, or those at the most
    workers. The name of a method that has not settled on some of the workers that are shown says so.

    Raises InputError where rows lack a column.
    """
    rows = build_up(source.folder or source.place, methods) if source.kind == "trace" else source.document
    table = pd.DataFrame(rows)
    absent = [name for name in columns if name not in table]
    if absent:
        raise InputError(Problem(source.place, f"rows with {', '.join(absent)}", "rows without"))
    if at_most_workers:
        table = table[table["workers"] == table["workers"].max()]
    moving = set(table.loc[table["unsettled"] != "", "method"]) if "unsettled" in table else set()
    names = {name: f"{name} (has not settled)" for name in moving}
    return table[columns].replace({"method": names} if names else {})


def split_at_gaps(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Rows in the order of their iterations, split wherever an iteration was not recorded."""
    iterations = pd.Series(sorted(rows["iteration"].unique()))
    part = dict(zip(iterations, iterations.diff().ne(1).cumsum(), strict=True))
    return [each for _, each in rows.sort_values("iteration", kind="stable").groupby(rows["iteration"].map(part))]


def recorded_runs(data: pd.DataFrame) -> list[pd.DataFrame]:
    """The rows at the most workers, split at the gaps; all in one where there would be more than three parts."""
    last = data[data["workers"] == data["workers"].max()]
    runs = split_at_gaps(last)
    return runs if len(runs) <= _PANELS else [last]


def iteration_panels(
    data: pd.DataFrame, column: str, axis: PanelAxis, said: str, ends: Sequence[str] = ()
) -> list[Panel]:
    """A panel for each recorded run of iterations, at the most workers, with a column over the iterations.

    Lines never cross a gap, since nothing was recorded there. The runs share one axis, and more than three are drawn in
    one panel. `ends` are columns between which the panel is shaded, `said` is the value at the pointer.
    """
    runs, panels = recorded_runs(data), []
    for place, run in enumerate(runs):
        words = f"iteration ({data['workers'].max():,} workers)" if place == (len(runs) - 1) // 2 else ""
        marks = draw_iterations(run, column, data["method"], ["iteration %{x}", said], ends)
        panels.append(
            Panel(PanelAxis("iteration", "count", most=8 // len(runs), page=words), axis, marks, shared=place > 0)
        )
    return panels


def draw_iterations(
    run: pd.DataFrame, column: str, labels: Iterable[str], said: Sequence[str], ends: Sequence[str] = ()
) -> list[Mark]:
    """A column over the iterations of a run with the looks of `labels`, interrupted where nothing was recorded."""
    marks: list[Mark] = []
    gap = pd.DataFrame({"iteration": [None], column: [None]}, dtype=float)
    for method, line in line_styles(labels):
        parts = split_at_gaps(run[run["method"] == method])
        if ends:
            low, high = ends
            marks += [Band(method, part["iteration"], part[low], part[high], line["colour"], 0.2) for part in parts]
        whole = pd.concat(
            [gap, *(piece for part in parts for piece in (part[["iteration", column]], gap))][1:-1] or [gap]
        )
        look = line | {"size": 4 if max(map(len, parts), default=0) <= _MARKED else 0, "width": 1.2}
        marks.append(Series(method, whole["iteration"], whole[column], **look, said=said))
    return marks
