"""The points of a sweep: the scenario of each, its prediction, and its place in the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from simulator.errors import InputError
from simulator.loading.documents import Document, KeyPath, problems_of
from simulator.scenario.scenario import Scenario
from simulator.studies.processes.executors import PointOutcome
from simulator.studies.storage.journal_records import error_record, row_record
from simulator.studies.sweep.columns import Quantity, describe, quantity_at
from simulator.studies.sweep.grid import SweepGrid, read_grid
from simulator.studies.sweep.parts import Parts
from simulator.studies.sweep.wanted import read_wanted

_KEPT = 20_000
_NETWORK = ("cluster.network", "topology", "fidelity")


class _PointDocument(Document, kw_only=True):
    """A scenario whose varied keys are written in the sweep file and the others in the base."""

    lookup: Callable[[KeyPath], str]

    def where(self, path: KeyPath) -> str:
        """`file:line:column` of a key."""
        return self.lookup(path)


class GridPoints:
    """The scenarios of a grid, by number.

    `strict`: numbers need their units, as they do in files. Can be pickled: another process then needs no files except
    traces.
    """

    def __init__(self, document: Document, near: Path, strict: bool) -> None:
        self.document = document
        self.grid: SweepGrid = read_grid(document, near)
        self.wanted = read_wanted(document)
        self.axes = self.grid.axes
        self.places_of_work = [
            place
            for place, axis in enumerate(self.axes)
            if not any(f"{axis.key}.".startswith(f"{key}.") for key in _NETWORK)
        ]
        self.parts = Parts(document, near, self.axes, strict)
        self.quantities: dict[tuple[int, int], Quantity] = {}
        self.scenarios: dict[int, Scenario] = {}

    @property
    def name(self) -> str:
        """The name of the sweep: its own, or that of its base (or the base's file) with the keys that vary."""
        own = Path(self.parts.base_document.path).stem if not self.parts.inside else ""
        base, keys = self.parts.base.get("name") or own, ", ".join(axis.key for axis in self.axes)
        return str(self.document.data.get("name") or (f"{base}, by {keys}" if base else "sweep"))

    def scenario(self, number: int) -> Scenario:
        """The validated scenario of a point. Raises InputError with every problem found.

        Up to `_KEPT` scenarios are made once: those that were planned are then evaluated, also by copies of this
        process.
        """
        if number not in self.scenarios:
            made = self._scenario(number)
            if len(self.scenarios) >= _KEPT:
                return made
            self.scenarios[number] = made
        return self.scenarios[number]

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs: it makes the scenarios of its own points itself."""
        return self.__dict__ | {"scenarios": {}}

    def _scenario(self, number: int) -> Scenario:
        choice = self.grid.choice(number)
        data = self.parts.of(choice)
        try:
            scenario = Scenario.model_validate(data, context=self.parts.context)
        except ValidationError as error:
            document = _PointDocument(self.document.path, data, {}, lookup=lambda path: self.parts.where(path, choice))
            raise InputError(problems_of(error, document)) from None
        for place, chosen in enumerate(choice):
            if (place, chosen) not in self.quantities and place in self.parts.applied:
                quantity = quantity_at(scenario, self.axes[place].parts)
                if quantity is not None:
                    self.quantities[place, chosen] = quantity
        return scenario

    def evaluate(self, numbers: Sequence[int]) -> list[PointOutcome]:
        """Predict points together; an exception becomes the outcome's error."""
        scenarios = [self.scenario(number) for number in numbers]
        try:
            rows = self.wanted.rows(scenarios)
        except Exception as error:  # one failing point must not stop the sweep, nor take others with it
            if len(numbers) > 1:
                half = len(numbers) // 2
                return [*self.evaluate(numbers[:half]), *self.evaluate(numbers[half:])]
            return [self.failure(numbers[0], f"{type(error).__name__}: {error}")]
        return [
            self.failure(number, one_line(row))
            if isinstance(row, InputError)
            else _outcome(number, self.identity(scenario), row=row)
            for number, scenario, row in zip(numbers, scenarios, rows, strict=True)
        ]

    def failure(self, number: int, message: str) -> PointOutcome:
        """The outcome of a point that could not be evaluated."""
        return _outcome(number, self.identity(self.scenario(number)), error=message)

    def identity(self, scenario: Scenario) -> str:
        """What the row of a scenario is stored under: its digest, and what this sweep wants beyond a prediction."""
        return scenario.digest + self.wanted.suffix

    def neighbourhood(self, number: int) -> tuple[int, ...]:
        """Equal for points that differ only in network and topology, whose work is priced once."""
        choice = self.grid.choice(number)
        return tuple([choice[place] for place in self.places_of_work])

    def column(self, place: int) -> tuple[str, list[Any]]:
        """The name of an axis as a column, and its values there."""
        axis = self.axes[place]
        return describe(axis, [self.quantities.get((place, chosen)) for chosen in range(len(axis.values))])


def one_line(error: InputError) -> str:
    """Every problem of an error, on one line."""
    return "; ".join(str(problem) for problem in error.problems)


def _outcome(
    number: int, digest: str, *, row: Mapping[str, Any] | None = None, error: str | None = None
) -> PointOutcome:
    body = error_record(digest, error) if row is None else row_record(digest, row)
    return PointOutcome(number, digest, body, error)
