"""What a build-up study found, row by row; made here from a trace where only that is given."""

from __future__ import annotations

import pandas as pd

from simulator.errors import InputError, Problem
from simulator.reporting.figures.sources import Source
from simulator.studies.trace_study import DEFAULT_METHODS, build_up


def build_up_rows(source: Source, columns: list[str]) -> pd.DataFrame:
    """Columns of the rows of a build-up study, or of the default methods' replay over a trace.

    Raises InputError where rows lack a column.
    """
    rows = build_up(source.folder or source.place, DEFAULT_METHODS) if source.kind == "trace" else source.document
    table = pd.DataFrame(rows)
    absent = [name for name in columns if name not in table]
    if absent:
        raise InputError(Problem(source.place, f"rows with {', '.join(absent)}", "rows without"))
    return table[columns]
