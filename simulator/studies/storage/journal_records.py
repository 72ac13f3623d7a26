"""Records of a journal: CRC-32, a space, JSON; one per line."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from simulator.records import Record

ROW = b'"row": {'
"""Only in the record of a point that succeeded: quotes inside a text are escaped."""
PREFIX = 9
"""Characters before the JSON: eight of the checksum, one space."""
MAX_RECORD = 2**20
"""Bytes of a line."""
_encode = msgspec.json.Encoder().encode  # a third of the time of `json`


def row_record(digest: str, row: Mapping[str, Any]) -> bytes:
    """The record of a point that succeeded. Raises ValueError for inf and NaN, which JSON does not have."""
    if not math.isfinite(sum([value for value in row.values() if type(value) is float])):
        raise ValueError(f"a row of finite numbers, got {row}")
    return b'{"digest": %b, %b%b}' % (_encode(digest), ROW[:-1], _encode(row))


def error_record(digest: str, error: str | None) -> bytes:
    """The record of a point that failed."""
    return b'{"digest": %b, "error": %b}' % (_encode(digest), _encode(error))


class PointRecord(Record, forbid_unknown_fields=True):
    """What is known of a point: its digest, with a flat row where it succeeded, else with an error.

    What follows a `+` in the digest says what the row holds beyond a prediction.
    """

    digest: str
    row: dict[str, str | bool | float | Annotated[int, msgspec.Meta(gt=-(2**63), le=2**63 - 1)] | None] | None = None
    error: str | None = None


def read_record(body: bytes) -> PointRecord | None:
    """A record of the form that this program writes; None for anything else."""
    try:
        record = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if (record.row is None) == (record.error is None) or (record.row is not None) != (ROW in body):
        return None
    row = record.row
    if row is not None and ("error" in row or row.get("digest", record.digest) != record.digest.partition("+")[0]):
        return None
    return record


_decode = msgspec.json.Decoder(PointRecord).decode


def line_of(body: bytes) -> bytes:
    """A record as a line of the journal."""
    return checksum(body) + body + b"\n"


def checksum(body: bytes) -> bytes:
    """The CRC-32 before a record's JSON."""
    return b"%08x " % zlib.crc32(body)
