"""What a build-up study found, row by row; made here from a trace where only that is given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from simulator.errors import InputError, Problem
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.style import axis_number, front, looks
from simulator.studies.traces.trace_study import build_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

_PANELS = 3


def build_up_rows(source: Source, columns: list[str], methods: Sequence[dict[str, Any] | str]) -> pd.DataFrame:
    """Columns of the rows of a build-up study, or of a replay of `methods` over a trace.

    Raises InputError where rows lack a column.
    """
    rows = build_up(source.folder or source.place, methods) if source.kind == "trace" else source.document
    table = pd.DataFrame(rows)
    absent = [name for name in columns if name not in table]
    if absent:
        raise InputError(Problem(source.place, f"rows with {', '.join(absent)}", "rows without"))
    return table[columns]


def recorded_runs(data: pd.DataFrame) -> list[pd.DataFrame]:
    """The rows at the most workers, split where iterations do not follow each other; all in one beyond three runs."""
    last = data[data["workers"] == data["workers"].max()]
    iterations = pd.Series(sorted(last["iteration"].unique()))
    number = dict(zip(iterations, iterations.diff().ne(1).cumsum(), strict=True))
    runs = [run for _, run in last.groupby(last["iteration"].map(number))]
    return runs if len(runs) <= _PANELS else [last]


def panels(figure: FigureBase, data: pd.DataFrame) -> tuple[Axes, list[tuple[Axes, pd.DataFrame]]]:
    """A panel over workers, and beside it one for every recorded run of iterations with its rows, at the most workers.

    Iterations that do not follow each other are never joined, since nothing was recorded between them. Runs share the
    second axis; more than three go into one panel.
    """
    runs = recorded_runs(data)
    axes = figure.subplots(1, 1 + len(runs), width_ratios=(1.2 * len(runs), *[1] * len(runs)), squeeze=False)[0]
    for place, one in enumerate(axes[1:]):
        if place:
            one.sharey(axes[1])
            one.tick_params(labelleft=False)
        axis_number(one, "iteration", "x")
        one.xaxis.get_major_locator().set_params(nbins=8 // len(runs), integer=True)
    return axes[0], list(zip(axes[1:], runs, strict=True))


def draw_iterations(axes: Axes, run: pd.DataFrame, column: str, labels: Iterable[str]) -> None:
    """A column over the iterations of a run, method by method with the looks of `labels`."""
    styles = looks(labels)
    for place, (method, look) in enumerate(styles.items()):
        line = look.line(front(place, len(styles))) | {"markersize": 4}
        for part in unbroken(run, method):
            axes.plot(part["iteration"], part[column], **line)


def unbroken(run: pd.DataFrame, method: str) -> list[pd.DataFrame]:
    """The rows of a method, cut where an iteration was not recorded."""
    mine = run[run["method"] == method].sort_values("iteration")
    return [part for _, part in mine.groupby(mine["iteration"].diff().ne(1).cumsum())]
