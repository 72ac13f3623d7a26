"""The grid of a sweep: which keys vary, over which values, and which points are left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue

from simulator.component import Spec, expected
from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.loading.documents import Document, KeyPath, validate_document
from simulator.loading.replacing import plain_value_at
from simulator.records import Record
from simulator.scenario.conditions import matches, number_of
from simulator.units import DIMENSIONS

MAX_POINTS = 250_000
MAX_VALUES = 2 * MAX_POINTS
_MOST = 1e30


def _unless(valid: Callable[[Any], Any], what: str) -> AfterValidator:
    """A validator that refuses what is not valid, where `what` is expected."""

    def check(value: Any) -> Any:
        if not valid(value):
            raise expected(what, format_value(value))
        return value

    return AfterValidator(check)


Key = Annotated[str, _unless(lambda key: all(key.split(".")), "a dotted key such as cluster.nodes")]
Quantity = Annotated[
    Any,
    _unless(number_of, "a number or a quantity with its unit"),
    WithJsonSchema({"type": ["number", "string"]}),
]


class ComparedValue(Spec):
    """How values that are skipped compare: `above`, `at_least`, `below` or `at_most` a number; or not `other`."""

    above: Quantity = None
    at_least: Quantity = None
    below: Quantity = None
    at_most: Quantity = None
    other: Any = Field(default=None, alias="not")


class Range(Spec):
    """A range of `points` values that includes both ends, `first` and `last`, in even steps on a `scale`."""

    first: Quantity = Field(alias="from")
    last: Quantity = Field(alias="to")
    scale: Literal["linear", "log"] = "linear"
    points: int = Field(ge=2, le=MAX_POINTS, strict=True)

    @cached_property
    def ends(self) -> list[tuple[float, str]]:
        """Both ends in SI, each with its dimension."""
        return [number_of(end) or (0.0, "") for end in (self.first, self.last)]

    def refuse_unfit(self) -> None:
        """Both have units of one kind, and the steps between them are finite."""
        got, log, least = f"{self.first} and {self.last}", self.scale == "log", min(self.ends)[0]
        if len({dimension for value, dimension in self.ends if value or dimension}) > 1:
            raise expected("both ends in units of one kind", got)
        if log and least <= 0:
            raise expected("both ends above 0, for a log scale", got)
        if max(abs(end) for end, _ in self.ends) > _MOST or (log and least < 1 / _MOST):
            raise expected(f"ends from {1 / _MOST:g} to {_MOST:g}", got)

    def values(self) -> list[Any]:
        """To 12 digits; whole numbers where both ends and the value are whole; with the unit of the ends."""
        (first, _), (last, _) = self.ends
        steps = [place / (self.points - 1) for place in range(self.points)]
        log = self.scale == "log"
        made = [first * (last / first) ** step if log else first + (last - first) * step for step in steps]
        made = [first, *(float(f"{value:.12g}") for value in made[1:-1]), last]
        unit = next((DIMENSIONS[dimension].si for _, dimension in self.ends if dimension), "")
        if unit:
            return [f"{value!r} {unit}" for value in made]
        whole = isinstance(self.first, int) and isinstance(self.last, int)
        return [int(value) if whole and value == int(value) else value for value in made]


def _read_values(given: Any) -> list[Any] | Range:
    if isinstance(given, dict) and ("from" in given or "to" in given):
        return Range.model_validate(given)
    if isinstance(given, list | tuple) and given:
        return list(given)
    raise expected("a list of values, or {from, to, scale, points}", format_value(given))


def _check_condition(condition: Any) -> Any:
    if isinstance(condition, dict) and "kind" not in condition:  # a member of a family is a value, others are not
        ComparedValue.model_validate(condition)
    return condition


_Listed = Annotated[list[Any], Field(min_length=1)] | Range
Values = Annotated[list[Any] | Range, PlainValidator(_read_values, json_schema_input_type=_Listed)]
Axes = Annotated[dict[Key, Values], Field(json_schema_extra={"minProperties": 1})]
Conditions = Annotated[dict[str, Annotated[Any, AfterValidator(_check_condition)]], Field(min_length=1)]


class GridFile(Spec):
    """A `base` and the keys that are varied: by `vary`, `zip` and `skip`; its `name` and its `question`."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["vary"]}, {"required": ["zip"]}]})
    name: Any = Field("", json_schema_extra={"type": "string"})
    question: Any = Field("", json_schema_extra={"type": "string"})
    base: Any
    vary: Axes = Field({}, description="Every combination of these values is a point.")
    zip: list[Axes] = Field([], description="Lists of one length whose values are taken together.")
    skip: list[Conditions] = Field(
        [],
        description="A point is left out where it meets all conditions of an entry: values, lists, comparisons.",
    )

    @classmethod
    def schema_with(cls, base: JsonSchemaValue) -> JsonSchemaValue:
        """The JSON Schema of such a file, whose base has this one."""
        schema = cls.model_json_schema()
        schema["properties"]["base"] = base
        return schema


