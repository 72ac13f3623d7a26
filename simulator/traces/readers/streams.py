"""Large text files, plain or gzip, read in parts: numbered lines, and JSON one value at a time."""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import zlib
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TextIO, TypeVar

from simulator.errors import InputError, Problem, format_value
from simulator.loading.documents import unreadable_file_error
from simulator.records import Record

CHUNK = 2**20
MAX_VALUE = 2**24
"""Most characters of one JSON value: a longer one counts as damage."""
MAX_LINE = 2**20
"""Most characters of one line."""
LINE_START = r"(?<!\s)\s*(?:(?<!#)#+\s*)?"
"""Blanks and marks of comments before the first word of a line, tried once for each run of them: a line of nothing else
takes no time."""
MAX_RATIO = 50
"""A file may unpack to so many times its size, or to `FREE` bytes: text compresses 10 to 25 times."""
FREE = 2**24
_DIGITS = 18
_BLANK = " \t\r\n"
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-Z\\-_]")
_PREFIX_PART = re.compile(r"[0-9]+|\s+|[^0-9\s]+")
_LONGEST_PREFIX = 300
_LONGEST_LINE = 4096
_MESSAGES = ("log", "MESSAGE", "message", "msg", "textPayload")
_MOST_SHAPES = 20
_BROKEN = (EOFError, gzip.BadGzipFile, zlib.error)


Part = TypeVar("Part")


