"""Links over the time of an iteration as strips: SVG that fits any width and needs no script."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from markupsafe import Markup

from simulator.reporting.page.drawings.svg import amount_legend, choose_ticks, lane, rectangle, shade, time_axis
from simulator.reporting.wording.values import format_share
from simulator.units import show_bandwidth, show_time

_PERIODS = 400
"""Periods of a strip; where a link has more, means over as many equal ones are drawn."""


def link_strips(data: pd.DataFrame) -> Markup:
    """One strip for each link, the busiest on top; the stronger its colour, the larger the share of its capacity.

    `data` is the table of the figure `link_utilisation`.
    """
    end = float(data["end_s"].max())
    ticks = choose_ticks(end)
    lanes = Markup("").join(_lane(str(link), rows, end) for link, rows in data.groupby("link", sort=False))
    words = "time since the first iteration began; the stronger the colour, the larger the share of its capacity:"
    below = Markup('{}<p class="of">{}</p>{}').format(
        time_axis(ticks, end), words, amount_legend("little", "all of it")
    )
    return Markup('<div class="drawing">{}{}</div>').format(lanes, below)


def _lane(link: str, rows: pd.DataFrame, end: float) -> Markup:
    alike = int(rows["alike"].iloc[0])
    busy = float((rows["utilisation"] * (rows["end_s"] - rows["start_s"])).sum()) / end if end else 0.0
    parts = [Markup('<rect class="empty" width="100%" height="100%"/>')]
    parts += [
        rectangle(
            shade(used),
            start / end,
            (stop - start) / end,
            f"{show_time(start)} to {show_time(stop)}: {format_share(used)} busy, {show_bandwidth(rate)}",
        )
        for start, stop, used, rate in _periods(rows)
        if used > 0
    ]
    name = link + (f" and {alike - 1} alike" if alike > 1 else "")
    return lane(name, f"{format_share(busy)} busy on average", parts)


def _periods(rows: pd.DataFrame) -> Iterator[tuple[float, float, float, float]]:
    """Start, end, utilisation and bytes per second of each period."""
    columns = rows[["start_s", "end_s", "utilisation", "bytes_per_s"]].to_numpy(dtype=float)
    if len(columns) <= _PERIODS:
        yield from columns.tolist()
        return
    starts, ends, *values = columns.T
    edges = np.linspace(starts[0], ends[-1], _PERIODS + 1)
    means = []
    for value in values:
        # What has been carried up to each edge; its slope is the mean.
        carried = np.concatenate([[0.0], np.cumsum(value * (ends - starts))])
        means.append(np.diff(np.interp(edges, np.append(starts, ends[-1]), carried)) / np.diff(edges))
    yield from zip(edges[:-1].tolist(), edges[1:].tolist(), means[0].tolist(), means[1].tolist(), strict=True)
