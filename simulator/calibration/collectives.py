"""Measured collectives from logs and tables of several tools, gathered into series."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from simulator.calibration.fits.families import Repeats
from simulator.calibration.timings import (
    LEAST_TIME,
    MOST_TIME,
    MeasuredTable,
    digest,
    has_cells,
    is_header,
    read_timed_rows,
)
from simulator.errors import InputError, Problem, format_value
from simulator.models.exchange import PRIMITIVES, Layout
from simulator.models.groups import group_by
from simulator.records import Record, field
from simulator.scenario.cluster import MAX_WORKERS
from simulator.traces.readers.kineto.reader import read_kineto
from simulator.traces.readers.nccl_log import is_document, read_nccl_log
from simulator.traces.readers.osu import read_osu
from simulator.traces.readers.streams import read_start

BYTES = ("nbytes", "message_bytes", "bytes")
WORKERS = ("workers", "world_size", "num_ranks", "num_gpus", "num_gpus_one_node")
NODES = ("nodes", "num_nodes")
GPUS = ("gpus_per_node",)
COLLECTIVE = ("primitive", "collective")
_TOPOLOGY = ("topology", "algorithm")
_SETTING = ("source", "system", "network", "nccl_setting", "setting", "version", "note")
_DEVICE = ("device", "gpu")
_START = 2**16
_OSU = re.compile(r"\bOSU [\w-]+.* Test\b")
_NCCL = re.compile(r"\bnThread \d+ nGpus\b")
_APART = 1.2
_LARGE = 2**20
_MOST_BYTES = 1e15


class Key(NamedTuple):
    """What a series measures: a collective by a topology, over a number of workers with so many GPUs per node."""

    primitive: str
    topology: str
    workers: int
    gpus_per_node: int

    @property
    def nodes(self) -> int:
        """Nodes that the workers are on."""
        return self.workers // self.gpus_per_node

    @property
    def layout(self) -> Layout:
        """The workers on their nodes."""
        return Layout(self.nodes, self.gpus_per_node)

    @property
    def passes(self) -> int:
        """Steps of a ring: twice over all workers but one for an all-reduce."""
        return (2 if self.primitive == "all_reduce" else 1) * (self.workers - 1)

    @property
    def text(self) -> str:
        """The id of the curve in a result."""
        return f"{self.primitive}/{self.topology}/{self.workers}x{self.gpus_per_node}"


class Sample(Record):
    """One timing of a collective: bytes of the whole payload, seconds, and the setting it was taken under.

    `run`: the file and line of the table in a log that it is from; empty for other files.
    """

    key: Key
    nbytes: float
    seconds: float
    setting: str
    device: str
    where: str
    run: str = ""


class CollectiveTimings(MeasuredTable):
    """All timings of collectives of some files."""

    samples: list[Sample] = field(default_factory=list)

    @property
    def devices(self) -> list[str]:
        """Names of devices, each once."""
        return list(dict.fromkeys(item.device for item in self.samples if item.device))

    @property
    def settings(self) -> list[str]:
        """Settings, each once."""
        return list(dict.fromkeys(item.setting for item in self.samples if item.setting))

    def series(self) -> dict[Key, Repeats]:
        """Timings by key. Raises InputError where a series would mix settings, or tables of a log that disagree."""
        found = group_by(self.samples, lambda item: item.key)
        problems = []
        for key, items in found.items():
            settings = list(dict.fromkeys(item.setting for item in items))
            if len(settings) > 1:
                hint = "choose one with --where (of a log: --where NCCL_NVLS_ENABLE=0), or name fewer files"
                parts = [dict.fromkeys(text.split(", ")) for text in settings]
                own = [", ".join(part for part in one if not all(part in each for each in parts)) for one in parts]
                got = f"{len(settings)}: {'; '.join(text or 'none' for text in own)}"
                problems.append(Problem(key.text, "one setting", got, hint))
            elif apart := _runs_apart(items):
                hint = "the log does not say what changed between them: choose one with --where line=..."
                problems.append(Problem(key.text, f"repeats within {100 * (_APART - 1):.0f} %", apart, hint))
        if problems:
            raise InputError(problems)
        return {
            key: Repeats.of([item.nbytes for item in items], [item.seconds for item in items])
            for key, items in sorted(found.items())
        }


def _runs_apart(items: Sequence[Sample]) -> str:
    """Which two tables of logs disagree, and by how much; empty where repeats are alike.

    Judged by the median over the sizes of 1 MiB or more that both have, or over all where there are none.
    """
    runs = {run: group_by(own, lambda item: item.nbytes) for run, own in group_by(items, lambda item: item.run).items()}
    for (first, ours), (second, theirs) in combinations([pair for pair in runs.items() if pair[0]], 2):
        shared = ours.keys() & theirs.keys()
        ratios = [
            fmean(item.seconds for item in ours[size]) / fmean(item.seconds for item in theirs[size])
            for size in (size for size in shared if size >= _LARGE or max(shared) < _LARGE)
        ]
        apart = max((ratio := median(ratios)), 1 / ratio) if ratios else 1.0
        if apart > _APART:
            return f"{100 * (apart - 1):.3g} % between the tables of {first} and {second}"
    return ""


class Reading(Record):
    """Which rows to take, and the workers, GPUs per node and topology of files that do not state them."""

    wanted: Mapping[str, str] = field(default_factory=dict)
    workers: int | None = None
    gpus_per_node: int | None = None
    topology: str | None = None


def read_collectives(paths: Sequence[Path], how: Reading) -> CollectiveTimings:
    """Read logs of nccl-tests, output of OSU benchmarks, traces of torch.profiler and CSV files, in any mixture.

    Raises InputError where no timing can be used; otherwise damaged lines are in `problems`.
    """
    measured = CollectiveTimings()
    for path in paths:
        start = read_start(path, _START)
        empty, refused = 0, set[Key]()
        for item in _READERS[_detect_format(path, start)](path, how, measured):
            problem = _find_problem(item)
            if item.nbytes <= 0:
                empty += 1
            elif problem is None:
                measured.samples.append(item)
            elif item.key not in refused:
                refused.add(item.key)
                measured.problems.append(problem)
        if empty:
            measured.notes.append(f"{path.name}: {empty} timings of 0 bytes are left out")
        measured.digests[path.name] = digest(path)
    measured.require(paths, f"timings of {', '.join(PRIMITIVES)}")
    return measured


def _find_problem(item: Sample) -> Problem | None:
    """What makes a timing impossible to use, or None; reported once for each series of a file."""
    workers, each = item.key.workers, item.key.gpus_per_node
    if not 2 <= workers <= MAX_WORKERS or workers % each:
        what = f"2 to {MAX_WORKERS} workers, evenly on nodes"
        return Problem(item.where, what, f"{workers} workers, {each} per node")
    if not (item.nbytes <= _MOST_BYTES and LEAST_TIME <= item.seconds <= MOST_TIME):
        what = f"up to {_MOST_BYTES:g} B and {MOST_TIME:g} s"
        return Problem(item.where, what, f"{item.nbytes:g} B in {item.seconds:g} s")
    return None


def _detect_format(path: Path, start: str) -> str:
    first = start.lstrip().split("\n", 1)[0]
    if _OSU.search(start):
        return "osu"
    if first[:1] in ("{", "["):
        return "nccl" if is_document(path) or _NCCL.search(start) else "kineto"
    return "csv" if is_header(first, (*BYTES, *WORKERS, *NODES, *GPUS, *COLLECTIVE)) else "nccl"


def _from_nccl(path: Path, how: Reading, measured: CollectiveTimings) -> Iterator[Sample]:
    log = read_nccl_log(path)
    measured.problems.extend(log.problems)
    measured.notes.extend(log.notes)
    for test in log.parts:
        cells = {"line": str(test.line), "version": test.version, "network": test.network, **test.environment}
        asked = any(name in cells or name.startswith(("NCCL_", "RCCL_")) for name in how.wanted)
        if asked and not has_cells(cells, how.wanted):
            continue
        if test.collective not in PRIMITIVES:
            measured.notes.append(f"{path.name}:{test.line}: a test of {test.collective} is left out")
            continue
        workers = test.ranks or how.workers
        if not workers:
            hint = "give --workers and --gpus-per-node"
            measured.problems.append(Problem(f"{path}:{test.line}", "the list of ranks", "none", hint))
            continue
        each = workers // test.nodes if test.nodes else how.gpus_per_node or 1
        key = Key(test.collective, how.topology or test.topology, workers, each)
        library = " ".join(part for part in (test.version and f"NCCL {test.version}", test.network) if part)
        setting = ", ".join(part for part in (library, test.setting) if part)
        for row in test.rows:
            for seconds in (row.out_of_place, row.in_place):
                if seconds is not None:
                    device = ", ".join(test.gpus)
                    yield Sample(
                        key, row.nbytes, seconds, setting, device, f"{path}:{row.line}", f"{path.name}:{test.line}"
                    )


def _from_osu(path: Path, how: Reading, measured: CollectiveTimings) -> Iterator[Sample]:
    file = read_osu(path)
    measured.problems.extend(file.problems)
    if how.workers is None:
        raise InputError(Problem("--workers", "the number of ranks", "nothing", f"{path.name} does not state it"))
    for table in file.parts:
        if table.primitive not in PRIMITIVES:
            measured.notes.append(f"{path.name}:{table.line}: {table.test} is left out")
            continue
        key = Key(table.primitive, how.topology or "ring", how.workers, how.gpus_per_node or 1)
        for row in table.rows:
            payload = table.payload(row.nbytes, how.workers)
            yield Sample(key, payload, row.seconds, "MPI", "", f"{path}:{row.line}")


def _from_kineto(path: Path, how: Reading, measured: CollectiveTimings) -> Iterator[Sample]:
    trace = read_kineto(path)
    measured.problems.extend(trace.problems)
    unknown = 0
    for item in trace.collectives:
        workers = item.workers or how.workers
        if item.collective not in PRIMITIVES or not workers or not item.nbytes:
            unknown += 1
            continue
        key = Key(item.collective, how.topology or "nccl", workers, how.gpus_per_node or workers)
        yield Sample(key, item.nbytes, item.seconds, "", trace.device, str(path))
    if unknown:
        measured.notes.append(f"{path.name}: {unknown} NCCL kernels of other kinds or unknown size are left out")


def _from_csv(path: Path, how: Reading, measured: CollectiveTimings) -> Iterator[Sample]:
    for row in read_timed_rows(path, (BYTES, (*WORKERS, *GPUS), COLLECTIVE), how.wanted, measured.problems):
        try:
            nbytes, nodes = row.whole(BYTES, 0), row.whole(NODES, 1)
            workers = row.whole(WORKERS, nodes * row.whole(GPUS, 0))
        except ValueError as error:
            measured.problems.append(
                Problem(row.where, "whole numbers of bytes, workers and nodes", format_value(str(error)))
            )
            continue
        primitive = row.text(COLLECTIVE)
        if primitive not in PRIMITIVES or workers < 2 or not nodes or workers % nodes:
            what = f"one of {', '.join(PRIMITIVES)} over 2 workers or more, evenly on nodes"
            measured.problems.append(Problem(row.where, what, f"{primitive} over {workers} on {nodes}"))
            continue
        key = Key(primitive, how.topology or row.text(_TOPOLOGY, "nccl"), workers, workers // nodes)
        setting = ", ".join(row.cells[name] for name in _SETTING if row.cells.get(name))
        for seconds in row.seconds:
            yield Sample(key, nbytes, seconds, setting, row.text(_DEVICE), row.where)


_READERS = {"nccl": _from_nccl, "osu": _from_osu, "kineto": _from_kineto, "csv": _from_csv}
