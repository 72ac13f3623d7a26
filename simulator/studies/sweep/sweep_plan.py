"""What a sweep has to do: its points identified, identical ones merged, neighbours put together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from simulator.errors import InputError, Problem
from simulator.studies.sweep.points import Points, one_line

_PLACE = re.compile(r"(.*?):(\d+):(\d+)")
Shard = tuple[int, int]
"""The i-th of n parts, i from 1."""


@dataclass(slots=True)
class Plan:
    """What is to be done: rows in order, their digests, points that can't be built, and groups of distinct points."""

    rows: list[int] = field(default_factory=list)
    digests: dict[int, str] = field(default_factory=dict)
    broken: dict[int, str] = field(default_factory=dict)
    groups: list[list[int]] = field(default_factory=list)

    @property
    def distinct(self) -> int:
        """Points that differ."""
        return sum(map(len, self.groups))


def planned(points: Points, shard: Shard | None) -> Plan:
    """Every point built and identified. Raises InputError where a value is bad wherever it stands."""
    plan, errors = Plan(), dict[int, InputError]()
    first: dict[str, int] = {}
    for number in points.grid.numbers():
        plan.rows.append(number)
        try:
            plan.digests[number] = points.scenario(number).digest
            first.setdefault(plan.digests[number], number)
        except InputError as error:
            errors[number] = error
    _refuse_bad_values(points, plan, errors)
    plan.broken = {number: one_line(error) for number, error in errors.items()}
    groups: dict[tuple[int, ...], list[int]] = {}
    for number in first.values():
        groups.setdefault(points.neighbourhood(number), []).append(number)
    plan.groups = [groups[key] for key in sorted(groups)]
    if shard is not None:
        _cut(plan, *shard)
    return plan


def _cut(plan: Plan, part: int, parts: int) -> None:
    """Leave one part of the plan: whole groups, and the points that can't be built in turn."""
    plan.groups = plan.groups[part - 1 :: parts]
    held = {plan.digests[number] for group in plan.groups for number in group}
    broken = list(plan.broken)[part - 1 :: parts]
    plan.broken = {number: plan.broken[number] for number in broken}
    plan.rows = [n for n in plan.rows if n in plan.broken or plan.digests.get(n) in held]


def _refuse_bad_values(points: Points, plan: Plan, errors: Mapping[int, InputError]) -> None:
    """Raise the problems of values that no point can be built with; other points that can't be built are rows."""
    good = {item for number in plan.digests for item in enumerate(points.grid.choice(number))}
    problems = {str(problem): problem for problem in points.unapplied()}
    for number, error in errors.items():
        if any(item not in good for item in enumerate(points.grid.choice(number))):
            problems |= {str(problem): problem for problem in error.problems}
    if problems:
        raise InputError(sorted(problems.values(), key=_place))


def _place(problem: Problem) -> tuple[str, int, int]:
    """File, line and column, so that problems are told in the order of the file."""
    found = _PLACE.match(problem.where)
    return (found[1], int(found[2]), int(found[3])) if found else (problem.where, 0, 0)
