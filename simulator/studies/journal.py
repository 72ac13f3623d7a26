"""The journal of a sweep: what is finished is on disk, and stays there whatever happens to the process.

One file that only grows, one record a line: CRC-32, space, JSON. What finished together is appended by one write and
flushed to the disk before anything else is done; a line that was torn fails its checksum and is computed again. One
file rather than one per point: thousands of small files cost more than the points themselves.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from simulator.errors import InputError, Problem

_ROW = b'"row": {'
"""Only in the record of a point that came out: inside of text, quotes are escaped."""
_FIXED = 9
"""Characters before the JSON: eight of the checksum, one space."""


class Journal:
    """The finished points of a folder, by digest. A context manager: the folder is this sweep's until it is closed.

    `part`: what a shard's files have in their names. A shard keeps a journal of its own beside the others', so that
    several may run in one folder; every journal of the folder is read. Raises InputError where another process holds
    the folder or it can't be written.
    """

    def __init__(self, folder: Path, part: str = "") -> None:
        self.folder, self.part = folder, part
        self.path = folder / f"points{part}.jsonl"
        self.records: dict[str, bytes] = {}
        self.damaged = 0
        self.locks: list[int] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock("sweep.lock", shared=bool(part))
            if part:
                self._lock(f"sweep{part}.lock", shared=False)
            self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
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
        """Append records, given as digest and JSON, and flush them to the disk."""
        view = memoryview(b"".join(line_of(body) for _, body in bodies))
        while view:
            view = view[os.write(self.file, view) :]
        os.fsync(self.file)
        self.records.update(bodies)

    def finished(self, digest: str) -> bool:
        """Whether a point came out; what failed has not."""
        return _ROW in self.records.get(digest, b"")

    def row(self, digest: str) -> dict[str, Any] | None:
        """The row of a finished point; None for one that failed or is not there."""
        body = self.records.get(digest)
        made: dict[str, Any] | None = None if body is None else json.loads(body).get("row")
        return made

    def error(self, digest: str) -> str | None:
        """What a point failed with."""
        body = self.records.get(digest)
        made: str | None = None if body is None else json.loads(body).get("error")
        return made

    def _read(self) -> None:
        """Every journal of the folder, its own last; what was torn off at its own end is cut away."""
        for path in sorted(self.folder.glob("points*.jsonl")):
            if path != self.path:
                self._take(path.read_bytes())
        own = self.path.read_bytes()
        whole = own.rfind(b"\n") + 1
        if whole < len(own):
            os.ftruncate(self.file, whole)
            os.fsync(self.file)
        self._take(own[:whole])

    def _take(self, data: bytes) -> None:
        for line in data.split(b"\n"):
            if not line:
                continue
            body = line[_FIXED:]
            if line[:_FIXED] != _checksum(body):
                self.damaged += 1
                continue
            digest = json.loads(body)["digest"]
            if _ROW in body or not self.finished(digest):
                self.records[digest] = body

    def _lock(self, name: str, shared: bool) -> None:
        """Hold a lock that ends with the process, however that ends. Raises InputError where another one has it."""
        path = self.folder / name
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
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


def line_of(body: bytes) -> bytes:
    """A record as it stands in the journal."""
    return _checksum(body) + body + b"\n"


def _checksum(body: bytes) -> bytes:
    return b"%08x " % zlib.crc32(body)
