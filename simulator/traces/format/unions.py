"""union.csv of a trace: measured unions of what several workers selected."""

from __future__ import annotations

import math
from pathlib import Path

from simulator.errors import InputError, Problem
from simulator.loading.csv_tables import read_rows
from simulator.records import Record


class UnionPoint(Record):
    """A measured union: the share of coordinates that at least one of `workers` selected, with its standard error."""

    iteration: int
    granularity: str
    error_feedback: bool
    density: float
    workers: int
    union_density: float
    se: float


COLUMNS = tuple(UnionPoint.__struct_fields__)


def read_unions(path: Path) -> tuple[UnionPoint, ...]:
    """The points of a union.csv; none where there is no such file. Raises InputError with every damaged cell."""
    points: list[UnionPoint] = []
    problems: list[Problem] = []
    for row in read_rows(path, COLUMNS, problems) if path.exists() else ():
        point = (
            row.convert("iteration", int, "a whole number", lambda n: n >= 0),
            row.convert("granularity", str, "layer, bucket or model", lambda s: s in ("layer", "bucket", "model")),
            row.convert("error_feedback", {"true": True, "false": False}.__getitem__, "true or false"),
            row.convert("density", float, "above 0, at most 1", lambda x: 0 < x <= 1),
            row.convert("workers", int, "a whole number from 1 up", lambda n: n >= 1),
            row.convert("union_density", float, "from 0 to 1", lambda x: 0 <= x <= 1),
            row.convert("se", float, "0 or more", lambda x: 0 <= x < math.inf),
        )
        if None not in point:
            points.append(UnionPoint(*point))
    if problems:
        raise InputError(problems)
    return tuple(points)
