"""The journal of a sweep: what is finished is on disk, and stays there whatever happens to the process.

One file that only grows, one record a line: CRC-32, space, JSON. What finished together is appended by one write and
flushed to the disk before anything else is done; a line that was torn fails its checksum and is computed again. One
file rather than one per point: thousands of small files cost more than the points themselves. In memory are only the
places of the records, so that a sweep of 100,000 points needs little more than one of 1,000.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from simulator.errors import InputError, Problem

_ROW = b'"row": {'
"""Only in the record of a point that came out: inside of text, quotes are escaped."""
_FIXED = 9
"""Characters before the JSON: eight of the checksum, one space."""
MAX_RECORD = 2**20
MAX_COLUMNS = 2000
"""Columns that all records together may have."""


class _Place(NamedTuple):
    """Where a record stands: file handle, first byte and length of its JSON; and whether the point came out."""

    file: int
    start: int
    size: int
    finished: bool


class Journal:
    """The finished points of a folder, by digest. A context manager: the folder is this sweep's until it is closed.

    `part`: what a shard's files have in their names. A shard keeps a journal of its own beside the others', so that
    several may run in one folder; every journal of the folder is read. Raises InputError where another process holds
    the folder or it can't be written.
    """

    def __init__(self, folder: Path, part: str = "") -> None:
        self.folder, self.part = folder, part
        self.path = folder / f"points{part}.jsonl"
        self.records: dict[str, _Place] = {}
        self.damaged = 0
        self.columns: set[str] = set()
        self.locks: list[int] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock("sweep.lock", shared=bool(part))
            if part:
                self._lock(f"sweep{part}.lock", shared=False)
            self.file = _opened(self.path, os.O_APPEND)
            self.locks.append(self.file)
            self._read()
        except OSError as error:
            self.close()
            raise InputError(
                Problem(str(folder), "a folder that can be written", error.strerror or str(error))
            ) from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the folder."""
        while self.locks:
            os.close(self.locks.pop())

    def add(self, bodies: Sequence[tuple[str, bytes]]) -> None:
        """Append records, given as digest and JSON, and flush them to the disk.

        Raises InputError where that can't be done, as on a full disk.
        """
        view = memoryview(b"".join(line_of(body) for _, body in bodies))
        try:
            start = os.lseek(self.file, 0, os.SEEK_END)
            while view:
                view = view[os.write(self.file, view) :]
            os.fsync(self.file)
        except OSError as error:
            hint = "what was finished before is kept: make room, and the same command goes on from there"
            what = "a file that can be written"
            raise InputError(Problem(str(self.path), what, error.strerror or str(error), hint)) from None
        for digest, body in bodies:
            self.records[digest] = _Place(self.file, start + _FIXED, len(body), _ROW in body)
            start += _FIXED + len(body) + 1

    def finished(self, digest: str) -> bool:
        """Whether a point came out; what failed has not."""
        place = self.records.get(digest)
        return place is not None and place.finished

    def row(self, digest: str) -> dict[str, Any] | None:
        """The row of a finished point; None for one that failed or is not there."""
        made: dict[str, Any] | None = self._record(digest).get("row")
        return made

    def error(self, digest: str) -> str | None:
        """What a point failed with."""
        made: str | None = self._record(digest).get("error")
        return made

    def _record(self, digest: str) -> dict[str, Any]:
        """A point's record; empty where there is none. Raises InputError where it is no longer what was read."""
        place = self.records.get(digest)
        if place is None:
            return {}
        line = os.pread(place.file, _FIXED + place.size, place.start - _FIXED)
        body = line[_FIXED:]
        if line[:_FIXED] != _checksum(body):
            what = "the records that were there when the sweep began"
            hint = "was the file changed meanwhile? the same command computes again what is missing"
            raise InputError(Problem(str(self.folder), what, "others", hint))
        made: dict[str, Any] = json.loads(body)
        return made

    def _read(self) -> None:
        """Every journal of the folder, its own last; what was torn off at its own end is cut away."""
        for path in sorted(self.folder.glob("points*.jsonl")):
            if path != self.path:
                self.locks.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                self._take(self.locks[-1])
        whole = self._take(self.file)
        if whole < os.fstat(self.file).st_size:
            os.ftruncate(self.file, whole)
            os.fsync(self.file)

    def _take(self, handle: int) -> int:
        """Take over the records of a journal; the bytes up to the end of its last whole line."""
        start = whole = 0
        with os.fdopen(handle, "rb", closefd=False) as file:
            while line := file.readline(MAX_RECORD):
                if not line.endswith(b"\n") and len(line) < MAX_RECORD:
                    break  # torn off, or being written by another shard
                if line != b"\n":
                    self._keep(line.rstrip(b"\n"), handle, start)
                start += len(line)
                if line.endswith(b"\n"):
                    whole = start
        return whole

    def _keep(self, line: bytes, handle: int, start: int) -> None:
        """Keep the place of one record, if it is whole and what this program writes."""
        body = line[_FIXED:]
        record = _parsed(body) if line[:_FIXED] == _checksum(body) else None
        if record is None or len(self.columns | record.get("row", {}).keys()) > MAX_COLUMNS:
            self.damaged += 1
            return
        self.columns |= record.get("row", {}).keys()
        digest = record["digest"]
        if _ROW in body or not self.finished(digest):
            self.records[digest] = _Place(handle, start + _FIXED, len(body), _ROW in body)

    def _lock(self, name: str, shared: bool) -> None:
        """Hold a lock that ends with the process, however that ends. Raises InputError where another one has it."""
        path = self.folder / name
        handle = _opened(path)
        self.locks.append(handle)
        import fcntl

        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 32).decode(errors="replace").strip() or "unknown"
            raise InputError(
                Problem(
                    str(self.folder),
                    "a folder that no other sweep is writing to",
                    f"one that process {holder} is writing to",
                    "wait for it, or choose another folder",
                )
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)


def _opened(path: Path, flags: int = 0) -> int:
    """A file of the folder, made where there is none; a link is refused, since its target would be written to."""
    if path.is_symlink():
        raise InputError(Problem(str(path), "a file of this folder", "a link to elsewhere", "remove it"))
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o644)


def _parsed(body: bytes) -> dict[str, Any] | None:
    """A record of the form that this program writes: a digest with a flat row, or with an error; None for others."""
    try:
        record = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("digest"), str):
        return None
    row = record.get("row")
    if not isinstance(row, dict | None) or set(record) != {"digest", "error" if row is None else "row"}:
        return None
    if (_ROW in body) != (row is not None):
        return None
    if row is None:
        return record if isinstance(record["error"], str) and _is_text(record["error"]) else None
    fits = (
        row.get("digest", record["digest"]) == record["digest"]
        and "error" not in row
        and all(map(_is_plain, row.values()))
    )
    return record if fits and all(map(_is_text, row)) else None


def _is_plain(value: Any) -> bool:
    """Whether a value can stand in a table."""
    if isinstance(value, str):
        return _is_text(value)
    return value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 2**63)


def _is_text(text: str) -> bool:
    """Whether text can be written: JSON can spell halves of characters, which no file holds."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _no_number(name: str) -> Any:
    raise ValueError(name)


def line_of(body: bytes) -> bytes:
    """A record as it stands in the journal."""
    return _checksum(body) + body + b"\n"


def _checksum(body: bytes) -> bytes:
    return b"%08x " % zlib.crc32(body)