class Contents(Record, Generic[Part]):
    """What a file of another tool holds, a problem for every damaged place, and notes on what it does not say."""

    parts: tuple[Part, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()


def contents_of(parts: Iterable[Part], problems: Iterable[Problem], nothing: Problem) -> Contents[Part]:
    """The contents of a file, with the problem `nothing` where there are neither parts nor problems."""
    made, wrong = tuple(parts), tuple(problems)
    return Contents(made, wrong if made or wrong else (nothing,))


class _Unpacked(gzip.GzipFile):
    """A gzip file; raises InputError once it has unpacked to more than text could."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rb")
        self._path, self._left = path, max(FREE, MAX_RATIO * path.stat().st_size)

    def read1(self, size: int = -1) -> bytes:
        """Up to `size` bytes."""
        made = super().read1(size)
        self._left -= len(made)
        if self._left < 0:
            hint = "is it a decompression bomb? if not, unpack it first"
            raise InputError(
                Problem(str(self._path), f"at most {MAX_RATIO} times its bytes when unpacked", "more", hint)
            )
        return made


def open_text(path: Path) -> TextIO:
    """A text file in UTF-8 or UTF-16, unpacked if it is gzip; bytes that are neither become replacement characters.

    Raises InputError where the file can't be opened.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError(Problem(str(path), "a file", "a device or a pipe", "write its contents to a file first"))
    try:
        with path.open("rb") as file:
            start = file.read(2)
        if start == b"\x1f\x8b":
            start = b""
            with _Unpacked(path) as unpacked, suppress(*_BROKEN):  # who reads the lines says where it is damaged
                start = unpacked.read1(2)
            return io.TextIOWrapper(_Unpacked(path), encoding=_encoding(start), errors="replace")
        return path.open(encoding=_encoding(start), errors="replace")
    except OSError as error:
        raise unreadable_file_error(path, error) from None


def _encoding(start: bytes) -> str:
    """How a text is written, from its first two bytes: UTF-16 has a mark, or a zero beside its first letter."""
    if start in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    return "utf-16-le" if start[1:] == b"\0" else "utf-16-be" if start[:1] == b"\0" else "utf-8-sig"


def read_start(path: Path, most: int) -> str:
    """At most so many characters from the beginning of a text file. Raises InputError where it can't be read."""
    with open_text(path) as file:
        try:
            return file.read(most)
        except _BROKEN:
            raise InputError(Problem(str(path), "a whole gzip file", "a damaged one", "is it cut short?")) from None
        except OSError as error:
            raise unreadable_file_error(path, error) from None


def numbered_lines(path: Path, problems: list[Problem]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers from 1, without line ends; a file that is cut short ends in a problem with its place."""
    number = 0
    with open_text(path) as file:
        try:
            while line := file.readline(MAX_LINE):
                number += 1
                if len(line) == MAX_LINE:
                    what = f"lines of at most {MAX_LINE} characters"
                    raise InputError(Problem(f"{path}:{number}", what, "a longer one", "is it a text file?"))
                yield number, line.rstrip("\r\n")
        except _BROKEN:
            problems.append(Problem(f"{path}:{number + 1}", "the rest of a gzip file", "its end", "is it cut short?"))
        except OSError as error:
            raise unreadable_file_error(path, error) from None


def log_lines(path: Path, start: re.Pattern[str], problems: list[Problem]) -> Iterator[tuple[int, str]]:
    """Numbered lines of a program's output without what terminals, launchers and collectors of logs put around them.

    Colours are dropped, and of lines in JSON (Docker, journald) the message is taken. What stands before a text that
    matches `start`, with which a line of the program begins, is a prefix (` 0: ` of srun, `[1,0]<stdout>:` of mpirun, a
    time stamp, the name of a pod); all lines that begin with the same, whatever its numbers, are given without it.
    Of a line, no more than its first 4096 characters are given.
    """
    shapes = set[str]()
    for _, line in numbered_lines(path, []):
        if (match := start.search(_message(line)[:_LONGEST_PREFIX])) and len(shapes) < _MOST_SHAPES:
            parts = _PREFIX_PART.findall(match.string[: match.start()].strip())
            shapes.add("".join(map(_shape, parts)))
    known = "|".join(sorted(shapes - {""}, key=len, reverse=True))
    prefix = re.compile(rf"\s*(?:{known})" if known else "")
    for number, line in numbered_lines(path, problems):
        plain = _message(line)
        match = prefix.match(plain)
        yield number, plain[match.end() if match else 0 :][:_LONGEST_LINE]


def _shape(part: str) -> str:
    """A pattern for numbers or spaces alike, or for a text itself."""
    return r"\d+" if part[0].isdigit() else r"\s+" if part.isspace() else re.escape(part)


def _message(line: str) -> str:
    if line.startswith("{"):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return line
        packed = (value[key] for key in _MESSAGES if isinstance(value.get(key), str))
        line = next(packed, line).rstrip("\r\n")
    return _COLOUR.sub("", line) if "\x1b" in line else line


def is_whole(text: str) -> bool:
    """Whether text is a whole number of ASCII digits that fits into an int64.

    >>> is_whole("4096"), is_whole("²"), is_whole("9" * 30)
    (True, False, False)
    """
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS


def number_or_nan(text: str) -> float:
    """Text as a finite number; NaN for anything else."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


class JsonReader:
    """Reads JSON values from a file, with one chunk and one value in memory at a time."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self.path, self._file, self._text, self._at, self._line = path, file, "", 0, 1
        self._decoder = json.JSONDecoder(strict=False)
        self._ended = False

    @property
    def place(self) -> str:
        """File and line of what comes next."""
        return f"{self.path}:{self._line + self._text.count(chr(10), 0, self._at)}"

    def peek(self) -> str:
        """The next character that is not blank; empty at the end of the file."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _BLANK:
                self._at += 1
            if self._at < len(self._text) or not self._fill():
                return self._text[self._at : self._at + 1]

    def take(self, wanted: str) -> str:
        """The next character, one of `wanted`. Raises InputError with its line where it is another."""
        found = self.peek()
        if not found or found not in wanted:
            names = " or ".join(repr(character) for character in wanted)
            raise InputError(Problem(self.place, names, repr(found) if found else "the end of the file"))
        self._at += 1
        return found

    def value(self) -> Any:
        """The next whole value. Raises InputError with its line where there is none."""
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                # Cut off by the end of the chunk, or damaged: read as much again, and parse the value anew.
                if len(self._text) - self._at < MAX_VALUE and self._fill(len(self._text) - self._at):
                    continue
                got = "the end of the file" if self._ended else format_value(self._text[self._at : self._at + 40])
                raise InputError(Problem(self.place, "a JSON value", got, str(error).split(":")[0])) from None
            if end == len(self._text) and self._fill():
                continue  # a number may go on in the next chunk
            self._at = end
            return value

    def _fill(self, least: int = 0) -> bool:
        """Read one more chunk, or `least` characters if that is more; False at the end."""
        if self._ended:
            return False
        self._line += self._text.count("\n", 0, self._at)
        try:
            more = self._file.read(max(CHUNK, least))
        except _BROKEN:
            more = ""
        except OSError as error:
            raise unreadable_file_error(self.path, error) from None
        self._ended = not more
        self._text, self._at = self._text[self._at :] + more, 0
        return bool(more)


def json_members(path: Path, streamed: Container[str], problems: list[Problem]) -> Iterator[tuple[str, Any]]:
    """Pairs (key, value) of a JSON object; arrays under a key in `streamed` come item by item, as (key, item).

    Items of a bare array, and values that follow the first object, come under the empty key. Damage ends the
    iteration, and its place is added to `problems`.
    """
    with open_text(path) as file:
        reader = JsonReader(path, file)
        try:
            yield from _members(reader, streamed)
            while reader.peek():
                yield "", reader.value()
        except InputError as error:
            problems.extend(error.problems)


def _members(reader: JsonReader, streamed: Container[str]) -> Iterator[tuple[str, Any]]:
    """What stands between two brackets, item by item; of an array, under the empty key."""
    begin, end = "[]" if reader.peek() == "[" else "{}"
    reader.take(begin)
    if reader.peek() == end:
        reader.take(end)
        return
    while True:
        key = ""
        if begin == "{":
            key = reader.value()
            if not isinstance(key, str):
                raise InputError(Problem(reader.place, "a name in quotes", format_value(key)))
            reader.take(":")
        if key in streamed and reader.peek() == "[":
            yield from ((key, item) for _, item in _members(reader, ()))
        else:
            yield key, reader.value()
        if reader.take(f",{end}") == end:
            return
