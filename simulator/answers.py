"""Answers: records whose fields say their unit and meaning. JSON, its schema and the reference follow from the type.

`says` describes a field. Types are looked up only where they are asked for: a program that answers and prints reads
none of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from operator import methodcaller
from typing import Any, NamedTuple, TypeVar

from msgspec import Meta, ValidationError, convert, to_builtins

from simulator.errors import InputError, Problem, format_value
from simulator.records import Record

Interval = tuple[float, float]
Kind = TypeVar("Kind")


class Answer(Record, omit_defaults=True):
    """What a command answers. A key that only some answers have is a field whose default is None.

    A field that may be null in JSON has no default; with `omit_defaults=False` every key is written. `UNSET` leaves out
    a key that may be null elsewhere. Keys of JSON stand in the order of the fields.
    """

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain mappings and lists, as `--json` prints it."""
        return to_document(self)


class AnswerKey(NamedTuple):
    """One key of an answer: its unit as a person writes it (empty: a bare number or text), what it is, and its dotted
    name in Python."""

    unit: str
    what: str
    python: str = ""


def says(what: str, unit: str = "", keys: Mapping[str, str] | None = None) -> Meta:
    """What a field is, for its annotation; the unit 1 means a ratio. `keys`: of a mapping, its keys and their meanings.

    >>> from typing import Annotated
    >>> Seconds = Annotated[float, says("time of one iteration", "s")]
    """
    schema: dict[str, Any] = {"unit": unit} if unit else {}
    if keys is not None:
        schema["properties"] = {name: {"description": text, **schema} for name, text in keys.items()}
    return Meta(description=what, extra={"what": what, "unit": unit, "keys": keys}, extra_json_schema=schema)


def in_json(time: Sequence[str] = (), size: Sequence[str] = (), **others: str) -> dict[str, str]:
    """How JSON calls fields, for the `rename` of a class: those that are seconds with `_s` at their end, those that are
    bytes with `_bytes`, and others as stated.

    >>> in_json(time=["saving"], size=["total"], name="scenario")
    {'saving': 'saving_s', 'total': 'total_bytes', 'name': 'scenario'}
    """
    ends = {name: f"{name}_s" for name in time} | {name: f"{name}_bytes" for name in size}
    return ends | others


def plain(answer: Any) -> Any:
    """The answer, or a mapping or list of answers, as plain values; pairs stay tuples."""
    return to_builtins(answer, str_keys=True, enc_hook=methodcaller("item"))  # of numpy


def to_document(answer: Any) -> dict[str, Any]:
    """A copy of an answer as it is in JSON, where there are lists only."""
    made: dict[str, Any] = json.loads(json.dumps(plain(answer)))
    return made


@cache
def keys_of(kind: type[Answer]) -> dict[str, AnswerKey]:
    """Every key of an answer with its unit and meaning, by its dotted name; `[]` stands for every entry of a list."""
    from msgspec.inspect import type_info

    return dict(_keys(type_info(kind), "", "", {}))


def _keys(about: Any, name: str, python: str, said: Mapping[str, Any]) -> Iterator[tuple[str, AnswerKey]]:
    from msgspec import inspect as types

    if isinstance(about, types.Metadata):
        yield from _keys(about.type, name, python, about.extra or said)
    elif inner := [
        each for each in getattr(about, "types", ()) if isinstance(each, types.StructType | types.ListType)
    ]:  # a union: an answer or a list, or null
        for each in inner:
            yield from _keys(each, name, python, said)
    elif isinstance(about, types.StructType):
        for item in about.fields:
            yield from _keys(item.type, _below(name, item.encode_name), _below(python, item.name), {})
    elif isinstance(about, types.ListType | types.VarTupleType) and isinstance(about.item_type, types.StructType):
        yield from _keys(about.item_type, f"{name}[]", f"{python}[]", {})
    elif said.get("keys") is not None:
        for key, what in said["keys"].items():
            yield f"{name}.{key}", AnswerKey(said["unit"], what, f"{python}[{key}]")
    else:
        yield name, AnswerKey(said["unit"], said["what"], python)


def _below(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def schema_of(kind: type[Answer]) -> dict[str, Any]:
    """The JSON Schema of an answer; `unit` stands beside each type."""
    from inspect import cleandoc

    from msgspec.json import schema

    made = schema(kind)
    for item in made["$defs"].values():
        if "description" in item:  # msgspec keeps the indents of docstrings before 0.23
            item["description"] = cleandoc(item["description"])
    return made


_REFUSED = re.compile(r"^(?:Expected (.*?)(?:, got (.*?))?|(.*?))(?: - at `(?:key in )?\$\.?(.*)`)?$", re.DOTALL)
"""What msgspec says of data: what is expected, what it got, or something else; and where."""
_WORDS = {
    "float": "a number",
    "int": "a whole number",
    "str": "a text",
    "array": "a list",
    "object": "a mapping",
    "bool": "true or false",
}


def read_answer(data: Any, kind: type[Kind], place: str) -> Kind:
    """An answer from JSON, where `place` says what was read. Keys that it does not know are left out.

    Raises InputError that names the first key that is missing, or is not of its type.
    """
    try:
        return convert(data, kind, str_keys=True)
    except ValidationError as error:
        ((expected, got, other, at),) = _REFUSED.findall(str(error))
    where = f"{place}: {at}" if at else place
    if expected:
        words = expected.replace("`", "").replace(" | ", " or ")
        words = re.sub(r"\w+", lambda word: _WORDS.get(word[0], word[0]), words)
        raise InputError(Problem(where, words, format_value(got.replace("`", ""))))
    absent = re.search(r"missing required field (`.*?`)", other)
    raise InputError(Problem(where, f"a key {absent[1]}", "none") if absent else Problem(where, "a result", other))
