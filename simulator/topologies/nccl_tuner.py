"""Rows of an NCCL tuner plug-in: the algorithm and protocol for a collective, a size and a cluster."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from simulator.bounds import BOUNDS
from simulator.component import Spec, expected
from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.loading.finding import find_in_folder
from simulator.models.curves import Floats
from simulator.models.exchange import Layout
from simulator.units import Bytes

Collective = Literal["allreduce", "allgather", "reducescatter", "broadcast", "reduce"]
Algorithm = Literal["tree", "ring"]
WireProtocol = Literal["ll", "ll128", "simple"]
MOST_BYTES = 1e18
MAX_ROWS = 10_000

_WORDS = {"collective": get_args(Collective), "algorithm": get_args(Algorithm), "protocol": get_args(WireProtocol)}
_COLUMNS = ["collective", "min_bytes", "max_bytes", "algorithm", "protocol"]
_COLUMNS += ["channels", "nodes", "ranks", "pipe_ops", "registered"]
_NEEDED = 5
_WHOLE = re.compile(r"-?[0-9]{1,30}")


class TunerRow(Spec):
    """One row: sizes from `min_bytes` to `max_bytes` take `algorithm` and `protocol`; -1 stands for any value.

    Columns and meaning are those of NCCL's example tuner plug-in (NVIDIA/nccl, plugins/tuner/example, v2.30.7, 2025).
    `channels` changes no time here. A row for several operations in a group (`pipe_ops`) or for registered buffers
    (`registered: 1`) never applies.

    - `collective`: to which the row applies.
    - `nodes`: of the job.
    - `ranks`: workers of the job.
    - `registered`: of registered buffers.
    """

    collective: Collective
    min_bytes: Bytes = 0.0
    max_bytes: Bytes = MOST_BYTES
    algorithm: Algorithm
    protocol: WireProtocol
    channels: int = Field(default=-1, ge=-1, le=BOUNDS["count"].largest)
    nodes: int = Field(default=-1, ge=-1, le=BOUNDS["count"].largest)
    ranks: int = Field(default=-1, ge=-1, le=BOUNDS["count"].largest)
    pipe_ops: int = Field(default=-1, ge=-1, le=BOUNDS["count"].largest)
    registered: int = Field(default=-1, ge=-1, le=1)

    @model_validator(mode="after")
    def _some_size_fits(self) -> Self:
        if self.max_bytes < self.min_bytes:
            raise expected(f"`max_bytes` of at least {self.min_bytes:g} B", f"{self.max_bytes:g} B")
        return self

    def matches(self, primitive: str, nbytes: Floats, layout: Layout) -> npt.NDArray[np.bool_]:
        """The payloads (b,) to which the row applies. NCCL has trees for all-reduce only."""
        fits = (
            self.collective == primitive.replace("_", "")
            and (self.algorithm == "ring" or self.collective == "allreduce")
            and self.nodes in (-1, layout.nodes)
            and self.ranks in (-1, layout.workers)
            and self.pipe_ops in (-1, 1)
            and self.registered in (-1, 0)
        )
        return np.asarray((nbytes >= self.min_bytes) & (nbytes <= self.max_bytes) & fits)


def read_tuner(path: Path) -> tuple[TunerRow, ...]:
    """Rows of a tuner plug-in's file with 5 to 10 columns; blank lines, # comments and a heading are skipped.

    Raises InputError that names file, line and column.
    """
    problems: list[Problem] = []
    rows: list[TunerRow] = []
    count = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            for line in reader:
                cells = [cell.strip().lower() for cell in line]
                if not any(cells) or cells[0].startswith("#") or cells[0] == "collective_type":
                    continue
                count += 1
                if count > MAX_ROWS:
                    raise InputError(Problem(f"{path}:{reader.line_num}", f"at most {MAX_ROWS} rows", "more"))
                found = _find_problems(cells, f"{path}:{reader.line_num}")
                if not found:
                    rows.append(_row(cells))
                problems += found
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(Problem(str(path), "a readable CSV file", format_value(str(error)))) from None
    if problems:
        raise InputError(problems)
    return tuple(rows)


def rows_of(value: Any, info: ValidationInfo) -> Any:
    """The rows, or those of the `.csv` file of this name, in the folder of the file that names it."""
    if not isinstance(value, str):
        return value
    path = find_in_folder(value, (info.context or {}).get("near"))
    if not value.endswith(".csv") or path is None:
        raise expected("rows, or the name of a .csv file in the folder of this file", format_value(value))
    try:
        return read_tuner(path)
    except InputError as error:
        raise PydanticCustomError("input_error", "{text}", {"text": str(error), "problems": error.problems}) from None


def _find_problems(cells: list[str], where: str) -> list[Problem]:
    """The problems of one line."""
    if not _NEEDED <= len(cells) <= len(_COLUMNS):
        columns = f"{_NEEDED} to {len(_COLUMNS)} columns"
        return [Problem(where, columns, str(len(cells)), f"in this order: {', '.join(_COLUMNS)}")]
    problems = []
    for column, text in zip(_COLUMNS, cells, strict=False):
        if column in _WORDS:
            if text not in _WORDS[column]:
                hint = suggest_nearest(text, _WORDS[column])
                problems.append(Problem(f"{where}: {column}", f"a known {column}", format_value(text), hint))
            continue
        least, most = (0 if column.endswith("_bytes") else -1), (1 if column == "registered" else np.inf)
        if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
            what = f"a whole number, {least} or more" if most > 1 else "-1, 0 or 1"
            problems.append(Problem(f"{where}: {column}", what, format_value(text)))
    if not problems and int(cells[2]) < int(cells[1]):
        problems.append(Problem(f"{where}: max_bytes", f"at least {cells[1]}, the `min_bytes`", cells[2]))
    return problems


def _row(cells: list[str]) -> TunerRow:
    """The row of cells without problems."""
    values: dict[str, Any] = dict(zip(_COLUMNS, cells, strict=False))
    # No job has as many nodes or ranks as may be written.
    most = int(BOUNDS["count"].largest)
    numbers = {column: min(int(text), most) for column, text in values.items() if column not in _WORDS}
    sizes = {column: min(float(values[column]), MOST_BYTES) for column in ("min_bytes", "max_bytes")}
    return TunerRow.model_validate({**values, **numbers, **sizes})
