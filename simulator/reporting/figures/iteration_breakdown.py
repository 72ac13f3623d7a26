"""Where the time of an iteration goes: one bar for each run, split into its terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from simulator.models.terms import BREAKDOWN, LATER, TERM_LABELS
from simulator.prediction.result import RunResult
from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.rows import intervals, point_labels
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.axes import add_legend, set_axis
from simulator.reporting.figures.style.colours import GREY, PHASES
from simulator.reporting.figures.style.panels import PanelAxis
from simulator.scenario.titles import leave_out_changes
from simulator.units import show_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

MOST = 16
_LABELLED = 6
_TICKS = 5
"""Bars whose labels have room for a second line."""
INTERVAL: dict[str, Any] = {
    "fmt": "none", "ecolor": "#222222", "elinewidth": 1.6, "capsize": 5, "capthick": 1.6, "label": "90 % interval",
}  # fmt: skip


class IterationBreakdown(Figure, kind="iteration_breakdown"):
    """Stacked bars of the terms that sum to the iteration's time, with its 90 % interval where one is known."""

    title: ClassVar[str] = "Where the time of one iteration goes"
    question: ClassVar[str] = "Where does the time of one iteration go, and what does another method change?"
    takes: ClassVar[tuple[str, ...]] = ("run", "sweep")
    several: ClassVar[bool] = True
    columns: ClassVar[dict[str, str]] = {
        "run": "the run",
        "phase": "term of the iteration",
        "time_s": "seconds of the term, mean over workers",
        "iteration_time_s": "seconds of the iteration: the sum of its terms",
        "p5_s": "5th percentile of its prediction interval, seconds; missing where none is known",
        "p95_s": "95th percentile, seconds",
    }

    def collect(self, source: Source) -> pd.DataFrame:
        """One row per run and term; a run with a comparison gives two bars."""
        runs = [run for each in source.all_sources() for run in self._runs(each)]
        if len(runs) > MOST:
            raise self.refusal(source, f"at most {MOST} runs", str(len(runs)), "choose some with --where KEY=VALUE")
        names = [name for name, *_ in runs]
        rows = [
            [_unique_name(names, place), phase, terms[phase], sum(terms.values()), *interval]
            for place, (_, terms, interval) in enumerate(runs)
            for phase in BREAKDOWN
        ]
        return pd.DataFrame(rows, columns=list(self.columns))

    def _runs(self, source: Source) -> Iterator[tuple[str, dict[str, float], Sequence[float]]]:
        if source.kind == "sweep":
            keys = [f"breakdown_s.{phase}" for phase in BREAKDOWN]
            table = source.table.assign(**{f"breakdown_s.{each}": 0.0 for each in LATER} | dict(source.table.items()))
            if not set(keys) <= set(table.columns):
                raise self.refusal(source, "columns breakdown_s.*", "none")
            labels = point_labels(source.table)
            values = table[keys].to_numpy(dtype=float).tolist()
            for label, terms, interval in zip(labels, values, intervals(source.table).to_numpy().tolist(), strict=True):
                yield label, dict(zip(BREAKDOWN, terms, strict=True)), interval
        elif source.kind == "run":
            result: RunResult = source.document
            yield leave_out_changes(result.name), result.breakdown, result.interval
            if result.comparison is not None:
                rival = result.comparison
                yield rival.baseline, rival.opponent_breakdown, rival.opponent_interval
        else:
            raise self.refusal(source, "runs or sweeps only", source.kind)

    def draw(self, data: pd.DataFrame, figure: FigureBase) -> None:
        """Horizontal bars, the first run on top."""
        axes = figure.subplots()
        runs = list(dict.fromkeys(data["run"]))
        table = data.pivot(index="run", columns="phase", values="time_s").loc[runs]
        left = pd.Series(0.0, index=runs)
        for phase in BREAKDOWN:
            if not table[phase].abs().sum():
                continue
            hatch = "///" if PHASES[phase] == GREY else None
            look: Any = {"color": PHASES[phase], "hatch": hatch, "edgecolor": "white", "linewidth": 0.5}
            axes.barh(range(len(runs)), table[phase], left=left, label=TERM_LABELS[phase], **look)
            left = left + table[phase]
        room = _draw_labels(axes, data.drop_duplicates("run"))
        axes.grid(axis="y", visible=False)
        set_axis(axes, "y", PanelAxis("", names=[_wrap(run) for run in runs]))
        room = room or 1.0  # an iteration may take no time
        set_axis(axes, "x", PanelAxis("iteration time", "time", low=0, high=room, most=_TICKS))
        add_legend(figure, axes)


def _draw_labels(axes: Axes, wholes: pd.DataFrame) -> float:
    """Draw the intervals of the bars, and label each beyond its end; returns where the axis has room for the labels."""
    known = (wholes["p95_s"] > wholes["p5_s"]).tolist()
    if any(known):
        reach = wholes[known]
        sides = (reach["iteration_time_s"] - reach["p5_s"], reach["p95_s"] - reach["iteration_time_s"])
        places = [place for place, drawn in enumerate(known) if drawn]
        axes.errorbar(reach["iteration_time_s"], places, xerr=[side.clip(lower=0) for side in sides], **INTERVAL)
    long = any(known) and len(wholes) <= _LABELLED
    ends = wholes[["iteration_time_s", "p95_s"]].max(axis=1).tolist()
    rows = wholes[["iteration_time_s", "p5_s", "p95_s"]].to_numpy().tolist()
    for place, (row, end) in enumerate(zip(rows, ends, strict=True)):
        text = describe_whole(*row) if long else show_time(row[0])
        axes.annotate(text, (end, place), (6, 0), textcoords="offset points", va="center", fontsize=10.5)
    return (1.55 if long else 1.14) * float(max(ends))


def describe_whole(time: float, low: float, high: float) -> str:
    """The label of a bar: the time, and below it the 90 % interval where one is known.

    >>> describe_whole(0.2, 0.1, 0.3), describe_whole(0.2, 0.2, 0.2)
    ('200 ms\\n100 ms to 300 ms', '200 ms')
    """
    return show_time(time) + (f"\n{show_time(low)} to {show_time(high)}" if high > low else "")


def _wrap(text: str, width: int = 26) -> str:
    return "\n".join(wrap(text, width)[:3])


def _unique_name(names: list[str], place: int) -> str:
    """A name that no other run has."""
    name = names[place]
    return name if names.count(name) == 1 else f"{name} [{1 + names[:place].count(name)}]"
