"""A page as plain values, and its charts: figures drawn for the browser from the table that their picture shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from simulator.errors import InputError
from simulator.records import Record, replace
from simulator.reporting.figures.base import figure_of
from simulator.reporting.figures.data.sources import BANDWIDTH, DENSITY, Source, varied_keys
from simulator.reporting.figures.style.panels import Boxes, Panel
from simulator.reporting.page.drawings import link_strips, traffic_grid
from simulator.reporting.page.plots import Plot, Points, draw_in_page
from simulator.reporting.wording.blocks import Table, describe, format_varied

MARKUPS: dict[str, Callable[[Panel, Boxes], Markup | None]] = {
    "traffic_matrix": traffic_grid,
    "link_utilisation": link_strips,
}
"""Figures that are drawn as SVG in the page, without a script; None where there is nothing to tell apart."""
NOTES = {
    "break_even_map": "Number: how much longer the iteration takes with dense, or with the next best method where dense"
    " wins or is not in the sweep. The larger it is, the stronger the colour. Hatched, in a sweep with verdicts: not "
    "decided whether any method is faster than dense.",
    "measured_predicted": "Hollow marks were used in fitting, so they are no predictions.",
    "time_to_quality": "Grey curves join equal times to the target. No other method has fewer iterations and "
    "shorter ones than one with a ring.",
}
_AXES = {
    "break_even_map": ("sparsifier", "cluster.nodes", BANDWIDTH),
    "density_sweep": ("sparsifier", DENSITY),
    "scaling_efficiency": ("sparsifier", "cluster.nodes"),
}
"""The varied keys that a figure of a sweep shows by itself; the reader chooses the values of all others."""
_VIEWS = 400


class View(Record):
    """A drawing of a chart for one combination of its choices."""

    chosen: tuple[str, ...]
    plot: Plot


class Chart(Record):
    """A drawing; with `choices` (what is chosen, in words) there is a view for each combination.

    `first` is the view that is shown before the reader chooses. A drawing that is not interactive has no views, but
    `markup`: SVG in HTML, which stands in the page as it is.
    """

    kind: str
    title: str
    question: str
    views: Sequence[View] = ()
    choices: Sequence[str] = ()
    note: str = ""
    first: int = 0
    markup: Markup | None = None


def provenance(versions: Mapping[str, str], **more: Any) -> list[tuple[str, str]]:
    """What a page says of where its figures come from; versions last, where they are stated."""
    rows = [(name, str(value)) for name, value in more.items()]
    stated = ", ".join(f"{name} {version}" for name, version in versions.items())
    return [*rows, ("versions", stated)] if stated else rows


class Page(Record):
    """A page: title and subtitle, the answer in a sentence, further facts, figures at a glance, and the parts below.

    `texts` are longer texts that are shown when the reader opens them: name and content.
    """

    title: str
    subtitle: str
    answer: str = ""
    facts: Sequence[str] = ()
    glance: Sequence[tuple[str, str]] = ()
    warnings: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    points: Points | None = None
    tables: Sequence[Table] = ()
    provenance: Sequence[tuple[str, str]] = ()
    texts: Sequence[tuple[str, str]] = ()


def chart_of(kind: str, source: Source, settings: dict[str, Any] | None = None) -> Chart | None:
    """The chart of a figure without choices; None where the source lacks what it shows."""
    member = figure_of(kind, settings)
    try:
        data = member.data(source)
    except InputError:
        return None
    drawn, chart = member.compose(data), Chart(kind, member.title, member.question, note=NOTES.get(kind, ""))
    if kind not in MARKUPS:
        return replace(chart, views=(View((), draw_in_page(drawn)),))
    (panel,) = drawn.panels
    (boxes,) = (mark for mark in panel.marks if isinstance(mark, Boxes))
    markup = MARKUPS[kind](panel, boxes)
    return replace(chart, markup=markup) if markup is not None else None


def charts_of(source: Source, *kinds: str) -> list[Chart]:
    """The charts of figures without choices, those that the source has what they show for."""
    return [chart for kind in kinds if (chart := chart_of(kind, source)) is not None]


def join_charts(charts: Mapping[Any, Chart | None], choices: Sequence[str]) -> Chart | None:
    """Charts by what is chosen, in words, as one, those that there are; the first one is shown first."""
    found = {words: chart for words, chart in charts.items() if chart is not None}
    views = tuple(View(words, chart.views[0].plot) for words, chart in found.items())
    return replace(next(iter(found.values())), views=views, choices=choices) if found else None


def sweep_charts(source: Source) -> Iterator[Chart]:
    """Figures of a sweep, with a view for each combination of the varied keys that they do not show."""
    for kind, axes in _AXES.items():
        shown = [name for name in axes if name in source.table]
        # A key that changes together with an axis (zipped keys) needs no choice.
        groups = source.table.groupby(shown, dropna=False) if shown else None
        others = [
            name
            for name in varied_keys(source.table)
            if name not in shown and (groups is None or (groups[name].nunique(dropna=False) > 1).any())
        ]
        parts = list(source.table.groupby(others, dropna=False, sort=False)) if others else []
        chart = None if others else chart_of(kind, source)
        if len(parts) <= _VIEWS:
            charts = {}
            for key, rows in parts:
                part = replace(source, table=rows.reset_index(drop=True))
                charts[tuple(map(format_varied, others, key))] = chart_of(kind, part)
            chart = join_charts(charts, tuple(describe(name).label for name in others)) or chart
        if chart is not None:
            yield replace(chart, first=_middle([view.chosen for view in chart.views]))


def _middle(chosen: Sequence[Sequence[str]]) -> int:
    """The view that is nearest to the middle of every choice, which tells more than the ends of the ranges."""
    places = [pd.factorize(np.array(words))[0] for words in zip(*chosen, strict=True)]
    return int(np.argmin(sum(abs(place - (place.max() + 1) / 2) / (place.max() + 1) for place in places)))
