"""The journal of a sweep: finished points are on disk and stay there if the process is killed."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from simulator.errors import InputError, Problem
from simulator.records import Record

ROW = b'"row": {'
"""Only in the record of a point that succeeded: quotes inside a text are escaped."""
PREFIX = 9
"""Characters before the JSON: eight of the checksum, one space."""
MAX_RECORD = 2**20
"""Bytes of a line."""
_encode = msgspec.json.Encoder().encode  # a third of the time of `json`


class PointOutcome(NamedTuple):
    """A point's digest, its record for the journal (JSON), and its error, if any."""

    digest: str
    body: bytes
    error: str | None


def succeeded(digest: str, row: Mapping[str, Any]) -> PointOutcome:
    """The outcome of a point with a row. Raises ValueError for inf and NaN, which JSON does not have."""
    if not math.isfinite(sum([value for value in row.values() if type(value) is float])):
        raise ValueError(f"a row of finite numbers, got {row}")
    return PointOutcome(digest, b'{"digest": %b, %b%b}' % (_encode(digest), ROW[:-1], _encode(row)), None)


def failed(digest: str, error: str) -> PointOutcome:
    """The outcome of a point without."""
    return PointOutcome(digest, b'{"digest": %b, "error": %b}' % (_encode(digest), _encode(error)), error)


class PointRecord(Record, forbid_unknown_fields=True):
    """What is known of a point: its digest, with a flat row where it succeeded, else with an error.

    What follows a `+` in the digest says what the row holds beyond a prediction.
    """

    digest: str
    row: dict[str, str | bool | float | Annotated[int, msgspec.Meta(gt=-(2**63), le=2**63 - 1)] | None] | None = None
    error: str | None = None


def line_of(body: bytes) -> bytes:
    """A record as a line of the journal: its CRC-32 stands before its JSON."""
    return b"%08x %b\n" % (zlib.crc32(body), body)


def read_record(line: bytes) -> PointRecord | None:
    """The record of a line of the form that this program writes; None for anything else."""
    body = line[PREFIX:-1]
    try:
        record = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    row = record.row
    if line_of(body) != line or (row is None) == (record.error is None) or (row is not None) != (ROW in body):
        return None
    if row is not None and ("error" in row or row.get("digest", record.digest) != record.digest.partition("+")[0]):
        return None
    return record


_decode = msgspec.json.Decoder(PointRecord).decode
MAX_COLUMNS = 2000
"""Columns that all records together may have."""


class _Place(NamedTuple):
    """Position of a record: file handle, first byte and length of its line; and whether the point succeeded."""

    file: int
    start: int
    size: int
    finished: bool


