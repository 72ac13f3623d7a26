"""YAML documents: strict scalars, bounded size and depth, and the place of each part and of every mistake."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from simulator.errors import InputError, Problem, format_value
from simulator.records import Record, field, replace

MAX_BYTES = 4 * 2**20
MAX_DEPTH = 40
_FLAT = f"at most {MAX_DEPTH} levels of nesting"
_TOO_DEEP = "nesting depth"
"""What LibYAML says from 1,000 levels on, in versions that look so far ahead."""
MAX_NODES = 200_000
"""Most values of a document with aliases written out; a long text counts once for each `_TEXT` characters."""
_TEXT = 64
_DIGITS = 250
"""Most digits of a whole number: more exceed the range of a float."""

KeyPath = tuple[str | int, ...]
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"([-+]?)\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS: dict[str, bool | None] = {"null": None, "Null": None, "NULL": None, "~": None, "": None}
_WORDS |= {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Document(Record):
    """A parsed file: its data, line and column of each part, and what has changed parts of the data since."""

    path: str
    data: Any
    marks: Mapping[KeyPath, tuple[int, int]]
    changed: Mapping[KeyPath, str] = field(default_factory=dict)

    def with_changes(self, keys: Iterable[str], where: str) -> Document:
        """The document whose parts of these dotted keys stand somewhere else."""
        paths = [tuple(int(part) if part.isdecimal() else part for part in key.split(".")) for key in keys]
        return replace(self, changed={**self.changed, **dict.fromkeys(paths, where)})

    def mapping(self, what: str) -> dict[str, Any]:
        """Its data, which are a mapping. Raises InputError that says `what` they are to be where they are not."""
        if not isinstance(self.data, dict):
            raise InputError(Problem(self.where(()), what, format_value(self.data)))
        return self.data

    def describe_place(self, path: KeyPath) -> str:
        """Where a part stands, and its dotted key."""
        place, name = self.where(path), ".".join(map(str, path))
        return " ".join((place, name)) if place == "--set" else ": ".join(filter(None, (place, name)))

    def where(self, path: KeyPath) -> str:
        """`file:line:column` of a part, or of the nearest enclosing part that is in the file; what changed it, if it
        was changed."""
        for cut in range(len(path), 0, -1):
            if path[:cut] in self.changed:
                return self.changed[path[:cut]]
        for cut in range(len(path), -1, -1):
            if path[:cut] in self.marks:
                line, column = self.marks[path[:cut]]
                return f"{self.path}:{line}:{column}"
            if made := [where for key, where in self.changed.items() if self.marks and cut and key[:cut] == path[:cut]]:
                return made[-1]  # a change of a key below put it there
        return self.path


def read_document(path: Path) -> Document:
    """Read and parse one YAML file. Raises InputError for anything that is not a bounded, well-formed document."""
    return parse_document(read_text(path), str(path))


def read_text(path: Path, limit: int = MAX_BYTES) -> str:
    """A UTF-8 file of at most `limit` bytes. Raises InputError for any other."""
    try:
        if path.stat().st_size > limit:
            raise InputError(Problem(str(path), f"at most {limit} bytes", f"{path.stat().st_size} bytes"))
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise unreadable_file_error(path, error) from None
    except UnicodeDecodeError as error:
        raise InputError(Problem(str(path), "UTF-8 text", f"byte {error.start}, which is not")) from None


def unreadable_file_error(path: Path, error: OSError) -> InputError:
    """The error for a file that cannot be read."""
    return InputError(Problem(str(path), "a readable file", error.strerror or str(error)))


def parse_document(text: str, path: str = "<text>") -> Document:
    """Parse YAML 1.2 core scalars; duplicate keys, tags and runaway aliases are errors.

    >>> parse_document("a: {b: 1e9, c: on}").data
    {'a': {'b': 1000000000.0, 'c': 'on'}}
    """
    composer = _Composer(text, path)
    try:
        data = composer.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else path
        if _TOO_DEEP in (error.problem or ""):
            raise InputError(Problem(where, _FLAT, "more")) from None
        raise InputError(Problem(where, "well-formed YAML", error.problem or "an error")) from None
    except yaml.YAMLError as error:
        raise InputError(Problem(path, "well-formed YAML", format_value(str(error)))) from None
    except UnicodeEncodeError as error:
        raise InputError(Problem(path, "UTF-8 text", f"character {error.start}, which is not")) from None
    if composer.problems:
        raise InputError(composer.problems)
    return Document(path, data, composer.marks)


class _Composer:
    """Builds plain data from parse events, of bounded depth, with the place of each part."""

    def __init__(self, text: str, path: str) -> None:
        self.path, self.nodes = path, 0
        self.marks: dict[KeyPath, tuple[int, int]] = {}
        self.problems: list[Problem] = []
        self.anchors: dict[str | None, tuple[Any, int]] = {}
        self.events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)

    def document(self) -> Any:
        result: Any = None
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent) and self.marks:
                self._stop(event, "one document", "a second one")
            if isinstance(event, yaml.NodeEvent):
                result = self._marked(event, (), 0)
        return result

    def _marked(self, event: Any, path: KeyPath, depth: int) -> Any:
        """The value that begins with an event; its place is that of the event."""
        self.marks[path] = (event.start_mark.line + 1, event.start_mark.column + 1)
        return self._value(event, path, depth)

    def _value(self, event: Any, path: KeyPath, depth: int) -> Any:
        """The value that begins with an event, within so many others."""
        if isinstance(event, yaml.AliasEvent):
            return self._resolve_alias(event, depth)
        before, size = self.nodes, 1
        if isinstance(event, yaml.ScalarEvent):
            size += len(event.value) // _TEXT
        elif depth >= MAX_DEPTH:
            self._stop(event, _FLAT, "more")
        self._count(event, size)
        tagged = event.tag not in (None, "!")
        if tagged:
            self._problem(event, "plain YAML without tags", event.tag)
        value: Any
        if isinstance(event, yaml.ScalarEvent):
            value = parse_scalar(event.value) if event.implicit[0] and not tagged else event.value
        elif isinstance(event, yaml.SequenceStartEvent):
            value = []
            while not isinstance(inner := next(self.events), yaml.SequenceEndEvent):
                value.append(self._marked(inner, (*path, len(value)), depth + 1))
        else:
            value = {}
            while not isinstance(inner := next(self.events), yaml.MappingEndEvent):
                key = str(self._value(inner, path, depth + 1))
                if key in value:
                    self._problem(inner, "each key once", f"'{key}' a second time")
                self.marks[(*path, key)] = (inner.start_mark.line + 1, inner.start_mark.column + 1)
                value[key] = self._value(next(self.events), (*path, key), depth + 1)  # its place is that of the key
        if event.anchor:
            self.anchors[event.anchor] = (value, self.nodes - before)
        return value

    def _resolve_alias(self, event: Any, depth: int) -> Any:
        if event.anchor not in self.anchors:
            self._stop(event, "an anchor that was defined before", f"*{event.anchor}")
        value, size = self.anchors[event.anchor]
        self._count(event, size)
        if depth + _depth(value) > MAX_DEPTH:
            self._stop(event, _FLAT, "more")
        return value

    def _count(self, event: Any, nodes: int) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            self._stop(event, f"at most {MAX_NODES} values, aliases counted", "more")

    def _problem(self, event: Any, expected: str, got: str) -> None:
        mark = event.start_mark
        self.problems.append(Problem(f"{self.path}:{mark.line + 1}:{mark.column + 1}", expected, got))

    def _stop(self, event: Any, expected: str, got: str) -> None:
        self._problem(event, expected, got)
        raise InputError(self.problems)


def _depth(value: Any) -> int:
    """Levels of nesting in a value; 0 for a scalar."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)


