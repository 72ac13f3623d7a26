"""Logs of nccl-tests: every test of a file with its rows, and what could not be read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

from simulator.errors import Problem, format_value
from simulator.records import Record, Struct, field, replace
from simulator.traces.readers.collective_names import UNKNOWN, collective_named
from simulator.traces.readers.streams import is_whole, numbered_lines

_TAG = re.compile(r"^\[\d+,\d+\]<std(?:out|err)>:\s?")
_NCCL = re.compile(r"^\S+:\d+:\d+ \[[\d-]+\] (?:\S+ )?NCCL (?:INFO|WARN|TRACE|DEBUG|ABORT|VERSION)?")
_RANK = re.compile(
    r"^#\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+\d+\s+\[[^\]]*\]\s+(.+?)\s*$"
)
_SET = re.compile(r"(NCCL_[A-Z0-9_]+) set (?:by environment )?to (.+?)\.?\s*$")
_VERSION = re.compile(r"NCCL version (\S+)|nccl-library=(\d+)")
_PROGRAM = re.compile(r"\b([a-z]+(?:_[a-z]+)*)_perf\b")
_HEADING = re.compile(r"^#\s+size\s+count\s+type\b")
_NETWORK = re.compile(r"NCCL INFO Using network (\S+)|\[send\] via NET/([^/\s]+)")
_STRAY = re.compile(r"\s*\d+\s+\d+\s+\w+\s+\S+\s+\S+\s+[\d.]+")
MAX_PROBLEMS = 100
_FEW = 0.011  # GB/s: bandwidths are printed with two decimals
_NEAR = 0.02
_HALF = 3  # time, algbw, busbw


class NcclRow(Record):
    """One size: bytes of the whole payload, and seconds out of place and in place (None where not run)."""

    nbytes: int
    elements: int
    dtype: str
    out_of_place: float | None
    in_place: float | None
    line: int


class NcclTest(Record):
    """One run of one test program.

    `collective` as in `MeasuredCollective` (all_reduce, all_gather, ...); `ranks` and `nodes` are 0 where the log does
    not list them; `environment`: variables that NCCL says were set; `version`: of NCCL; `network`: the one it chose.
    """

    collective: str
    ranks: int
    nodes: int
    gpus: tuple[str, ...]
    version: str
    network: str
    environment: Mapping[str, str]
    rows: tuple[NcclRow, ...]
    line: int

    @property
    def topology(self) -> str:
        """`ring` or `double_binary_tree` where the environment forced NCCL to use it, otherwise `nccl`."""
        forced = self.environment.get("NCCL_ALGO", "").lower()
        if forced in ("ring", "tree"):
            return {"ring": "ring", "tree": "double_binary_tree"}[forced]
        threshold = self.environment.get("NCCL_TREE_THRESHOLD", "")
        if not is_whole(threshold):
            return "nccl"
        sizes = [row.nbytes for row in self.rows]
        if int(threshold) == 0:
            return "ring"
        return "double_binary_tree" if sizes and max(sizes) <= int(threshold) else "nccl"


class NcclLog(Record):
    """The tests of a file, and a problem for every damaged row."""

    tests: tuple[NcclTest, ...]
    problems: tuple[Problem, ...]


class _OpenTest(Struct):
    """A test whose lines are being read."""

    line: int
    collective: str = ""
    hosts: dict[int, str] = field(default_factory=dict)
    gpus: dict[int, str] = field(default_factory=dict)
    version: str = ""
    network: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    rows: list[NcclRow] = field(default_factory=list)
    bus: tuple[float, float] = (0.0, 0.0)
    operation: tuple[str, str] = ("", "")
    closed: bool = False


def read_nccl_log(path: Path) -> NcclLog:
    """Read a log of nccl-tests (github.com/NVIDIA/nccl-tests, 2.0 to 2.17), plain or gzip, with or without NCCL INFO.

    A row has the columns of its heading. Damaged rows, rows whose time and bandwidth disagree, wrong results and tables
    without an end are problems with file and line; the rest is used. Raises InputError where the file can't be read.
    """
    reader = _LogReader(path)
    for number, line in numbered_lines(path, reader.problems):
        reader.line(number, _TAG.sub("", line))
    return reader.finish()


class _LogReader:
    def __init__(self, path: Path) -> None:
        self.path, self.problems = path, list[Problem]()
        self.tests: list[NcclTest] = []
        self.test = _OpenTest(1)
        self.program, self.last = "", 0

    def line(self, number: int, line: str) -> None:
        self.last = number
        if _NCCL.match(line) or "NCCL version" in line:
            self._nccl_line(line)
        elif line.startswith("#"):
            self._comment(number, line)
        elif line.strip() and self.test.columns and not self.test.closed:
            self._row(number, line.split())
        elif _STRAY.match(line):
            self._note(number, "the heading `# size count type ...` above the rows", line.strip())
        elif match := _PROGRAM.search(line):
            # An echoed command line: it belongs to the next test if this one already has its table.
            self.program = match[1]
            if not self.test.columns:
                self.test.collective = match[1]

    def finish(self) -> NcclLog:
        self._close("the end of the file")
        if not self.tests and not self.problems:
            self.problems.append(Problem(str(self.path), "a log of nccl-tests", "none of its tables"))
        return NcclLog(tuple(self.tests), tuple(self.problems))

    def _nccl_line(self, line: str) -> None:
        if match := _SET.search(line):
            self.test.environment[match[1]] = match[2]
        if match := _VERSION.search(line):
            self.test.version = match[1] or self.test.version
        if match := _NETWORK.search(line):
            self.test.network = self.test.network or match[1] or match[2]

    def _comment(self, number: int, line: str) -> None:
        starts = line.startswith(("# nccl-tests version", "# Collective test starting", "# nThread"))
        if starts and (self.test.columns or self.test.rows):
            self._close("another test")
            self.test = _OpenTest(number, self.program)
        if (match := _RANK.match(line)) and is_whole(match[1]):
            self.test.hosts[int(match[1])], self.test.gpus[int(match[1])] = match[2], match[3]
        elif _HEADING.match(line):
            if self.test.columns and not self.test.closed:
                self._close("another table")
                self.test = replace(self.test, line=number, rows=[], bus=(0.0, 0.0), operation=("", ""))
            columns = line.lstrip("# ").split()
            if "time" not in columns or len(columns) - columns.index("time") < 2 * _HALF:
                self._note(number, "a heading with time, algbw and busbw, twice", line.strip())
                columns = []
            self.test.columns = columns
        elif line.startswith(("# Out of bounds", "# Avg bus bandwidth")):
            self.test.closed = True
        elif match := _PROGRAM.search(line):
            self.test.collective = match[1]
        if match := _VERSION.search(line):
            self.test.version = match[1] or _version_text(int(match[2][:9]))

    def _row(self, number: int, cells: list[str]) -> None:
        columns = self.test.columns
        if not is_whole(cells[0]):
            self._note(number, f"a row of {len(columns)} columns, or a comment", " ".join(cells))
            return
        if len(cells) != len(columns):
            self._note(number, f"{len(columns)} columns: {' '.join(columns)}", f"{len(cells)}")
            return
        row = dict(zip(columns[: columns.index("time")], cells, strict=False))
        if not is_whole(row["count"]):
            self._note(number, "whole numbers under size and count", f"{row['size']} {row['count']}")
            return
        self.test.operation = row.get("redop", "none"), row.get("root", "-1")
        first = columns.index("time")
        width = (len(columns) - first) // 2
        seconds: list[float | None] = []
        for place, name in ((first, "out of place"), (first + width, "in place")):
            made = self._timing(number, int(row["size"]), cells[place : place + width], name)
            if made is not None and math.isnan(made):
                return
            seconds.append(made)
        self.test.rows.append(NcclRow(int(row["size"]), int(row["count"]), row["type"], seconds[0], seconds[1], number))

    def _timing(self, number: int, nbytes: int, cells: list[str], name: str) -> float | None:
        """Seconds in one half of a row; None where it was not run, NaN where it is damaged."""
        if cells[0] == "N/A":
            return None
        try:
            time, algbw, busbw = (float(cell) for cell in cells[:_HALF])
        except ValueError:
            self._note(number, f"numbers under time, algbw and busbw ({name})", " ".join(cells[:3]))
            return math.nan
        speed = nbytes / time / 1e3 if 0 < time < math.inf else math.nan
        if not (math.isfinite(busbw) and abs(speed - algbw) <= _FEW + _NEAR * min(algbw, speed + 1)):
            got = f"{cells[0]} us and {cells[1]} GB/s for {nbytes} B"
            self._note(number, f"a time and a bandwidth that agree ({name})", got)
            return math.nan
        if len(cells) > _HALF and is_whole(cells[_HALF]) and int(cells[_HALF]) > 0:
            self._note(number, f"no wrong results ({name})", f"{cells[3]} of them")
            return math.nan
        if speed > 0:
            self.test.bus = max(self.test.bus, (busbw, busbw / speed))
        return time * 1e-6

    def _close(self, by: str) -> None:
        """Store the test that was read; a table without an end is a problem."""
        test = self.test
        if not test.columns:
            return
        if not test.closed:
            self._note(self.last, "the line `# Avg bus bandwidth` at the end of a table", by)
        ranks = len(test.hosts)
        name = collective_named(test.collective)
        name = _guess_collective(test, ranks) if name == UNKNOWN else name
        self.tests.append(
            NcclTest(
                name,
                ranks,
                len(set(test.hosts.values())),
                tuple(dict.fromkeys(test.gpus.values())),
                test.version,
                test.network,
                test.environment,
                tuple(test.rows),
                test.line,
            )
        )

    def _note(self, number: int, expected: str, got: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(
                Problem(f"{self.path}:{number}", expected, got if len(got) < 60 else format_value(got))
            )


def _guess_collective(test: _OpenTest, ranks: int) -> str:
    """The collective, where the log does not name it: from reduction, root, and bus bandwidth / bandwidth."""
    ratio = test.bus[1]
    if not ratio or ranks < 2:
        return UNKNOWN
    reduced, rooted = test.operation[0] != "none", test.operation[1] != "-1"
    if rooted:
        return "reduce" if reduced else "broadcast"
    part = (ranks - 1) / ranks
    if reduced:
        return "all_reduce" if abs(ratio - 2 * part) < abs(ratio - part) else "reduce_scatter"
    return "all_gather" if abs(ratio - part) < abs(ratio - 1) else UNKNOWN


def _version_text(code: int) -> str:
    """The version of NCCL from its number: 22902 is 2.29.2, 2708 (before 2.9) is 2.7.8."""
    base = 10_000 if code >= 10_000 else 1000
    return f"{code // base}.{code % base // 100}.{code % 100}"
