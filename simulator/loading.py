"""YAML and named configs to specs: strict scalars, bounded documents, and errors with file:line:column."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from simulator.errors import InputError, Problem, nearest, shown
from simulator.models.limits import MAX_LAYERS

MAX_BYTES = 4 * 2**20
MAX_CSV_BYTES = 2**26
MAX_DEPTH = 40
MAX_NODES = 200_000
"""Values of a document with its aliases written out; a long text counts as one for each `_TEXT` characters."""
_TEXT = 64
_DIGITS = 250
"""Of a whole number: more are more than a float holds."""
TRACE_FILE = "trace.yaml"

Path_ = tuple[str | int, ...]
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"([-+]?)\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS: dict[str, bool | None] = {"null": None, "Null": None, "NULL": None, "~": None, "": None}
_WORDS |= {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: its data, and where each part of it stands."""

    path: str
    data: Any
    marks: Mapping[Path_, tuple[int, int]]

    def where(self, path: Path_) -> str:
        """`file:line:column` of a part, or of the nearest enclosing one that was written."""
        for cut in range(len(path), -1, -1):
            if path[:cut] in self.marks:
                line, column = self.marks[path[:cut]]
                return f"{self.path}:{line}:{column}"
        return self.path


def read_document(path: Path) -> Document:
    """Read and parse one YAML file. Raises InputError for anything that is not a bounded, well-formed document."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(Problem(str(path), f"at most {MAX_BYTES} bytes", f"{path.stat().st_size} bytes"))
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(Problem(str(path), "a readable file", error.strerror or str(error))) from None
    except UnicodeDecodeError as error:
        raise InputError(Problem(str(path), "UTF-8 text", f"byte {error.start} that is not")) from None
    return parse_document(text, str(path))


def parse_document(text: str, path: str = "<text>") -> Document:
    """Parse YAML 1.2 core scalars; duplicate keys, tags and runaway aliases are errors.

    >>> parse_document("a: {b: 1e9, c: on}").data
    {'a': {'b': 1000000000.0, 'c': 'on'}}
    """
    composer = _Composer(path)
    try:
        data = composer.document(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else path
        raise InputError(Problem(where, "well-formed YAML", error.problem or "an error")) from None
    except yaml.YAMLError as error:
        raise InputError(Problem(path, "well-formed YAML", shown(str(error)))) from None
    except UnicodeEncodeError as error:
        raise InputError(Problem(path, "UTF-8 text", f"character {error.start} that is not")) from None
    if composer.problems:
        raise InputError(composer.problems)
    return Document(path, data, composer.marks)


class _Composer:
    """Builds plain data from parse events, with a stack of its own so that depth is bounded."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.marks: dict[Path_, tuple[int, int]] = {}
        self.problems: list[Problem] = []
        self.anchors: dict[str | None, tuple[Any, int]] = {}
        self.nodes = 0

    def document(self, text: str) -> Any:
        stack: list[_Open] = []
        result: Any = None
        documents = 0
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._stop(event, "one document", "a second one")
            elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                self._open(stack, event)
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                closed = stack.pop()
                if closed.event.anchor:
                    self.anchors[closed.event.anchor] = (closed.value, self.nodes - closed.first_node + 1)
                result = self._attach(stack, closed.value, closed.path, closed.event)
            elif isinstance(event, yaml.ScalarEvent):
                self._count(event, 1 + len(event.value) // _TEXT)
                value = self._scalar(event)
                if event.anchor:
                    self.anchors[event.anchor] = (value, 1 + len(event.value) // _TEXT)
                result = self._attach(stack, value, self._place(stack, event), event)
            elif isinstance(event, yaml.AliasEvent):
                result = self._attach(stack, self._aliased(stack, event), self._place(stack, event), event)
        return result

    def _open(self, stack: list[_Open], event: Any) -> None:
        if len(stack) >= MAX_DEPTH:
            self._stop(event, f"at most {MAX_DEPTH} levels of nesting", "more")
        if event.tag not in (None, "!"):
            self._problem(event, "plain YAML without tags", event.tag)
        self._count(event, 1)
        path = self._place(stack, event)
        stack.append(_Open({} if isinstance(event, yaml.MappingStartEvent) else [], path, event, self.nodes))

    def _aliased(self, stack: list[_Open], event: Any) -> Any:
        if event.anchor not in self.anchors:
            self._stop(event, "an anchor that was defined before", f"*{event.anchor}")
        value, size = self.anchors[event.anchor]
        self._count(event, size)
        if len(stack) + _depth(value) > MAX_DEPTH:
            self._stop(event, f"at most {MAX_DEPTH} levels of nesting", "more")
        return value

    def _place(self, stack: list[_Open], event: Any) -> Path_:
        if not stack:
            path: Path_ = ()
        else:
            top = stack[-1]
            if isinstance(top.value, list):
                path = (*top.path, len(top.value))
            elif top.key is _NO_KEY:
                return top.path
            else:
                return (*top.path, top.key)  # a value is found where its key stands
        self.marks[path] = (event.start_mark.line + 1, event.start_mark.column + 1)
        return path

    def _attach(self, stack: list[_Open], value: Any, path: Path_, event: Any) -> Any:
        if not stack:
            return value
        top = stack[-1]
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.key is _NO_KEY:
            if not isinstance(value, str):
                value = str(value)
            if value in top.value:
                self._problem(event, "each key once", f"'{value}' again")
            self.marks[(*top.path, value)] = (event.start_mark.line + 1, event.start_mark.column + 1)
            top.key = value
        else:
            top.value[top.key] = value
            top.key = _NO_KEY
        return stack[0].value

    def _scalar(self, event: Any) -> Any:
        if event.tag not in (None, "!"):
            self._problem(event, "plain YAML without tags", event.tag)
            return event.value
        if not event.implicit[0]:
            return event.value
        return scalar(event.value)

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
    """Levels of nesting in a part; 0 for a scalar."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)


_NO_KEY: Any = object()


class _Open:
    """A mapping or sequence that is being filled."""

    __slots__ = ("event", "first_node", "key", "path", "value")

    def __init__(self, value: Any, path: Path_, event: Any, first_node: int) -> None:
        self.value, self.path, self.event, self.first_node = value, path, event, first_node
        self.key: Any = _NO_KEY


def scalar(text: str) -> Any:
    """A plain scalar by YAML 1.2's core schema.

    >>> scalar("1e9"), scalar("on"), scalar("12:30"), scalar("~")
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


def find(name: str, near: Path | None, folder: str = "") -> Path | None:
    """A named file: beside the file that names it, in ./configs (or `folder`), then in the installed package.

    The name of a recorded trace's folder finds its `trace.yaml`.
    """
    package = Path(__file__).parent
    home = folder or "configs"
    places = [near] if near else []
    places += [Path(), Path(home), package / home, package.parent / home]
    for place in places:
        for suffix in ("", ".yaml", ".yml"):
            for candidate in (place / (name + suffix), place / name / TRACE_FILE):
                if os.path.isfile(candidate):  # False, not an error, for a name that no file can have
                    return candidate
    return None


def known_names(subfolder: str, folder: str = "configs") -> list[str]:
    """Names that could have been meant, for hints."""
    package = Path(__file__).parent
    names: set[str] = set()
    for root in (Path(folder), package / folder, package.parent / folder):
        for path in (root / subfolder).glob("*.yaml"):
            names.add(f"{subfolder}/{path.stem}" if subfolder else path.stem)
    return sorted(names)


def missing(name: str, where: str, subfolder: str, folder: str = "configs") -> InputError:
    """The error for a named file that is not there."""
    hint = nearest(name, known_names(subfolder, folder))
    return InputError(Problem(where, "a file beside this one, in ./configs or in the package", shown(name), hint))


def read_layers(path: Path) -> list[dict[str, Any]]:
    """Rows of a `layers.csv` (name, numel, forward_s, backward_s; others ignored) as layer mappings.

    Raises InputError that names file, row and column.
    """
    problems: list[Problem] = []
    rows: list[dict[str, Any]] = []
    try:
        if path.stat().st_size > MAX_CSV_BYTES:
            raise InputError(Problem(str(path), f"at most {MAX_CSV_BYTES} bytes", f"{path.stat().st_size} bytes"))
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            needed = ["name", "numel", "forward_s", "backward_s"]
            absent = [column for column in needed if column not in (reader.fieldnames or [])]
            if absent:
                raise InputError(Problem(f"{path}:1", f"columns {', '.join(needed)}", f"no {', '.join(absent)}"))
            for row in reader:
                if len(rows) + len(problems) >= MAX_LAYERS:
                    problems.append(Problem(f"{path}:{reader.line_num}", f"at most {MAX_LAYERS} layers", "more"))
                    break
                wrong = [column for column in needed[1:] if not _fits(column, row[column])]
                for column in wrong:
                    what = "a whole number above 0" if column == "numel" else "seconds, 0 or more"
                    problems.append(Problem(f"{path}:{reader.line_num}: {column}", what, shown(row[column])))
                if not wrong:
                    times = {key: f"{float(row[f'{key}_s'])!r} s" for key in ("forward", "backward")}
                    rows.append({"name": row["name"], "numel": int(row["numel"]), **times})
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(Problem(str(path), "a readable CSV file", shown(str(error)))) from None
    if problems:
        raise InputError(problems)
    return rows


def _fits(column: str, text: str | None) -> bool:
    try:
        return int(text or "") >= 1 if column == "numel" else 0 <= float(text or "") < float("inf")
    except ValueError:
        return False


def problems_of(error: ValidationError, document: Document) -> list[Problem]:
    """Every validation error as a problem with its place in the file."""
    return list(_flatten(error.errors(include_url=False), document, (), ()))


def _flatten(errors: Any, document: Document, prefix: Path_, shown_prefix: Path_) -> Iterator[Problem]:
    broken = {item["loc"][:cut] for item in errors for cut in range(len(item["loc"]))}
    for item in errors:
        if item["type"] == "too_short" and item["loc"] in broken:
            continue  # entries were written; the wrong ones are reported themselves
        path = (*prefix, *(part for part in item["loc"] if part not in ("affine", "n_log_n", "piecewise")))
        named = (*shown_prefix, *path[len(prefix) :])
        context = item.get("ctx") or {}
        if item["type"] == "nested":
            inner = context["marks"]
            if inner is None:
                yield from _flatten(context["errors"], document, path, named)
            else:
                yield from _flatten(context["errors"], inner, (), named)
            continue
        if item["type"] == "input_error":
            yield from context["problems"]
            continue
        yield _problem(item, document.where(path), ".".join(str(part) for part in named), context)


_EXPECTED = {
    "missing": "this key",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of fewer digits",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "tuple_type": "a list",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dict_type": "a mapping",
    "less_than_equal": "at most {le}",
    "greater_than_equal": "at least {ge}",
    "greater_than": "above {gt}",
    "less_than": "below {lt}",
    "literal_error": "one of {expected}",
    "too_short": "at least {min_length} entries",
    "too_long": "at most {max_length} entries",
}


def _problem(item: Any, place: str, name: str, context: Mapping[str, Any]) -> Problem:
    where = f"{place}: {name}" if name else place
    got = shown(item.get("input"))
    kind = item["type"]
    if kind == "expected":
        return Problem(where, context["what"], context["got"], context["hint"])
    if kind == "quantity":
        return Problem(where, context["text"], got)
    if kind == "extra_forbidden":
        return Problem(where, "a known key", f"'{item['loc'][-1]}'", context.get("hint", ""))
    if kind == "missing":
        return Problem(where, "this key", "nothing")
    expected = _EXPECTED.get(kind, item["msg"]).format(**context)
    return Problem(where, expected, got)
