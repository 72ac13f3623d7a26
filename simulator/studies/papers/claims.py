"""Figures that are computed from the rows of a part, and whether they are inside of what the paper states."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.loading.replacing import plain_value_at
from simulator.records import Record
from simulator.reporting.wording.blocks import Table, columns, method_name
from simulator.reporting.wording.traces import NOT_SETTLED
from simulator.reporting.wording.values import KINDS
from simulator.scenario.conditions import COMPARE, matches
from simulator.studies.papers.document import NOT_STATED, ComputedFigure, Paper, Statement
from simulator.units import COLUMN_SUFFIXES


def value_of(
    found: ComputedFigure, rows: pd.DataFrame, where: str, kernel: Mapping[str, Any] | None = None
) -> float | str:
    """A figure from the rows of a part; text where `show` is `text`.

    `show: text` lists the different values. `kernel`: conditions that rows meet as well. Raises InputError, whose
    place is `where`, for an unknown column, where no row is left, and where the result is no number.
    """
    near = {**found.where, **(kernel or {})}
    own = _reduced(found, _chosen(rows, near, where), where)
    if found.over is None or isinstance(own, str):
        return own
    other = _reduced(found, _chosen(rows, {**near, **found.over}, where), where)
    if isinstance(other, str) or not other or not math.isfinite(own / other):
        raise InputError(Problem(where, "a number above 0 to divide by", format_value(other)))
    return own / other


def _chosen(rows: pd.DataFrame, conditions: Mapping[str, Any], where: str) -> pd.DataFrame:
    met, values = [True] * len(rows), {name: _values(rows, name, where, compared=True) for name in conditions}
    for name, condition in conditions.items():
        met = [so_far and matches(value, condition) for so_far, value in zip(met, values[name], strict=True)]
    if not any(met):
        known = ", ".join(f"{name} {format_value(_known(each))}" for name, each in values.items())
        raise InputError(Problem(where, "rows that meet the conditions", format_value(dict(conditions)), known))
    return rows.loc[met]


def _known(values: list[Any]) -> list[Any]:
    """The first different values, for a message."""
    return [value for place, value in enumerate(values) if value not in values[:place]][:12]


def _values(rows: pd.DataFrame, name: str, where: str, compared: bool = False) -> list[Any]:
    """The values of a column by its name, which may be without its unit, or by a key of the mappings in a column.

    `compared`: quantities carry their unit, as those do that they are compared with.
    """
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        for unit, suffix in {"": "", **COLUMN_SUFFIXES}.items():
            column = ".".join(parts[:cut]) + suffix
            if column in rows:
                values = [plain_value_at(_plain(value), ".".join(parts[cut:]), Path()) for value in rows[column]]
                return [f"{value!r} {unit}" if unit and compared else value for value in values]
    raise InputError(Problem(where, "a column of the rows", repr(name), suggest_nearest(name, map(str, rows.columns))))


def _plain(value: Any) -> Any:
    """A cell as plain data: mappings are JSON in a table."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value.item() if hasattr(value, "item") else value


def has_settled(found: ComputedFigure, rows: pd.DataFrame, where: str, kernel: Mapping[str, Any] | None = None) -> bool:
    """Whether no row that a figure is taken from, or is compared with, is of a replay that has not settled."""
    near = {**found.where, **(kernel or {})}
    both = (near, {**near, **(found.over or {})})
    return "unsettled" not in rows or not any(_chosen(rows, each, where)["unsettled"].any() for each in both)


def _reduced(found: ComputedFigure, rows: pd.DataFrame, where: str) -> float | str:
    if found.lowest:
        numbers = _numbers(_values(rows, found.lowest, where))
        if not numbers.notna().any():
            raise InputError(Problem(where, f"numbers in the column {found.lowest}", "none"))
        rows = rows.iloc[[int(numbers.argmin())]]
    values = _values(rows, found.column, where)
    if found.show == "text":
        return ", ".join(
            method_name(json.dumps(each)) if isinstance(each, dict) else str(each) for each in _known(values)
        )
    numbers = _numbers(values)
    if found.per:
        numbers = numbers / _numbers(_values(rows, found.per, where))
    kept = numbers[numbers.abs() < math.inf]
    if kept.empty:
        raise InputError(Problem(where, f"numbers in the column {found.column}", format_value(_known(values))))
    place = {"first": 0, "last": -1}.get(found.take)
    return float(getattr(kept, found.take)() if place is None else kept.iloc[place])


