"""The rows of a build-up study, or of a replay of a trace, and their panels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from simulator.engine.build_up import build_up
from simulator.errors import InputError, Problem
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.colours import line_styles
from simulator.reporting.figures.style.panels import Band, Panel, PanelAxis, Series

_PANELS = 3
_POINTS = 60
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
    one panel. `ends` are columns between which the panel is shaded on paper, `said` is the value at the pointer.
    """
    runs, panels = recorded_runs(data), []
    for place, run in enumerate(runs):
        words = f"iteration ({data['workers'].max():,} workers)" if place == (len(runs) - 1) // 2 else ""
        x = PanelAxis(name_iterations(run), "count", most=8 // len(runs), page=words)
        marks: list[Series | Band] = [*draw_iterations(run, column, data["method"])]
        for method, line in line_styles(data["method"]):
            parts = split_at_gaps(run[run["method"] == method])
            if ends:
                low, high = ends
                marks += [
                    Band(method, points["iteration"], points[low], points[high], line["colour"], 0.2, "paper")
                    for points in map(mean_points, parts)
                ]
            gap = pd.DataFrame({"iteration": [None], column: [None]}, dtype=float)
            whole = pd.concat([piece for part in parts for piece in (gap, part[["iteration", column]])][1:])
            look: Any = {**line, "where": "page", "said": ["iteration %{x}", said]}
            marks.append(Series(method, whole["iteration"], whole[column], **look))
        panels.append(Panel(x, axis, marks, shared=place > 0))
    return panels


def draw_iterations(run: pd.DataFrame, column: str, labels: Iterable[str]) -> Iterator[Series]:
    """A column over the iterations of a run as it is drawn on paper, with the looks of `labels`."""
    for method, line in line_styles(labels):
        for part in split_at_gaps(run[run["method"] == method]):
            points = mean_points(part)
            look = line | {"size": 4 if len(points) <= _MARKED else 0, "width": 1.2}
            yield Series(method, points["iteration"], points[column], **look, where="paper")


def mean_points(part: pd.DataFrame) -> pd.DataFrame:
    """The rows of a run as no more points than a line can show: means over consecutive iterations."""
    together = _iterations_per_point(part)
    if together == 1:
        return part
    return part.select_dtypes("number").groupby([place // together for place in range(len(part))]).mean()


def name_iterations(run: pd.DataFrame) -> str:
    """The label of an axis of iterations, with how many are drawn as one point."""
    longest = max(
        (_iterations_per_point(part) for _, one in run.groupby("method") for part in split_at_gaps(one)), default=1
    )
    return "iteration" if longest == 1 else f"iteration (points are means of {longest})"


def _iterations_per_point(part: pd.DataFrame) -> int:
    """How many iterations are drawn as one point."""
    return -(-len(part) // _POINTS)
