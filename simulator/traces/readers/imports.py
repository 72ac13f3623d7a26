"""Import of other tools' files into folders of tables that `sparsim` reads as workloads, measurements or traces."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simulator.errors import InputError, Problem, format_value
from simulator.loading.csv_tables import write_rows
from simulator.models.gradients import Block
from simulator.models.layers import Layer
from simulator.records import Struct, field
from simulator.traces.format.trace import MAX_TRACE_WORKERS, TraceSpec
from simulator.traces.format.writer import TraceWriter
from simulator.traces.readers.chakra import ChakraNode, read_chakra
from simulator.traces.readers.kineto.reader import CollectiveKernel
from simulator.traces.readers.kineto.workload import import_kineto, report_of
from simulator.traces.readers.nccl_log import read_nccl_log
from simulator.traces.readers.nccl_tuning_log import TuningCell, TuningChoice, read_nccl_tuning
from simulator.traces.readers.osu import read_osu
from simulator.traces.readers.streams import Contents, Part

MAX_RATIO = 8
"""An archive may unpack to so many times its size, or to `FREE` bytes: random floats hardly compress."""
FREE = 2**28
_LARGEST = float(np.finfo(np.float32).max)
# All that the zip and numpy readers raise for a damaged archive.
_DAMAGED = (
    *(OSError, ValueError, ArithmeticError, MemoryError, EOFError, KeyError, TypeError, SyntaxError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError),
)


def import_npz(file: Path, out: Path, batch_size: int = 1) -> None:
    """Write a trace from an .npz: one float array per tensor, in forward order, (iterations, workers, *shape).

    Raises InputError naming the file and the array for anything else.
    """
    arrays = _read_arrays(file)
    problems = []
    first: np.ndarray = next(iter(arrays.values()), np.zeros((0, 0)))
    for name, array in arrays.items():
        if (
            not isinstance(array, np.ndarray)
            or array.dtype.kind != "f"
            or array.ndim < 3
            or array.shape[:2] != first.shape[:2]
            or not array.size
        ):
            wanted = "floats of shape (iterations, workers, ...), the first two as in the first array"
            got = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else "no array"
            problems.append(Problem(f"{file}: {name}", wanted, got))
        elif not _fits_float32(array):
            what = f"finite values up to {_LARGEST:.3g}"
            problems.append(Problem(f"{file}: {name}", what, "NaN, infinity or larger ones"))
    if problems or not arrays:
        raise InputError(problems or Problem(str(file), "at least one array", "none"))
    iterations, workers = int(first.shape[0]), int(first.shape[1])
    if workers > MAX_TRACE_WORKERS:
        raise InputError(Problem(str(file), f"at most {MAX_TRACE_WORKERS} workers", str(workers)))
    numels = tuple(int(np.prod(array.shape[2:])) for array in arrays.values())
    layers = [Layer(name=name, numel=numel) for name, numel in zip(arrays, numels, strict=True)]
    spec = TraceSpec(
        format=1, model=file.stem, workers=workers, iterations=(0,), batch_size=batch_size, source=f"from {file.name}"
    )
    d = sum(numels)
    piece, coordinate, weight = np.repeat(np.arange(len(numels)), numels), np.arange(d), np.ones(d)
    shapes = tuple(array.shape[2:] for array in arrays.values())
    with TraceWriter(out, spec, layers) as writer:
        for t in range(iterations):
            rows = [array[t].reshape(workers, -1).astype(np.float32) for array in arrays.values()]
            writer.append(Block(np.concatenate(rows, axis=1), piece, coordinate, weight, numels, t, shapes))


def _read_arrays(file: Path) -> Mapping[str, Any]:
    """The arrays of an archive by name, read without unpacking to files.

    Raises InputError for a file that is no such archive, holds objects, or unpacks to far more than its size.
    """
    what = "a numpy .npz archive without objects"
    if file.exists() and not file.is_file():
        raise InputError(Problem(str(file), what, "a folder, a device or a pipe"))
    try:
        with zipfile.ZipFile(file) as members:
            unpacked, packed = sum(item.file_size for item in members.infolist()), file.stat().st_size
        if unpacked > max(FREE, MAX_RATIO * packed):
            hint = "is it a decompression bomb? if not, save it with numpy.savez"
            raise InputError(Problem(str(file), f"at most {MAX_RATIO} times its bytes when unpacked", "more", hint))
        with np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except _DAMAGED as error:
        raise InputError(Problem(str(file), what, format_value(str(error) or type(error).__name__))) from None


def _fits_float32(array: np.ndarray) -> bool:
    """Whether float32 can hold every value; comparisons with NaN are false."""
    with np.errstate(invalid="ignore"):
        return float(array.min()) >= -_LARGEST and float(array.max()) <= _LARGEST


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
    """Import a file of a `kind`, or profiles of several ranks, into folder `out`.

    `steps`: of a profile, such as "3-5"; all that are usual where it is empty. Raises InputError where a file has
    nothing of the kind.
    """
    if kind == "kineto":
        job = import_kineto(files, out, batch_size, steps)
        rows = {"gradient_ready.csv": len(job.chosen.trace.gradients), "collectives.csv": len(job.collectives)}
        problems = [problem for rank in job.ranks for problem in rank.trace.problems]
        return Imported(rows, problems, _count_unsized(job.collectives), report_of(job))
    if steps:
        raise InputError(Problem("--steps", "a file of kind kineto, which has steps", kind))
    if len(files) > 1:
        raise InputError(Problem(str(files[1]), f"one file of kind {kind}", f"{len(files)} files"))
    made = Imported()
    if kind == "npz":
        import_npz(files[0], out, batch_size)
        return made
    for name, heading, cells in IMPORTERS[kind](files[0], workers, made):
        made.rows[name] = write_rows(out / name, heading, cells)
    return made


Table = tuple[str, tuple[str, ...], Iterable[tuple[object, ...]]]
"""The name of a file, its heading and its rows."""


def _chakra(file: Path, workers: int | None, made: Imported) -> Iterator[Table]:
    found = _parts(read_chakra(file), made)
    made.unsized = _count_unsized(node for node in found if node.kind == "collective")
    nodes = (
        (node.id, node.name, node.kind, node.seconds, node.nbytes, " ".join(map(str, node.waits_for))) for node in found
    )
    yield "nodes.csv", ("id", "name", "kind", "time_s", "nbytes", "waits_for"), nodes
    collectives = (
        (node.collective, node.nbytes, node.group or workers or "", node.seconds or "")
        for node in found
        if node.kind == "collective"
    )
    yield "collectives.csv", ("collective", "nbytes", "workers", "time_s"), collectives


def _nccl_tests(file: Path, workers: int | None, made: Imported) -> Iterator[Table]:
    rows = (
        (
            *(test.collective, row.nbytes, test.ranks or workers or "", test.nodes or 1),
            *(test.topology, test.version, test.network, test.setting),
            *(row.out_of_place, row.in_place),
        )
        for test in _parts(read_nccl_log(file), made)
        for row in test.rows
    )
    yield "collectives.csv", (*_COLLECTIVE, "time_out_of_place_s", "time_in_place_s"), rows


def _osu(file: Path, workers: int | None, made: Imported) -> Iterator[Table]:
    tables = _parts(read_osu(file), made)
    if workers is None:
        raise InputError(Problem("--workers", "the number of ranks", "nothing", f"{file.name} does not state it"))
    rows = (
        (table.primitive, table.payload(row.nbytes, workers), workers, table.version, row.seconds)
        for table in tables
        for row in table.rows
    )
    yield "collectives.csv", ("collective", "nbytes", "workers", "version", "time_s"), rows


def _nccl_tuning(file: Path, workers: int | None, made: Imported) -> Iterator[Table]:
    found = _parts(read_nccl_tuning(file), made)
    cells = ((c.primitive, c.algorithm, c.protocol, c.latency, c.bandwidth) for c in found if isinstance(c, TuningCell))
    yield "tuning.csv", ("collective", "algorithm", "protocol", "latency_s", "bandwidth_bytes_per_s"), cells
    choices = (
        (c.primitive, c.nbytes, c.algorithm, c.protocol, c.seconds, c.channels or "")
        for c in found
        if isinstance(c, TuningChoice)
    )
    yield "choices.csv", ("collective", "nbytes", "algorithm", "protocol", "time_s", "channels"), choices


IMPORTERS = {"chakra": _chakra, "nccl-tests": _nccl_tests, "osu": _osu, "nccl-tuning": _nccl_tuning}


def _parts(contents: Contents[Part], made: Imported) -> tuple[Part, ...]:
    if not contents.parts:
        raise InputError(contents.problems)
    made.problems += contents.problems
    made.notes += contents.notes
    return contents.parts


def _count_unsized(collectives: Iterable[ChakraNode | CollectiveKernel]) -> Counter[str]:
    return Counter(item.collective for item in collectives if not item.nbytes)