def _numbers(values: list[Any]) -> pd.Series[float]:
    """The values that are numbers; NaN stands for the others."""
    known = (isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return pd.Series([value if number else math.nan for value, number in zip(values, known, strict=True)], dtype=float)


NEAR = 0.01
"""How far a figure may lie from a number that is stated, as a share of it."""
_WORDS = {"above": "above", "at_least": "at least", "below": "below", "at_most": "at most", "equal": ""}


class Finding(Record):
    """The figures of a statement on one kernel of the selection, or on the one that there is (`kernel` empty).

    `settled`: whether all replays that they are taken from have.
    """

    kernel: str
    values: tuple[tuple[ComputedFigure, float | str], ...]
    settled: bool = True

    @property
    def ours(self) -> float | str:
        """The figure that is compared with the stated value."""
        return self.values[0][1]


class Claim(Record):
    """What a paper states, and what is found on each kernel; nothing by a part that could not be run, or `failed`."""

    statement: Statement
    findings: tuple[Finding, ...]
    failed: bool = False

    @property
    def absent(self) -> str:
        """What stands in the place of findings where there are none."""
        return "failed" if self.failed else "not run"

    def inside(self, finding: Finding) -> bool | None:
        """Whether the figure is inside of what is stated; None where no figure is stated."""
        ours, bounds = finding.ours, self._bounds
        if isinstance(ours, str) or not bounds:
            return None
        return all(
            abs(ours - bound) <= NEAR * abs(bound) if word == "equal" else COMPARE[word](ours, bound)
            for word, bound in bounds.items()
        )

    def inside_words(self, finding: Finding) -> str:
        """That in a word; empty where no figure is stated."""
        return {True: "inside", False: "outside", None: ""}[self.inside(finding)]

    def ratio(self, finding: Finding) -> float | None:
        """The figure over the stated one, of several bounds over the one that is nearest; None over 0 or nothing."""
        ours = finding.ours
        if isinstance(ours, str):
            return None
        ratios = [ours / bound for bound in self._bounds.values() if bound]
        return min(ratios, key=lambda each: abs(math.log(each)) if each > 0 else math.inf, default=None)

    @property
    def _bounds(self) -> dict[str, float]:
        return {} if self.statement.value is None else self.statement.bounds

    @property
    def stated(self) -> str:
        """The stated value as text."""
        first, said = self.statement.found[0], [(_WORDS[word], bound) for word, bound in self._bounds.items()]
        return " and ".join(f"{word} {show(first, bound)}".strip() for word, bound in said) or NOT_STATED

    def survives(self, paper: Paper) -> str:
        """What becomes of the claim on today's kernel, the last of the paper's.

        It held on the paper's own and still does, or does not; it holds on today's only, or only on kernels that were
        old for the paper; on none; or there is nothing to compare, since its part could not be run, or failed.
        """
        if self.statement.value is None:
            return "no figure stated"
        if not self.findings:
            return self.absent
        by_name = {finding.kernel: bool(self.inside(finding)) for finding in self.findings}
        if not self.statement.by_kernel:
            return "inside, not by kernel" if all(by_name.values()) else "not found"
        then, now = by_name[paper.kernel], by_name[list(paper.kernels)[-1]]
        words = {(True, True): "holds", (True, False): "no longer", (False, True): "only today"}
        return words.get((then, now), "on older kernels only" if any(by_name.values()) else "not found")


def show(found: ComputedFigure, value: float | str) -> str:
    """A figure as text."""
    if isinstance(value, str):
        return value
    return f"{value:.3g} times" if found.show == "times" else str(KINDS[found.show](value))


def claim_table(papers: Iterable[tuple[str, Paper, Iterable[Claim]]]) -> Table:
    """Every statement of papers, each with its name, with what becomes of it on today's kernel."""
    labels = ("paper", "it states", "as a figure", "on its kernel", "on today's kernel", "so the claim")
    rows = [row for name, paper, claims in papers for claim in claims for row in _rows(name, paper, claim)]
    return Table("", columns("words", *labels), rows)


def _rows(name: str, paper: Paper, claim: Claim) -> Iterator[tuple[str, ...]]:
    if claim.statement.says != NOT_STATED:
        found = {finding.kernel: _words(claim, finding) for finding in claim.findings}
        then, now = found.get(""), "–" if claim.findings else None
        if claim.statement.by_kernel:
            then, now = found.get(paper.kernel), found.get(list(paper.kernels)[-1])
        yield name, claim.statement.says, claim.stated, then or claim.absent, now or claim.absent, claim.survives(paper)


def _words(claim: Claim, finding: Finding) -> str:
    moves = "" if finding.settled else NOT_SETTLED
    parts = show(claim.statement.found[0], finding.ours), claim.inside_words(finding), moves
    return ", ".join(filter(None, parts))