def parse_scalar(text: str) -> Any:
    """A plain scalar by YAML 1.2's core schema.

    >>> parse_scalar("1e9"), parse_scalar("on"), parse_scalar("12:30"), parse_scalar("~")
    (1000000000.0, 'on', '12:30', None)
    """
    if text in _WORDS:
        return _WORDS[text]
    if len(text) <= _DIGITS and _INT.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    special = _SPECIAL.fullmatch(text)
    if special:
        return float("nan") if special[3] else float(f"{special[1]}inf")
    return text


T = TypeVar("T")

_NO_KEYS = ("affine", "n_log_n", "piecewise", "[key]")
"""What pydantic adds to the place of an error."""
_EXPECTED = {
    "bool": "true or false",
    "int": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a whole number of fewer digits",
    "float": "a number",
    "finite_number": "a finite number",
    "string": "text",
    "string_too_short": "text that is not empty",
    "string_too_long": "text of at most {max_length} letters",
    "string_pattern_mismatch": "text of the form {pattern}",
    "tuple": "a list",
    "list": "a list",
    "model": "a mapping",
    "model_attributes": "a mapping",
    "dict": "a mapping",
    "less_than_equal": "at most {le}",
    "greater_than_equal": "at least {ge}",
    "greater_than": "above {gt}",
    "less_than": "below {lt}",
    "literal_error": "one of {expected}",
    "too_short": "at least {min_length} entries",
    "too_long": "at most {max_length} entries",
}


def validate_document(validate: Callable[..., T], document: Document, near: Path | None = None) -> T:
    """What `validate` (a spec's `model_validate`, an adapter's `validate_python`) makes of a document's data.

    `near`: the folder in which names are looked up first. Raises InputError with every problem, each with its place.
    """
    try:
        return validate(document.data, context={"units_required": True, "near": near})
    except ValidationError as error:
        raise InputError(problems_of(error, document)) from None


def problems_of(error: ValidationError, document: Document) -> list[Problem]:
    """Every validation error as a problem with its place in the file."""
    errors: Any = error.errors(include_url=False)
    broken, problems = {item["loc"][:cut] for item in errors for cut in range(len(item["loc"]))}, list[Problem]()
    for item in errors:
        path: KeyPath = tuple(part for part in item["loc"] if part not in _NO_KEYS)
        context = item.get("ctx") or {}
        if item["type"] == "input_error":
            problems += context["problems"]
        elif item["type"] != "too_short" or item["loc"] not in broken:  # else the invalid entries are reported
            problems.append(_problem(item, document.describe_place(path), context))
    return problems


def _problem(item: Any, where: str, context: Mapping[str, Any]) -> Problem:
    kind, got = item["type"].removesuffix("_type").removesuffix("_parsing"), format_value(item.get("input"))
    if kind == "expected":
        return Problem(where, context["what"], context["got"], context["hint"])
    if kind == "quantity":
        return Problem(where, context["text"], got)
    if kind == "missing":
        return Problem(where, "this key", "nothing")
    if kind in _EXPECTED:
        return Problem(where, _EXPECTED[kind].format(**context), got)
    return Problem(where, item["msg"].removeprefix("Input should be "), got)