class Axis(Record):
    """One varied key: its values as they are written, its place in the sweep file, and the dimension that it is in."""

    key: str
    values: tuple[Any, ...]
    place: KeyPath
    dimension: int

    @property
    def parts(self) -> tuple[str, ...]:
        """The key, split at its dots."""
        return tuple(self.key.split("."))


class SweepGrid(Record):
    """All combinations of the entries of the dimensions; a dimension is a varied key or a group of keys under `zip`.

    `axes`: all varied keys in the order they are written; `shape`: entries of each dimension. Points are numbered from
    0, the last dimension changes fastest; `left_out` (size,) marks the skipped ones.
    """

    axes: tuple[Axis, ...]
    shape: tuple[int, ...]
    left_out: np.ndarray

    def numbers(self) -> list[int]:
        """The points that are not skipped, in order."""
        return [int(number) for number in np.flatnonzero(~self.left_out)]

    def choice(self, number: int) -> tuple[int, ...]:
        """Which of its values each axis takes at a point."""
        entries = np.unravel_index(number, self.shape)
        return tuple([int(entries[axis.dimension]) for axis in self.axes])


def read_grid(document: Document, near: Path, kind: type[GridFile] = GridFile) -> SweepGrid:
    """The grid of a file of this kind. Raises InputError with every problem found, each with its place."""
    file = validate_document(kind.model_validate, document, near)
    axes, shape = _read_axes(file, document)
    return SweepGrid(axes, shape, _left_out(file.skip, axes, shape, document, near))


def _read_axes(file: GridFile, document: Document) -> tuple[tuple[Axis, ...], tuple[int, ...]]:
    """The axes, and the entries of each dimension. Raises InputError where they do not go together or are too many."""
    groups: list[tuple[KeyPath, dict[str, Values]]] = [(("vary",), {key: given}) for key, given in file.vary.items()]
    groups += [(("zip", number), group) for number, group in enumerate(file.zip) if group]
    where, problems = document.describe_place(("vary",)), list[Problem]()
    axes, shape = list[Axis](), list[int]()
    in_ranges = sum(given.points for _, group in groups for given in group.values() if isinstance(given, Range))
    if in_ranges > MAX_VALUES:
        raise InputError(Problem(where, f"at most {MAX_VALUES:,} values of all ranges together", f"{in_ranges:,}"))
    for path, group in groups:
        for key in (key for key in group if any(axis.key == key for axis in axes)):
            problems.append(Problem(document.describe_place((*path, key)), "each key once", f"'{key}' again"))
        lists = {key: tuple(given.values() if isinstance(given, Range) else given) for key, given in group.items()}
        if len({len(values) for values in lists.values()}) > 1:
            counts = ", ".join(f"{key} {len(values)}" for key, values in lists.items())
            problems.append(Problem(document.describe_place(path), "lists of one length", counts))
        axes += [Axis(key, values, (*path, key), len(shape)) for key, values in lists.items()]
        shape.append(len(axes[-1].values))
    if not shape:
        problems.append(Problem(where, "keys to `vary` or to `zip`", "none"))
    if math.prod(shape) > MAX_POINTS:
        hint = "sweep one part after the other"
        problems.append(Problem(where, f"at most {MAX_POINTS:,} points", f"{math.prod(shape):,}", hint))
    if problems:
        raise InputError(problems)
    return tuple(axes), tuple(shape)


def _left_out(
    skip: Sequence[Mapping[str, Any]], axes: Sequence[Axis], shape: tuple[int, ...], document: Document, near: Path
) -> np.ndarray:
    """Which points (size,) match every condition of one of the entries. Raises InputError where none is left."""
    left_out, problems = np.zeros(shape, dtype=bool), list[Problem]()
    by_key = {axis.key: axis for axis in axes}
    for number, entry in enumerate(skip):
        match = np.ones(shape, dtype=bool)
        for key, condition in entry.items():
            within = [name for name in by_key if f"{key}.".startswith(f"{name}.")]
            if not within:
                where, what = document.describe_place(("skip", number, key)), "a key that varies, or a part of it"
                problems.append(Problem(where, what, f"'{key}'", suggest_nearest(key, by_key)))
                continue
            axis = by_key[max(within, key=len)]
            rest = key[len(axis.key) + 1 :]
            met = [matches(plain_value_at(value, rest, near), condition) for value in axis.values]
            match &= np.array(met).reshape([-1 if each == axis.dimension else 1 for each in range(match.ndim)])
        left_out |= match
    if not problems and left_out.all():
        problems.append(Problem(document.describe_place(("skip",)), "at least one point that is not skipped", "none"))
    if problems:
        raise InputError(problems)
    return left_out.ravel()