class Journal(AbstractContextManager["Journal"]):
    """The finished points of a folder, by digest. A context manager that locks the folder until it is closed.

    `part`: the shard's part of file names. A shard writes its own journal, so that several may run in one folder; every
    journal of the folder is read. Raises InputError where another process uses the folder or it cannot be written.
    """

    def __init__(self, folder: Path, part: str = "") -> None:
        self.folder, self.path = folder, folder / f"points{part}.jsonl"
        self.records: dict[str, _Place] = {}
        self.damaged = 0
        self.columns: set[str] = set()
        with ExitStack() as opened:  # nothing stays open, or locked, if anything fails
            self.opened = opened
            try:
                folder.mkdir(parents=True, exist_ok=True)
                self._lock("sweep.lock", shared=bool(part))
                if part:
                    self._lock(f"sweep{part}.lock", shared=False)
                self.file = self._open(self.path, os.O_APPEND)
                self._read()
            except OSError as error:
                what = "a folder that can be written"
                raise InputError(Problem(str(folder), what, error.strerror or str(error))) from None
            self.opened = opened.pop_all()

    def __exit__(self, *_: object) -> None:
        """Close the files and unlock the folder."""
        self.opened.close()

    def add(self, outcomes: Sequence[PointOutcome]) -> None:
        """Append the records of outcomes, and flush them to the disk.

        Raises InputError where they cannot be written, as on a full disk.
        """
        view = memoryview(b"".join(line_of(body) for _, body, _ in outcomes))
        try:
            start = os.lseek(self.file, 0, os.SEEK_END)
            while view:
                view = view[os.write(self.file, view) :]
            os.fsync(self.file)
        except OSError as error:
            hint = "what was finished before is kept: free some space and run the same command again to continue"
            what = "a file that can be written"
            raise InputError(Problem(str(self.path), what, error.strerror or str(error), hint)) from None
        for digest, body, reason in outcomes:
            self.records[digest] = _Place(self.file, start, PREFIX + len(body) + 1, reason is None)
            start += PREFIX + len(body) + 1

    def finished(self, digest: str) -> bool:
        """Whether a point succeeded."""
        place = self.records.get(digest)
        return place is not None and place.finished

    def record(self, digest: str) -> PointRecord:
        """The record of a point, which has one. Raises InputError where the file was changed meanwhile."""
        place = self.records[digest]
        record = read_record(os.pread(place.file, place.size, place.start))
        if record is None:
            what = "the same records as at the start of the sweep"
            hint = "the file was changed meanwhile; run the same command again to compute what is missing"
            raise InputError(Problem(str(self.folder), what, "others", hint))
        return record

    def _read(self) -> None:
        """Read every journal of the folder, its own last, and cut an incomplete line off the end of its own."""
        for path in sorted(self.folder.glob("points*.jsonl")):
            if path != self.path:
                self._read_file(self._open(path, writes=False))
        whole = self._read_file(self.file)
        if whole < os.fstat(self.file).st_size:
            os.ftruncate(self.file, whole)
            os.fsync(self.file)

    def _read_file(self, handle: int) -> int:
        """Keep the records of a journal; returns the number of bytes up to the end of its last whole line."""
        start = whole = 0
        with os.fdopen(handle, "rb", closefd=False) as file:
            while line := file.readline(MAX_RECORD):
                if not line.endswith(b"\n") and len(line) < MAX_RECORD:
                    break  # incomplete, or being written by another shard
                if line != b"\n":
                    self._keep(line, handle, start)
                start += len(line)
                if line.endswith(b"\n"):
                    whole = start
        return whole

    def _keep(self, line: bytes, handle: int, start: int) -> None:
        """Keep the position of one record, if it is complete and has the form that this program writes."""
        record = read_record(line)
        columns = set() if record is None else self.columns.union(record.row or ())
        if record is None or len(columns) > MAX_COLUMNS:
            self.damaged += 1
            return
        self.columns = columns
        if record.row is not None or not self.finished(record.digest):
            self.records[record.digest] = _Place(handle, start, len(line), record.row is not None)

    def _lock(self, name: str, shared: bool) -> None:
        """Take a lock that ends with the process. Raises InputError where another process has it."""
        path = self.folder / name
        handle = self._open(path)
        import fcntl

        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 32).decode(errors="replace").strip() or "unknown"
            what, got = "a folder that no other sweep is writing to", f"one that process {holder} is writing to"
            hint = "wait for it, or choose another folder"
            raise InputError(Problem(str(self.folder), what, got, hint)) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)

    def _open(self, path: Path, flags: int = 0, writes: bool = True) -> int:
        """A file of the folder, created where there is none that is to be written.

        Raises InputError for a link, since its target would be written to, and for what is no file, such as a pipe,
        which would be waited for.
        """
        if writes and path.is_symlink():
            raise InputError(Problem(str(path), "a file of this folder", "a link to elsewhere", "remove it"))
        if path.exists() and not path.is_file():
            raise InputError(Problem(str(path), "a file", "a folder, a device or a pipe", "remove it"))
        access = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW if writes else os.O_RDONLY
        handle = os.open(path, access | os.O_CLOEXEC | os.O_NONBLOCK | flags, 0o644)
        self.opened.callback(os.close, handle)
        return handle
