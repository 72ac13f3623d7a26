"""Tables of the OSU micro-benchmarks for MPI."""

from __future__ import annotations

import re
from pathlib import Path

from simulator.errors import Problem, format_value
from simulator.records import Record
from simulator.traces.readers.collective_names import collective_named
from simulator.traces.readers.streams import LINE_START, Contents, contents_of, is_whole, log_lines, number_or_nan

MAX_PROBLEMS = 100
"""Problems after which the rest of a file is not read."""
_START = re.compile(rf"{LINE_START}(?:OSU\s+\S|Size\b.*(?:Latency|MB/s|\(us\)))")
_TITLE = re.compile(r"\s*(?:#+\s*)?OSU\s+(.+?)(?:\s+v([\d.]+\w*))?\s*$")
_COLUMNS = re.compile(r"[A-Z][\w.-]*(?: [\w.-]+){0,3} ?\((?:us|MB/s|%)\)|MB/s|Messages/s|Iterations|Validation")
_HEADING = re.compile(r"\s*(?:#+\s*)?Size\b(?=.*[A-Za-z])")
_LATENCY = re.compile(r"(?:Avg )?Latency\s*\(us\)")
_VALIDATION = "Validation"
_LIBRARY = re.compile(r"(?:mpi|nccl|rccl|xccl|hccl)(?:-\w+)*\s+|(?:mpi)?\d+d?\s+")
_OTHERS = {"bcast": "broadcast", "all-to-all personalized exchange": "all_to_all", "": "point_to_point"}
"""Titles without library, `Latency Test` and version that name a collective in a way of their own."""
_PRIMITIVES = (
    *("all_gather", "all_reduce", "all_to_all", "broadcast", "gather", "point_to_point"),
    *("reduce", "reduce_scatter", "scatter"),
)
_PARTS = ("all_gather", "all_to_all", "gather", "scatter")
_KINDS = f"a benchmark of {', '.join(name.replace('_', ' ') for name in _PRIMITIVES)}"


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
        """The collective as in `MeasuredCollective`; `point_to_point` for latencies, empty for other tests.

        Only titles of the very benchmark count: those of vectors of sizes, of neighbours, of one-sided or non-blocking
        calls, and of several pairs at once measure something else.
        """
        name = _LIBRARY.sub("", self.test.lower(), count=1)
        name = name.removesuffix("test").rstrip().removesuffix("latency").rstrip()
        named = _OTHERS.get(name) or collective_named(name.replace("-", "_"))
        return named if named in _PRIMITIVES else ""

    def payload(self, nbytes: int, workers: int) -> int:
        """Bytes of the whole payload: OSU gives what each rank sends to one other, or keeps of a gather or scatter."""
        return nbytes * workers if self.primitive in _PARTS else nbytes


def read_osu(path: Path) -> Contents[OsuTable]:
    """Read the output of OSU micro-benchmarks (mvapich.cse.ohio-state.edu/benchmarks, 3 to 7), several in one file.

    Prefixes of launchers and collectors of logs do not matter. Rows must have the columns of their heading, of which
    percentiles (option `-z`) are passed over; damaged rows are problems with file and line, and so are tables of other
    benchmarks, of bandwidths, which are for windows of messages and give no times, and of calls that do not block.
    Raises InputError where the file can't be read.
    """
    problems: list[Problem] = []
    tables: list[OsuTable] = []
    title, version, start, columns, rows = "", "", 1, list[str](), list[OsuRow]()

    def close() -> None:
        table = OsuTable(title, version, tuple(rows), start)
        if title and not table.primitive:
            problems.append(Problem(f"{path}:{start}", _KINDS, title))
        elif rows:
            tables.append(table)
        rows.clear()

    for number, line in log_lines(path, _START, problems):
        if len(problems) >= MAX_PROBLEMS:
            break
        if match := _TITLE.match(line):
            close()
            title, version, start, columns = match[1], match[2] or "", number, []
        elif _HEADING.match(line):
            if rows:
                close()
            columns = _COLUMNS.findall(line)
            if title and not OsuTable(title, version, (), start).primitive:
                columns = []
            elif not any(_LATENCY.fullmatch(column) for column in columns):
                problems.append(Problem(f"{path}:{number}", "a table of latencies in us", format_value(line)))
                columns = []
        elif line.strip() and not line.lstrip().startswith(("#", "Datatype:")) and title and columns:
            row = _row(line.split(), columns, number)
            if isinstance(row, OsuRow):
                rows.append(row)
            else:
                problems.append(Problem(f"{path}:{number}", row, format_value(line.strip())))
    close()
    return contents_of(tables, problems, Problem(str(path), "output of an OSU benchmark", "none of its tables"))


def _row(cells: list[str], columns: list[str], line: int) -> OsuRow | str:
    """The row, or a text that says what was expected."""
    if len(cells) != 1 + len(columns) or not is_whole(cells[0]):
        return f"a size and {len(columns)} more columns: {', '.join(columns)}"
    if _VALIDATION in columns and cells[1 + columns.index(_VALIDATION)].lower() != "pass":
        return "a result that passed its validation"
    place = next(i for i, column in enumerate(columns) if _LATENCY.fullmatch(column))
    latency = number_or_nan(cells[1 + place])
    if not latency > 0:
        return f"microseconds above 0 under {columns[place]}"
    return OsuRow(int(cells[0]), latency * 1e-6, line)
