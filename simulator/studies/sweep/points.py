"""The points of a sweep: scenarios, what is wanted of each, rows and columns, and the plan that merges equal ones."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, StrictBool, TypeAdapter, ValidationError, ValidationInfo, field_validator
from pydantic.json_schema import JsonSchemaValue

from simulator.component import Component, Spec, expected
from simulator.errors import InputError, Problem
from simulator.loading.documents import Document, problems_of
from simulator.prediction.doubts.spread import Spread
from simulator.prediction.doubts.verdict import judge
from simulator.prediction.run import Prediction
from simulator.prediction.simulated import try_each
from simulator.records import Struct, field
from simulator.scenario.changes import with_value
from simulator.scenario.conditions import number_of
from simulator.scenario.reading import bind_measurement
from simulator.scenario.scenario import Scenario
from simulator.sparsifiers.dense import Dense
from simulator.studies.storage.journal import PointOutcome, failed, succeeded
from simulator.studies.storage.row_table import row_of
from simulator.studies.sweep.grid import GridFile, SweepGrid, read_grid
from simulator.studies.sweep.parts import Parts, PointDocument
from simulator.studies.variants.crossing import Intervals, evaluate
from simulator.units import COLUMN_SUFFIXES

_FROM_INTERVALS = ("iteration_time_interval_s", "intervals_s", "calibration")
"""Columns, with those below them, that say nothing where no intervals were made."""
_REMEMBERED = 256


class SweepFile(GridFile):
    """A scenario and the keys that are varied; of each point it has `intervals`, and `verdicts`."""

    model_config = ConfigDict(title="Sweep")
    intervals: Intervals = Field(
        "first_order",
        description="90 % intervals: to first order, by simulating both ends of each input, or none.",
    )
    verdicts: StrictBool = Field(False, description="Whether each point is compared with dense, all else the same.")

    @field_validator("verdicts")
    @classmethod
    def _need_intervals(cls, verdicts: bool, info: ValidationInfo) -> bool:
        if verdicts and info.data.get("intervals") == "none":
            raise expected("first_order or full as `intervals` where there are verdicts", "none")
        return verdicts


def sweep_schema() -> JsonSchemaValue:
    """The schema of a sweep file: its base is a scenario or the name of one, and may leave out what is varied.

    The keys of a scenario are looked up in scenario.json in the same folder.
    """
    scenario = TypeAdapter(Scenario).json_schema()
    base = _partial("scenario.json#", scenario)
    base["properties"]["cluster"] = _partial("scenario.json#/$defs/Cluster", scenario["$defs"]["Cluster"])
    described = "The scenario that every point starts from, or its name."
    return SweepFile.schema_with({"description": described, "anyOf": [{"type": "string"}, base]})


def _partial(place: str, schema: JsonSchemaValue) -> JsonSchemaValue:
    """A mapping with the same keys, none of them required, since keys that are varied are missing from it."""
    properties: JsonSchemaValue = {name: {"$ref": f"{place}/properties/{name}"} for name in schema["properties"]}
    for name in schema["required"]:
        properties[name] = {"anyOf": [properties[name], {"type": "object"}]}
    return {"type": "object", "properties": properties, "additionalProperties": False}


Quantity = tuple[Any, str]
"""A number in SI and its unit."""


def quantity_at(scenario: Scenario, parts: tuple[str, ...]) -> Quantity | None:
    """The number at a key of a scenario, in SI, and its unit; None where the value is no number."""
    parent: Any = scenario
    for name in parts[:-1]:
        parent = parent[int(name)] if isinstance(parent, tuple) and name.isdecimal() else getattr(parent, name, None)
    value = getattr(parent, parts[-1], None) if isinstance(parent, Spec) else None
    if not isinstance(value, int | float) or isinstance(value, bool) or parts[-1] not in type(parent).model_fields:
        return None
    written = parent.model_dump(mode="json", include={parts[-1]})[parts[-1]]
    return value, written.rpartition(" ")[2] if isinstance(written, str) else ""


def _cell(value: Any) -> Any:
    """A varied value in a table: plain values as they are, mappings and lists as JSON.

    >>> _cell("topk"), _cell({"kind": "topk", "density": 0.01})
    ('topk', '{"kind": "topk", "density": 0.01}')
    """
    if isinstance(value, Spec):
        value = value.described("json") if isinstance(value, Component) else value.model_dump(mode="json")
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, Mapping | list | tuple) else value


def _dense_of(scenario: Scenario) -> Scenario:
    """Dense with all else the same."""
    return with_value(with_value(scenario, "workload.gradients", ""), "sparsifier", Dense())


_NETWORK = ("cluster.network.", "topology.", "fidelity.")


class GridPoints:
    """The scenarios of a grid, by number, and what is computed of each.

    A row is stored under the digest of its scenario with the `suffix` of what the sweep wants beyond a prediction.
    `strict`: numbers need their units, as they do in files. Can be pickled: another process then needs no files except
    traces.
    """

    def __init__(self, document: Document, near: Path, strict: bool) -> None:
        self.document = document
        self.grid: SweepGrid = read_grid(document, near, SweepFile)
        self.axes = self.grid.axes
        self.parts = Parts(document, near, self.axes, strict)
        self.quantities: dict[tuple[int, int], Quantity] = {}
        self.intervals: Intervals = document.data.get("intervals", "first_order")
        self.verdicts: bool = document.data.get("verdicts", False)
        wanted = [self.intervals] * (self.intervals != "first_order") + ["verdicts"] * self.verdicts
        self.suffix = "".join(f"+{part}" for part in wanted)
        self.dense: dict[str, Spread | None] = {}

    @property
    def name(self) -> str:
        """The name of the sweep: its own, or that of its base (or the base's file) with the keys that vary."""
        own = Path(self.parts.base_document.path).stem if isinstance(self.document.data["base"], str) else ""
        base, keys = self.parts.base.get("name") or own, ", ".join(axis.key for axis in self.axes)
        return str(self.document.data.get("name") or (f"{base}, by {keys}" if base else "sweep"))

    def choice_of_work(self, number: int) -> tuple[int, ...]:
        """What a point chooses on all axes but those of the network: points that choose the same are priced once."""
        pairs = zip(self.axes, self.grid.choice(number), strict=True)
        return tuple([chosen for axis, chosen in pairs if not f"{axis.key}.".startswith(_NETWORK)])

    def scenario(self, number: int) -> Scenario:
        """The validated scenario of a point. Raises InputError with every problem found."""
        choice = self.grid.choice(number)
        data = self.parts.of(choice)
        try:
            scenario = Scenario.model_validate(data, context=self.parts.context)
        except ValidationError as error:
            document = PointDocument(self.document.path, data, {}, parts=self.parts, choice=choice)
            raise InputError(problems_of(error, document)) from None
        for place, chosen in enumerate(choice):
            if (place, chosen) not in self.quantities and place in self.parts.applied:
                quantity = quantity_at(scenario, self.axes[place].parts)
                if quantity is not None:
                    self.quantities[place, chosen] = quantity
        return bind_measurement(scenario)

    def evaluate(self, numbers: Sequence[int]) -> list[PointOutcome]:
        """Predict points together; an exception becomes the outcome's error."""
        scenarios = [self.scenario(number) for number in numbers]
        digests = [scenario.digest + self.suffix for scenario in scenarios]
        try:
            rows = self._rows(scenarios)
        except Exception as error:  # one failing point must not stop the sweep, nor take others with it
            if len(numbers) > 1:
                half = len(numbers) // 2
                return [*self.evaluate(numbers[:half]), *self.evaluate(numbers[half:])]
            return [failed(digests[0], f"{type(error).__name__}: {error}")]
        pairs = zip(digests, rows, strict=True)
        return [failed(i, one_line(row)) if isinstance(row, InputError) else succeeded(i, row) for i, row in pairs]

    def _rows(self, scenarios: Sequence[Scenario]) -> list[dict[str, Any] | InputError]:
        """The row of each point, or why the parts of its scenario cannot work together."""
        if not self.verdicts:
            return try_each(evaluate(scenarios, self.intervals), self._row)
        # Verdicts need inputs whose effect is not known to first order, such as the network behind hidden exchanges.
        methods = [scenario for scenario in scenarios if not isinstance(scenario.sparsifier, Dense)]
        wanted = {dense.digest: dense for dense in map(_dense_of, methods)}  # which several methods share
        if len(self.dense) + len(wanted) > _REMEMBERED:
            self.dense = {digest: spread for digest, spread in self.dense.items() if digest in wanted}
        new = {digest: dense for digest, dense in wanted.items() if digest not in self.dense}
        for digest, made in zip(new, evaluate([*new.values()], "full"), strict=True):
            self.dense[digest] = None if isinstance(made, InputError) else made.lasting
        return try_each(evaluate(scenarios, "full"), self._row)

    def _row(self, made: Prediction) -> dict[str, Any]:
        """A prediction as a row, with its verdict against dense; none for dense itself, and where dense cannot run."""
        row, method = row_of(made.result_without_lists), made.scenario
        if self.intervals == "none":
            return {name: value for name, value in row.items() if name.partition(".")[0] not in _FROM_INTERVALS}
        if not self.verdicts or isinstance(method.sparsifier, Dense):
            return row
        dense = self.dense[_dense_of(method).digest]
        verdict = None if dense is None else judge(made.lasting, dense)
        if verdict is not None and math.isinf(verdict.log):  # one of both never ends
            row["verdict"] = verdict.word
        elif verdict is not None:
            low, high = verdict.interval()
            row |= {"speed_up": verdict.value, "speed_up_interval.p5": low, "speed_up_interval.p95": high}
            row |= {"probability": verdict.probability(), "verdict": verdict.word}
        return row

    def column(self, place: int) -> tuple[str, list[Any]]:
        """The name of an axis as a column, with its unit, and its values there.

        Quantities are numbers in SI, names stay as they are, mappings are JSON.
        """
        axis = self.axes[place]
        known = [self.quantities.get((place, chosen)) for chosen in range(len(axis.values))]
        if not any(known):
            return axis.key, [_cell(value) for value in axis.values]
        unit = next((item[1] for item in known if item and item[1]), "")
        numbers = [number_of(value) for value in axis.values]
        values = [item[0] if item else number and number[0] for item, number in zip(known, numbers, strict=True)]
        return axis.key + COLUMN_SUFFIXES.get(unit, ""), values


def one_line(error: InputError) -> str:
    """Every problem of an error, on one line."""
    return "; ".join(str(problem) for problem in error.problems)


_PLACE = re.compile(r"(.*?):(\d+):(\d+)")
Shard = tuple[int, int]
"""The i-th of n parts, i from 1."""


class SweepPlan(Struct):
    """Rows in order, the digests that they are stored under, errors of points that cannot be built, and groups of
    distinct points.
    """

    rows: list[int] = field(default_factory=list)
    digests: dict[int, str] = field(default_factory=dict)
    broken: dict[int, str] = field(default_factory=dict)
    groups: list[list[int]] = field(default_factory=list)


def plan_sweep(points: GridPoints, shard: Shard | None) -> SweepPlan:
    """Build and identify every point. Raises InputError for a value that is wrong in every point that has it."""
    plan, errors = SweepPlan(points.grid.numbers()), dict[int, InputError]()
    first: dict[str, int] = {}
    for number in plan.rows:
        try:
            plan.digests[number] = points.scenario(number).digest + points.suffix
            first.setdefault(plan.digests[number], number)
        except InputError as error:
            errors[number] = error
    _refuse_bad_values(points, plan, errors)
    plan.broken = {number: one_line(error) for number, error in errors.items()}
    in_order = sorted(first.values(), key=points.choice_of_work)
    plan.groups = [list(group) for _, group in groupby(in_order, points.choice_of_work)]
    if shard is not None:  # whole groups, and every n-th of the points that cannot be built
        part, parts = shard
        plan.groups = plan.groups[part - 1 :: parts]
        kept = {plan.digests[number] for group in plan.groups for number in group}
        plan.broken = dict([*plan.broken.items()][part - 1 :: parts])
        plan.rows = [n for n in plan.rows if n in plan.broken or plan.digests.get(n) in kept]
    return plan


def _refuse_bad_values(points: GridPoints, plan: SweepPlan, errors: Mapping[int, InputError]) -> None:
    """Raise the problems of values that no point can be built with; other points that fail become rows."""
    good = {item for number in plan.digests for item in enumerate(points.grid.choice(number))}
    unknown = (problem for place, problem in points.parts.foreign.items() if place not in points.parts.applied)
    problems = {str(problem): problem for problem in unknown}
    for number, error in errors.items():
        if any(item not in good for item in enumerate(points.grid.choice(number))):
            problems |= {str(problem): problem for problem in error.problems}
    if problems:
        raise InputError(sorted(problems.values(), key=_place))


def _place(problem: Problem) -> tuple[str, int, int]:
    found = _PLACE.match(problem.where)
    return (found[1], int(found[2]), int(found[3])) if found else (problem.where, 0, 0)
