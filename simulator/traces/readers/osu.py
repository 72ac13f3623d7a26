"""Tables of the OSU micro-benchmarks for MPI."""

from __future__ import annotations

import math
import re
from pathlib import Path

from simulator.errors import Problem, format_value
from simulator.records import Record
from simulator.traces.readers.streams import is_whole, numbered_lines

MAX_PROBLEMS = 100
"""Problems after which the rest of a file is not read."""
_TITLE = re.compile(r"^#\s*OSU\s+(.+?)(?:\s+v([\d.]+\w*))?\s*$")
_COLUMNS = re.compile(r"(?:Avg |Min |Max )?Latency\s*\(us\)|Bandwidth \(MB/s\)|MB/s|Messages/s|Iterations")
_HEADING = re.compile(r"^#\s*Size\b")
_LATENCY = re.compile(r"(?:Avg )?Latency\s*\(us\)")
_PRIMITIVES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "reduce-scatter": "reduce_scatter",
    "broadcast": "broadcast",
    "bcast": "broadcast",
}


class OsuRow(Record):
    """One size: bytes as the benchmark counts them, and the mean seconds of one call over all ranks."""

    nbytes: int
    seconds: float
    line: int


class OsuTable(Record):
    """One benchmark: its title without version, and its rows. The number of ranks is not in the file."""

    test: str
    version: str
    rows: tuple[OsuRow, ...]
    line: int

    @property
    def primitive(self) -> str:
        """The collective as in `MeasuredCollective`; `point_to_point` for latencies, empty for other tests."""
        name = self.test.lower()
        for word, primitive in _PRIMITIVES.items():
            if word in name:
                return primitive
        return "point_to_point" if "latency" in name and name.split()[-2:] == ["latency", "test"] else ""

    def payload(self, nbytes: int, workers: int) -> int:
        """Bytes of the whole payload: OSU gives the size of an all-gather as that of one rank's part."""
        return nbytes * workers if self.primitive == "all_gather" else nbytes


class OsuFile(Record):
    """The tables of a file, and a problem for every damaged row."""

    tables: tuple[OsuTable, ...]
    problems: tuple[Problem, ...]


def read_osu(path: Path) -> OsuFile:
    """Read the output of OSU micro-benchmarks (mvapich.cse.ohio-state.edu/benchmarks, 3 to 7), several in one file.

    Rows must have the columns of their heading; damaged rows are problems with file and line, and so are tables of
    bandwidths, which are for windows of messages and give no times. Raises InputError where the file can't be read.
    """
    problems: list[Problem] = []
    tables: list[OsuTable] = []
    title, version, start, columns, rows = "", "", 1, list[str](), list[OsuRow]()

    def close() -> None:
        if rows:
            tables.append(OsuTable(title, version, tuple(rows), start))
            rows.clear()

    for number, line in numbered_lines(path, problems):
        if len(problems) >= MAX_PROBLEMS:
            break
        if match := _TITLE.match(line):
            close()
            title, version, start, columns = match[1], match[2] or "", number, []
        elif _HEADING.match(line):
            close()
            columns = _COLUMNS.findall(line)
            if not any(_LATENCY.fullmatch(column) for column in columns):
                problems.append(Problem(f"{path}:{number}", "a table of latencies in us", format_value(line)))
                columns = []
        elif line.strip() and not line.startswith("#") and title and columns:
            row = _row(line.split(), columns, number)
            if isinstance(row, OsuRow):
                rows.append(row)
            else:
                problems.append(Problem(f"{path}:{number}", row, format_value(line.strip())))
    close()
    if not tables and not problems:
        problems.append(Problem(str(path), "output of an OSU benchmark", "none of its tables"))
    return OsuFile(tuple(tables), tuple(problems))


def _row(cells: list[str], columns: list[str], line: int) -> OsuRow | str:
    """The row, or a text that says what was expected."""
    if len(cells) != 1 + len(columns) or not is_whole(cells[0]):
        return f"a size and {len(columns)} more columns: {', '.join(columns)}"
    place = next(i for i, column in enumerate(columns) if _LATENCY.fullmatch(column))
    try:
        latency = float(cells[1 + place])
    except ValueError:
        latency = math.nan
    if not (math.isfinite(latency) and latency > 0):
        return f"microseconds above 0 under {columns[place]}"
    return OsuRow(int(cells[0]), latency * 1e-6, line)
