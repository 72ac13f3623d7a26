"""Records of a journal: CRC-32, a space, JSON; one per line."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

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


def read_record(body: bytes) -> Any:
    """The JSON of a record, by the one parser that both finds and reads them. Raises DecodeError for anything else."""
    return msgspec.json.decode(body)


def parse_record(body: bytes) -> Mapping[str, Any] | None:
    """A digest with a flat row or with an error, the form that this program writes; None for anything else.

    What follows a `+` in the digest says what the row holds beyond a prediction.
    """
    try:
        record = read_record(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("digest"), str):
        return None
    row = record.get("row")
    if not isinstance(row, dict | None) or set(record) != {"digest", "error" if row is None else "row"}:
        return None
    if (ROW in body) != (row is not None):
        return None
    if row is None:
        return record if isinstance(record["error"], str) and _is_text(record["error"]) else None
    fits = (
        row.get("digest", record["digest"]) == record["digest"].partition("+")[0]
        and "error" not in row
        and all(map(_is_plain, row.values()))
    )
    return record if fits and all(map(_is_text, row)) else None


def _is_plain(value: Any) -> bool:
    """Whether a value can be a cell of a table."""
    if isinstance(value, str):
        return _is_text(value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**63)


def _is_text(text: str) -> bool:
    """Whether text can be written to a file: JSON can contain halves of surrogate pairs, which UTF-8 cannot."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def line_of(body: bytes) -> bytes:
    """A record as a line of the journal."""
    return checksum(body) + body + b"\n"


def checksum(body: bytes) -> bytes:
    """The CRC-32 before a record's JSON."""
    return b"%08x " % zlib.crc32(body)
