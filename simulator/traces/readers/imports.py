"""Import of other tools' files into folders of tables that `sparsim` reads as workloads, measurements or traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from simulator.errors import InputError, Problem
from simulator.loading.csv_tables import write_rows
from simulator.records import Struct, field
from simulator.traces.readers.arrays import import_npz
from simulator.traces.readers.chakra import read_chakra
from simulator.traces.readers.kineto.summary import report_of
from simulator.traces.readers.kineto.workload import import_kineto
from simulator.traces.readers.nccl_log import read_nccl_log
from simulator.traces.readers.nccl_tuning_log import read_nccl_tuning
from simulator.traces.readers.osu import read_osu

_COLLECTIVE = ("collective", "nbytes", "workers", "nodes", "topology", "version", "network", "nccl_setting")


class Imported(Struct):
    """Result of an import: rows by file, damaged places, notes, and the number of collectives without a size, by kind.

    `report`: what a profile says of its steps, as plain data; empty for other files.
    """

    rows: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    unsized: Counter[str] = field(default_factory=Counter)
    report: Mapping[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def import_file(
    kind: str, files: Sequence[Path], out: Path, batch_size: int, workers: int | None, *, steps: str = ""
) -> Imported:
    """Import a file of a `kind` in IMPORTERS, or profiles of several ranks, into folder `out`.

    `steps`: of a profile, such as "3-5"; all that are usual where it is empty. Raises InputError where a file has
    nothing of the kind.
    """
    if kind == "kineto":
        return _kineto(files, out, batch_size, steps)
    if steps:
        raise InputError(Problem("--steps", "a file of kind kineto, which has steps", kind))
    if len(files) > 1:
        raise InputError(Problem(str(files[1]), f"one file of kind {kind}", f"{len(files)} files"))
    return IMPORTERS[kind](files[0], out, batch_size, workers)


def _npz(file: Path, out: Path, batch_size: int, workers: int | None) -> Imported:
    import_npz(file, out, batch_size)
    return Imported()


def _kineto(files: Sequence[Path], out: Path, batch_size: int, steps: str) -> Imported:
    made = import_kineto(files, out, batch_size, steps)
    kernels = made.collectives.kernels
    rows = {"gradient_ready.csv": len(made.chosen.trace.gradients), "collectives.csv": len(kernels)}
    return Imported(rows, made.problems, _count_unsized((k.collective, k.nbytes) for k in kernels), report_of(made))


def _chakra(file: Path, out: Path, batch_size: int, workers: int | None) -> Imported:
    trace = read_chakra(file)
    made = _begin(trace.nodes, trace.problems, file)
    made.unsized = _count_unsized((node.collective, node.nbytes) for node in trace.nodes if node.kind == "collective")
    nodes = (
        (node.id, node.name, node.kind, node.seconds, node.nbytes, " ".join(map(str, node.waits_for)))
        for node in trace.nodes
    )
    _write_table(out, made, "nodes.csv", ("id", "name", "kind", "time_s", "nbytes", "waits_for"), nodes)
    collectives = (
        (node.collective, node.nbytes, node.group or workers or "", node.seconds or "")
        for node in trace.nodes
        if node.kind == "collective"
    )
    _write_table(out, made, "collectives.csv", ("collective", "nbytes", "workers", "time_s"), collectives)
    return made


def _nccl_tests(file: Path, out: Path, batch_size: int, workers: int | None) -> Imported:
    log = read_nccl_log(file)
    made = _begin(log.tests, log.problems, file)
    made.notes = list(log.notes)
    rows = (
        (
            *(test.collective, row.nbytes, test.ranks or workers or "", test.nodes or 1),
            *(test.topology, test.version, test.network, test.setting),
            *("" if seconds is None else seconds for seconds in (row.out_of_place, row.in_place)),
        )
        for test in log.tests
        for row in test.rows
    )
    _write_table(out, made, "collectives.csv", (*_COLLECTIVE, "time_out_of_place_s", "time_in_place_s"), rows)
    return made


def _osu(file: Path, out: Path, batch_size: int, workers: int | None) -> Imported:
    read = read_osu(file)
    made = _begin(read.tables, read.problems, file)
    if workers is None:
        raise InputError(Problem("--workers", "the number of ranks", "nothing", f"{file.name} does not state it"))
    rows = (
        (table.primitive, table.payload(row.nbytes, workers), workers, table.version, row.seconds)
        for table in read.tables
        for row in table.rows
    )
    _write_table(out, made, "collectives.csv", ("collective", "nbytes", "workers", "version", "time_s"), rows)
    return made


def _nccl_tuning(file: Path, out: Path, batch_size: int, workers: int | None) -> Imported:
    log = read_nccl_tuning(file)
    made = _begin((*log.cells, *log.choices), log.problems, file)
    cells = ((c.primitive, c.algorithm, c.protocol, c.latency, c.bandwidth) for c in log.cells)
    _write_table(
        out, made, "tuning.csv", ("collective", "algorithm", "protocol", "latency_s", "bandwidth_bytes_per_s"), cells
    )
    choices = (
        (c.primitive, c.nbytes, c.algorithm, c.protocol, "" if c.seconds is None else c.seconds, c.channels or "")
        for c in log.choices
    )
    heading = ("collective", "nbytes", "algorithm", "protocol", "time_s", "channels")
    _write_table(out, made, "choices.csv", heading, choices)
    return made


IMPORTERS = {
    "npz": _npz,
    "chakra": _chakra,
    "nccl-tests": _nccl_tests,
    "osu": _osu,
    "nccl-tuning": _nccl_tuning,
}


def _begin(found: tuple[object, ...], problems: Sequence[Problem], file: Path) -> Imported:
    """The result with no rows yet. Raises InputError where nothing was found."""
    if not found:
        raise InputError(problems or Problem(str(file), "something to import", "nothing"))
    return Imported(problems=list(problems))


def _write_table(
    out: Path, made: Imported, name: str, heading: tuple[str, ...], rows: Iterable[tuple[object, ...]]
) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        made.rows[name] = write_rows(out / name, heading, rows)
    except OSError as error:
        raise InputError(Problem(str(out / name), "a file that can be written", error.strerror or "an error")) from None


def _count_unsized(collectives: Iterable[tuple[str, int]]) -> Counter[str]:
    return Counter(kind for kind, nbytes in collectives if not nbytes)
