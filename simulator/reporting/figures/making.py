"""Drawing figures: to a file with the table that it shows, or as a picture of results in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pandas as pd

from simulator.answers import Answer
from simulator.files import write_text
from simulator.prediction.collective import CollectiveTimes
from simulator.prediction.run import Prediction
from simulator.prediction.run_files import store
from simulator.records import replace
from simulator.reporting.figures.base import Figure, figure_of
from simulator.reporting.figures.data.sources import Source, of_document, of_table, open_source, select_rows
from simulator.reporting.figures.lines import Lines
from simulator.reporting.figures.style.paper import FILE_DPI, Picture, draw_panels, house_style, save_figure

Result: TypeAlias = "Prediction | pd.DataFrame | Answer | Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | Path"
"""What `run`, `sweep`, `validate` and a build-up study return, or a place that `sparsim report` reads."""


def draw_figure(member: Figure, data: pd.DataFrame, title: str = "") -> Picture:
    """The figure of a table, with its own title or another one."""
    with house_style():
        canvas = Picture(figsize=(member.width, member.height), layout="constrained")
        canvas.data = data
        canvas.suptitle(title or member.title, x=0.015, ha="left", fontsize=13, fontweight="bold")
        draw_panels(member.compose(data), canvas)
    return canvas


def write_figure(
    member: Figure, data: pd.DataFrame, path: Path, title: str = "", dpi: float = FILE_DPI
) -> tuple[Path, Path]:
    """Draw the figure of a table into `path`, and write the table to the same name with `.csv`; returns both paths.

    Raises InputError where the format is unknown or a file can't be written.
    """
    save_figure(draw_figure(member, data, title), path, dpi)
    table = path.with_suffix(".csv")
    write_text(table, data.to_csv(index=False, lineterminator="\n"))
    return path, table


def draw(kind: str, *results: Result, where: Mapping[str, Any] | None = None, **settings: Any) -> Picture:
    """Draw the figure `kind` of one or several results; `picture.data` is the table that it shows.

    `where` chooses rows of a sweep, by column; `settings` are the figure's own (`sparsim list figures` names figures
    and what they take). Raises InputError for an unknown figure or setting, or results that lack what it needs.
    """
    if not results:
        raise TypeError("draw() needs at least one result")
    member = figure_of(kind, settings)
    with TemporaryDirectory() as folder:
        first, *rest = [_as_source(result, Path(folder) / str(place)) for place, result in enumerate(results)]
        data = member.data(select_rows(replace(first, others=tuple(rest)), where or {}))
    return draw_figure(member, data)


def _as_source(result: Result, folder: Path) -> Source:
    """A result as a source; a run is stored in `folder`, since its tables are read from there."""
    prediction = getattr(result, "prediction", result)  # what `run` returns knows what it was made from
    if isinstance(prediction, Prediction):
        store(folder, prediction)
        return replace(open_source(str(folder)), place=prediction.scenario.name)
    if isinstance(result, pd.DataFrame):
        return of_table(result, "the table")
    if isinstance(result, str | Path):
        return open_source(str(result))
    return of_document(result.to_dict() if isinstance(result, Answer) else result, "the results")


_OVER, _QUANTITY = "payload_bytes", "bus bandwidth in GB/s"


def write_collective(answer: CollectiveTimes, out: Path) -> None:
    """Write the rows to a .csv file, or draw the bus bandwidth over the payload, with the figure's table beside it.

    Raises InputError for an unknown format and where the file cannot be written.
    """
    table = pd.DataFrame(answer.to_dict()["times"])
    if out.suffix == ".csv":
        ends = pd.DataFrame(table.pop("interval_s").tolist(), columns=["interval_low_s", "interval_high_s"])
        write_text(out, table.join(ends).to_csv(index=False, lineterminator="\n"))
        return
    rate = table["bus_bandwidth_bytes_per_s"] / 1e9
    drawn = {"line": answer.kind, "over": table[_OVER], "key": _OVER, "value": rate, "quantity": _QUANTITY}
    member = Lines(over=_OVER, quantity=_QUANTITY)
    write_figure(member, pd.DataFrame(drawn), out, f"{answer.kind} on {answer.network}")
