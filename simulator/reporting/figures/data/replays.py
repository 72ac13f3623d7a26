"""The rows of a build-up study, or of a replay of a trace, and their panels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from simulator.engine.build_up import build_up
from simulator.errors import InputError, Problem
from simulator.records import replace
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.panels import Band, Mark, Panel, PanelAxis, Panels, Series, line_styles
from simulator.reporting.wording.traces import NOT_SETTLED

_PANELS = 3
_POINTS = 60
"""Points of a line that can be told apart; those of a longer run are means over iterations in a row."""


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
    names = {name: f"{name} ({NOT_SETTLED})" for name in moving}
    return table[columns].replace({"method": names} if names else {})


def split_at_gaps(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Rows in the order of their iterations, split wherever an iteration was not recorded."""
    iterations = pd.Series(sorted(rows["iteration"].unique()))
    part = dict(zip(iterations, iterations.diff().ne(1).cumsum(), strict=True))
    return [each for _, each in rows.sort_values("iteration", kind="stable").groupby(rows["iteration"].map(part))]


def draw_replay(
    first: Panel, data: pd.DataFrame, column: str, axis: PanelAxis, *, said: str, title: str, ends: Sequence[str] = ()
) -> Panels:
    """A first panel, and one for each recorded run of iterations, at the most workers, with a column over these.

    Lines never cross a gap, since nothing was recorded there. The runs share one axis, and more than three are drawn in
    one panel. `ends` are columns between which the panel is shaded, `said` is the value at the pointer.
    """
    last, panels = data[data["workers"] == data["workers"].max()], list[Panel]()
    runs = split_at_gaps(last)
    runs = runs if len(runs) <= _PANELS else [last]
    for place, run in enumerate(runs):
        words = f"iteration ({data['workers'].max():,} workers)" if place == (len(runs) - 1) // 2 else ""
        marks = draw_iterations(run, column, data["method"], ["iteration %{x}", said], ends)
        over = iteration_axis(run, words, 8 // len(runs))
        panels.append(Panel(over, axis, marks, title="" if place else title, shared=place > 0))
    return Panels([replace(first, width=1.2 * len(runs)), *panels], height=480)


def iteration_axis(run: pd.DataFrame, page: str = "", most: int = 8) -> PanelAxis:
    """The axis of the iterations of a run, which says how many iterations are drawn as one point."""
    parts = (part for _, one in run.groupby("method") for part in split_at_gaps(one))
    together = max(map(_iterations_per_point, parts), default=1)
    means = "" if together == 1 else f" (points are means of {together})"
    return PanelAxis(f"iteration{means}", "count", most=most, page=page and f"{page}{means}")


def mean_points(part: pd.DataFrame) -> pd.DataFrame:
    """The rows of a run as no more points than a line can show: means over consecutive iterations."""
    together = _iterations_per_point(part)
    if together == 1:
        return part
    return part.select_dtypes("number").groupby([place // together for place in range(len(part))]).mean()


def _iterations_per_point(part: pd.DataFrame) -> int:
    """How many iterations are drawn as one point."""
    return -(-len(part) // _POINTS)


def draw_iterations(
    run: pd.DataFrame, column: str, labels: Iterable[str], said: Sequence[str], ends: Sequence[str] = ()
) -> list[Mark]:
    """A column over the iterations of a run with the looks of `labels`, interrupted where nothing was recorded."""
    marks: list[Mark] = []
    gap = pd.DataFrame({"iteration": [None], column: [None]}, dtype=float)
    for method, line in line_styles(labels):
        parts = [mean_points(part) for part in split_at_gaps(run[run["method"] == method])]
        if ends:
            low, high = ends
            marks += [Band(method, part["iteration"], part[low], part[high], line["colour"], 0.2) for part in parts]
        whole = pd.concat(
            [gap, *(piece for part in parts for piece in (part[["iteration", column]], gap))][1:-1] or [gap]
        )
        marks.append(Series(method, whole["iteration"], whole[column], **line | {"size": 4, "width": 1.2}, said=said))
    return marks
