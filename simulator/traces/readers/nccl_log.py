"""Logs of nccl-tests: every test of a file with its rows, and what could not be read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

from simulator.errors import InputError, Problem, format_value
from simulator.records import field, replace
from simulator.traces.readers.collective_names import UNKNOWN, collective_named, collective_within
from simulator.traces.readers.nccl_tests import (
    NcclRow,
    NcclTest,
    Speed,
    agree,
    fits,
    guess_collective,
    speed_of,
)
from simulator.traces.readers.streams import (
    LINE_START,
    Contents,
    contents_of,
    is_whole,
    json_members,
    log_lines,
    read_start,
)

_START = re.compile(
    rf"{LINE_START}(?:nThread\s+\d+\s+nGpus|nccl-tests version|Collective test (?:starting|concluded)|Using devices"
    r"|size\s+count\s+type\b|Out of bounds values|Avg bus bandwidth)"
)
"""What stands at the beginning of a line of nccl-tests, with the sign of a comment or without."""
_NCCL = re.compile(r"(?:^|\s)\S+:\d+:\d+ \[[\d-]+\] (?:\S+ )?[NR]CCL (?:INFO|WARN|TRACE|DEBUG|ABORT|VERSION)?")
_RANK = re.compile(
    r"\s*(?:#+\s*)?Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+\d+\s+\[[^\]]*\]\s+(.+?)\s*$"
)
_SET = re.compile(r"([NR]CCL_[A-Z0-9_]+) set (?:by environment )?to (.+?)\.?\s*$")
_GIVEN = re.compile(r"\b([NR]CCL_[A-Z0-9_]+)=(\S+)")
_VERSION = re.compile(r"[NR]CCL version\s*(?::\s*)?(\d\S*)|nccl-library=(\d+)")
_PROGRAM = re.compile(r"\b([a-z][a-z0-9]*(?:_[a-z0-9]+)*)_perf(?:_mpi)?\b")
_TABLE = re.compile(r"\s*(?:#+\s*)?size\s+count\s+type\b")
_END = re.compile(r"\s*(?:#+\s*)?(?:Out of bounds|Avg bus bandwidth)")
_BEGIN = re.compile(r"\s*(?:#+\s*)?(?:nccl-tests version|Collective test starting|nThread\s+\d)")
_REMARK = re.compile(r"\s*(?:#|\(B\)|out-of-place|Errors with asterisks|Using devices|Collective test|rccl-tests)")
_NETWORK = re.compile(r"NCCL INFO Using network (\S+)|\[send\] via NET/([^/\s]+)")
_STRAY = re.compile(r"\s*\d+\s+\d+\s+\w+\s+\S+\s+\S+\s+[\d.]+")
MAX_PROBLEMS = 100
_JSON_START = 2**16
_DOCUMENT = re.compile(r'\s*\{.*"(?:nccl_version|minimum_bytes|out_of_place)"\s*:', re.DOTALL)
_HALF = 3  # time, algbw, busbw
_OF_CPU = "that is the time of the CPU: run without -C 1"


class _OpenTest(NcclTest):
    named: str = ""
    places: dict[int, tuple[str, str]] = field(default_factory=dict)  # host and device by rank
    columns: list[str] = field(default_factory=list)
    timed: list[NcclRow] = field(default_factory=list)
    operation: tuple[str, str] = ("", "")
    closed: bool = False
    mixed: bool = False


def read_nccl_log(path: Path) -> Contents[NcclTest]:
    """Read a log of nccl-tests or rccl-tests, plain or gzip, with or without NCCL INFO, or the JSON of option `-J`.

    Formats of github.com/NVIDIA/nccl-tests 2.0 to 2.17 (doc/PERFORMANCE.md has the bandwidths). Prefixes of launchers
    and collectors of logs, colours and lost signs of comments do not matter. A row has the columns of its heading. The
    collective is the one that the log names; busbw / algbw of the rows says it where none is named, and is the check
    where one is. Damaged rows, rows whose time and bandwidth disagree, wrong results, tables without an end, of one
    rank, or of several processes that each ran alone are problems with file and line; the rest is used. Raises
    InputError where the file can't be read.
    """
    reader = _LogReader(path)
    if is_document(path):
        reader.document()
    else:
        for number, line in log_lines(path, _START, reader.problems):
            reader.line(number, line)
    reader.close("the end of the file")
    found = contents_of(reader.tests, reader.problems, Problem(str(path), "a log of nccl-tests", "none of its tables"))
    return replace(found, notes=tuple(reader.notes))


def is_document(path: Path) -> bool:
    """Whether a file is the JSON of option `-J`, with its results or the beginning of it."""
    try:
        return bool(_DOCUMENT.match(read_start(path, _JSON_START)))
    except InputError:
        return False  # damaged or absent: reading its lines says where


class _LogReader:
    def __init__(self, path: Path) -> None:
        self.path, self.problems, self.notes = path, list[Problem](), list[str]()
        self.tests: list[NcclTest] = []
        self.test = _OpenTest(1)
        self.program, self.last, self.exported = "", 0, dict[str, str]()

    def line(self, number: int, line: str) -> None:
        self.last = number
        if (match := _NCCL.search(line)) or _VERSION.search(line):
            before = line[: match.start()].split() if match else []
            if before and is_whole(before[0]) and self.test.columns and not self.test.closed:
                self._note(number, "a whole row", line.strip())
            self._library_line(number, line)
        elif _BEGIN.match(line):
            self._begin(number, line)
        elif match := _RANK.match(line):
            if self.test.closed:
                self._next(number)
            if is_whole(match[1]):
                self._place(int(match[1]), match[2], match[3])
        elif _TABLE.match(line):
            self._heading(number, line.strip().lstrip("#").split())
        elif _END.match(line):
            self.test.closed = True
        elif _REMARK.match(line):
            self._remark(number, line)
        elif line.strip() and self.test.columns and not self.test.closed and not _PROGRAM.search(line):
            self._row(number, line.split())
        elif _STRAY.match(line):
            self._note(number, "the heading `# size count type ...` above the rows", line.strip())
        else:
            self._remark(number, line)

    def document(self) -> None:
        """Read the JSON of option `-J`: the same rows by names, the devices, and the whole environment."""
        test = self.test
        test.columns, test.closed = ["json"], True
        for key, value in json_members(self.path, ("results",), self.problems):
            if key == "results" and isinstance(value, dict):
                self._entry(value)
            elif key == "config" and isinstance(value, dict) and isinstance(value.get("devices"), list):
                for device in (item for item in value["devices"] if isinstance(item, dict)):
                    if type(rank := device.get("rank")) is int:
                        self._place(rank, str(device.get("hostname", "")), str(device.get("device_info", "")))
            elif key == "nccl_version" and type(value) is int:
                test.version = _version_text(value)
            elif key in ("env", "args") and isinstance(value, list):
                for text in (item for item in value if isinstance(item, str)):
                    if key == "env" and (match := re.fullmatch(r"([NR]CCL_[A-Z0-9_]+)=(.*)", text)):
                        test.environment[match[1]] = match[2]
                    elif key == "args":
                        test.named = test.named or _program(text)
        if not test.timed:
            test.columns = []

    def _next(self, number: int, by: str = "another test") -> None:
        if self.test.columns or self.test.timed:
            self.close(by)
            self.test, self.program = _OpenTest(number, named=self.program, environment=dict(self.exported)), ""

    def _library_line(self, number: int, line: str) -> None:
        if self.test.closed and (_SET.search(line) or _VERSION.search(line)):
            self._next(number)
        if match := _SET.search(line):
            self.test.environment[match[1]] = match[2]
        if match := _VERSION.search(line):
            self.test.version = match[1] or _version_text(int(match[2][:9]))
        if match := _NETWORK.search(line):
            self.test.network = self.test.network or match[1] or match[2]
        if _BEGIN.match(line):
            self._begin(number, line)

    def _begin(self, number: int, line: str) -> None:
        self._next(number)
        if "nThread" in line:
            # A first try that ended before its table has no say in the ranks of this one.
            self.test.places = {}
        if name := _program(line):
            self.test.named = name

    def _place(self, rank: int, host: str, device: str) -> None:
        self.test.mixed |= rank in self.test.places
        self.test.places[rank] = host, device

    def _heading(self, number: int, columns: list[str]) -> None:
        before = self.test
        if before.columns:
            if not before.timed and not before.closed:
                before.mixed = True
                return
            self._next(number, "another table")
            for name in ("named", "places", "version", "network", "environment"):
                setattr(self.test, name, getattr(before, name))
        times = [place for place, name in enumerate(columns) if name == "time"]
        of_cpu = "cputime" in columns
        if of_cpu or len(times) != 2 or len(columns) - times[1] < _HALF or times[1] - times[0] < _HALF:
            got, hint = ("cputime", _OF_CPU) if of_cpu else (" ".join(columns), "")
            self._note(number, "a heading with time, algbw and busbw, twice", got, hint)
            columns = []
        # A time stamp is printed as a date and a time.
        self.test.columns = columns + ["clock"] * ("timestamp" in columns)

    def _remark(self, number: int, line: str) -> None:
        """A comment or an echoed command line: it names the test that follows it, never one that has its table."""
        given, name = dict(_GIVEN.findall(line)), _program(line)
        if "export " in line:
            self.exported |= given
        if (not name and not given) or "test concluded" in line:
            return
        if self.test.closed:
            self._next(number)
        if not self.test.columns:
            self.test.environment |= given
            self.test.named = name or self.test.named
        elif name:
            self.program = name

    def _row(self, number: int, cells: list[str]) -> None:
        columns = self.test.columns
        if not is_whole(cells[0]):
            self._note(number, f"a row of {len(columns)} columns, or a comment", " ".join(cells))
            return
        if len(cells) != len(columns):
            self._note(number, f"{len(columns)} columns: {' '.join(columns)}", f"{len(cells)}")
            return
        first = columns.index("time")
        row = dict(zip(columns[:first], cells, strict=False))
        if not is_whole(row["count"]):
            self._note(number, "whole numbers under size and count", f"{row['size']} {row['count']}")
            return
        second = columns.index("time", first + 1)
        self.test.operation = row.get("redop", "none"), row.get("root", "-1")
        width = second - first
        halves = cells[first:second], cells[second : second + width]
        self._add_row(number, int(row["size"]), halves)

    def _entry(self, entry: Mapping[str, object]) -> None:
        number = len(self.test.timed) + 1
        size, count = entry.get("size"), entry.get("count")
        if type(size) is not int or type(count) is not int or not is_whole(str(size)) or not is_whole(str(count)):
            self._note(number, "whole numbers under size and count", f"{size} {count}")
            return
        halves = []
        for name in ("out_of_place", "in_place"):
            half = entry.get(name)
            values = half if isinstance(half, dict) else {"time": "N/A"}
            if "cpu_time" in values:
                self._note(number, "time", "cpu_time", _OF_CPU)
                return
            wrong = values.get("nwrong")
            cells = [str(values.get(key, "")) for key in ("time", "alg_bw", "bus_bw")]
            halves.append(
                [*cells, str(int(wrong)) if isinstance(wrong, (int, float)) and math.isfinite(wrong) else "N/A"]
            )
        self.test.operation = str(entry.get("redop", "none")), str(entry.get("root", "-1")).strip()
        self._add_row(number, size, (halves[0], halves[1]))

    def _add_row(self, number: int, nbytes: int, halves: tuple[list[str], list[str]]) -> None:
        seconds, speeds = list[float | None](), list[Speed]()
        for cells, name in zip(halves, ("out of place", "in place"), strict=True):
            if cells[0] == "N/A":
                seconds.append(None)
                continue
            try:
                time, algbw, busbw = (float(cell) for cell in cells[:_HALF])
            except ValueError:
                self._note(number, f"numbers under time, algbw and busbw ({name})", " ".join(cells[:3]))
                return
            speed = nbytes / time / 1e3 if 0 < time < math.inf else math.nan
            if not (math.isfinite(busbw) and agree(speed, algbw)):
                got = f"{cells[0]} us and {cells[1]} GB/s for {nbytes} B"
                self._note(number, f"a time and a bandwidth that agree ({name})", got)
                return
            if len(cells) > _HALF and is_whole(cells[_HALF]) and int(cells[_HALF]) > 0:
                self._note(number, f"no wrong results ({name})", f"{cells[3]} of them")
                return
            seconds.append(time * 1e-6)
            if speed > 0:
                speeds.append(speed_of(busbw, speed))
        self.test.timed.append(NcclRow(nbytes, seconds[0], seconds[1], number, tuple(speeds)))

    def close(self, by: str) -> None:
        """End the test that is open; `by` what comes instead of the end of its table."""
        test = self.test
        if not test.columns:
            return
        if not test.closed:
            self._note(self.last, "the line `# Avg bus bandwidth` at the end of a table", by)
        ranks = len(test.places)
        if test.mixed or ranks == 1:
            got = "the lists and tables of several processes, mixed" if test.mixed else "a table of one rank"
            hint = "each process ran alone: build nccl-tests with MPI=1 MPI_HOME=..., and start it with mpirun or srun"
            self._note(test.line, "one list of two ranks or more above each table", got, hint)
            return
        name = self._collective(test, ranks)
        if not name:
            return
        rows = []
        for row in test.timed:
            if odd := [speed for speed in row.speeds if not fits(name, ranks, speed)]:
                self._note(row.line, f"busbw / algbw of {name}, as in the other rows", f"{odd[0].ratio:.3g}")
            else:
                rows.append(row)
        hosts, devices = (dict.fromkeys(place[part] for place in test.places.values()) for part in (0, 1))
        test.collective, test.ranks, test.nodes = name, ranks, len(hosts)
        test.gpus, test.rows = tuple(devices), tuple(rows)
        self.tests.append(test)

    def _collective(self, test: _OpenTest, ranks: int) -> str:
        """The collective of a test, by its name and its rows; empty where these contradict each other."""
        name = collective_named(test.named)
        if test.named and name == UNKNOWN:
            self._note(test.line, "a collective of NCCL", f"{test.named}_perf", "its table is left out")
            return ""
        shown = max((speed for row in test.timed for speed in row.speeds), key=lambda one: one.bus, default=None)
        if shown is None or not shown.bus:
            return name
        if name != UNKNOWN and fits(name, ranks, shown):
            return name
        found = guess_collective(*test.operation, ranks, shown)
        if name != UNKNOWN:
            shows = f"busbw / algbw = {shown.ratio:.3g} over {ranks or 'an unknown number of'} ranks"
            hint = f"its rows are read as {found}" if found != UNKNOWN else "its table is left out"
            self._note(test.line, f"rows of {name}, which the log names", shows, hint)
            return found if found != UNKNOWN else ""
        if found == "all_gather" and "root" in test.columns:
            self.notes.append(
                f"{self.path.name}:{test.line}: the log names no collective; its rows are read as all_gather, "
                "and those of alltoall_perf would look the same"
            )
        return found

    def _note(self, number: int, expected: str, got: str, hint: str = "") -> None:
        if len(self.problems) < MAX_PROBLEMS:
            got = got if len(got) < 60 else format_value(got)
            self.problems.append(Problem(f"{self.path}:{number}", expected, got, hint))


def _program(line: str) -> str:
    """The collective whose program a line names, such as all_reduce_perf; empty where it names none, or several."""
    names = set(_PROGRAM.findall(line))
    name = names.pop() if len(names) == 1 else ""
    return name if name and collective_within(name) != UNKNOWN else ""


def _version_text(code: int) -> str:
    """The version of NCCL from its number: 22902 is 2.29.2, 2708 (before 2.9) is 2.7.8."""
    base = 10_000 if code >= 10_000 else 1000
    return f"{code // base}.{code % base // 100}.{code % 100}"
