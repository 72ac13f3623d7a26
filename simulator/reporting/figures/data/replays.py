"""The rows of a build-up study, or of a replay of a trace, and their panels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from simulator.engine.build_up import build_up
from simulator.errors import InputError, Problem
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.axes import set_number_axis
from simulator.reporting.figures.style.colours import line_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

_PANELS = 3
_POINTS = 60
_MARKED = 60
"""Iterations whose marks can be told apart."""


def build_up_rows(source: Source, columns: list[str], methods: Sequence[Mapping[str, Any] | str]) -> pd.DataFrame:
    """Columns of the rows of a build-up study, or of a replay of `methods` over a trace.

    Raises InputError where rows lack a column.
    """
    rows = build_up(source.folder or source.place, methods) if source.kind == "trace" else source.document
    table = pd.DataFrame(rows)
    absent = [name for name in columns if name not in table]
    if absent:
        raise InputError(Problem(source.place, f"rows with {', '.join(absent)}", "rows without"))
    return table[columns]


def priced_rows(data: pd.DataFrame, method: str) -> pd.DataFrame:
    """The rows of a method in the part that it has settled in, by which means over iterations are taken."""
    return data[(data["method"] == method) & data["priced"]]


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


def make_panels(figure: FigureBase, data: pd.DataFrame) -> tuple[Axes, list[tuple[Axes, pd.DataFrame]]]:
    """A panel over workers, and one panel for each recorded run of iterations with its rows, at the most workers.

    Lines never cross a gap, since nothing was recorded there. The runs share the second axis; more than three are drawn
    in one panel.
    """
    runs = recorded_runs(data)
    axes = figure.subplots(1, 1 + len(runs), width_ratios=(1.2 * len(runs), *[1] * len(runs)), squeeze=False)[0]
    for place, one in enumerate(axes[1:]):
        if place:
            one.sharey(axes[1])
            one.tick_params(labelleft=False)
        set_iteration_axis(one, runs[place])
        one.xaxis.get_major_locator().set_params(nbins=8 // len(runs), integer=True)
    return axes[0], list(zip(axes[1:], runs, strict=True))


def draw_iterations(
    axes: Axes, run: pd.DataFrame, column: str, labels: Iterable[str]
) -> list[tuple[str, pd.DataFrame]]:
    """Draw a column over the iterations of a run, with the looks of `labels`; returns each line's colour and points."""
    drawn = []
    for method, line in line_styles(labels):
        for part in split_at_gaps(run[run["method"] == method]):
            points = mean_points(part)
            axes.plot(
                points["iteration"],
                points[column],
                **line | {"markersize": 4 if len(points) <= _MARKED else 0, "linewidth": 1.2},
            )
            drawn.append((line["color"], points))
    return drawn


def mean_points(part: pd.DataFrame) -> pd.DataFrame:
    """The rows of a run as no more points than a line can show: means over consecutive iterations."""
    together = _iterations_per_point(part)
    if together == 1:
        return part
    return part.select_dtypes("number").groupby([place // together for place in range(len(part))]).mean()


def set_iteration_axis(axes: Axes, run: pd.DataFrame) -> None:
    """Name the axis of the iterations, with how many are drawn as one point."""
    longest = max(
        (_iterations_per_point(part) for _, one in run.groupby("method") for part in split_at_gaps(one)), default=1
    )
    set_number_axis(axes, "iteration" if longest == 1 else f"iteration (points are means of {longest})", "x")


def _iterations_per_point(part: pd.DataFrame) -> int:
    """How many iterations are drawn as one point."""
    return -(-len(part) // _POINTS)
