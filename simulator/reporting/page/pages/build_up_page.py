"""The page of a build-up study, or of a trace, which is replayed for it."""

from __future__ import annotations

import pandas as pd

from simulator.errors import InputError, Problem
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.page.charts import charts_of
from simulator.reporting.page.parts import Page, provenance
from simulator.reporting.wording.tables import Column, Table
from simulator.scenario.versions import versions

_LABELS = {"build_up": "build-up"}
_KINDS = {"selected": "percent", "aggregated": "percent", "independent": "percent", "workers": "count"}


def build_up_page(source: Source) -> Page:
    """How the selections of the workers add up, and how uneven they are."""
    charts = charts_of(source, "build_up", "padding_imbalance")
    if not charts:
        raise InputError(Problem(source.place, "a build-up study or a trace", "nothing that can be shown"))
    tables = []
    if source.kind == "build_up":
        rows = pd.DataFrame(source.document)
        names = [str(name) for name in rows]
        columns = [Column(name, _LABELS.get(name, name.replace("_", " ")), _kind(rows, name)) for name in names]
        tables = [Table("Every replay", columns, rows.astype(object).where(rows.notna(), None).to_numpy().tolist(),
                        choose=[name for name in ("method", "workers") if name in names])]  # fmt: skip
    return Page(
        title="Gradient build-up",
        subtitle=f"replays of recorded gradients: {source.place}",
        charts=charts,
        tables=tables,
        provenance=provenance({"sparsim": versions()["sparsim"]}),
    )


def _kind(rows: pd.DataFrame, name: str) -> str:
    if not pd.api.types.is_numeric_dtype(rows[name]):
        return "text"
    return _KINDS.get(name, "number")
