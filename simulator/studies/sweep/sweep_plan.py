"""The plan of a sweep: points identified by their digests, equal ones merged, points that share work grouped."""

from __future__ import annotations

import re
from collections.abc import Mapping

from simulator.errors import InputError, Problem
from simulator.records import Struct, field
from simulator.studies.sweep.points import GridPoints, one_line

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

    @property
    def distinct(self) -> int:
        """Number of points that differ."""
        return sum(map(len, self.groups))


def plan_sweep(points: GridPoints, shard: Shard | None) -> SweepPlan:
    """Build and identify every point. Raises InputError for a value that is wrong in every point that has it."""
    plan, errors = SweepPlan(), dict[int, InputError]()
    first: dict[str, int] = {}
    for number in points.grid.numbers():
        plan.rows.append(number)
        try:
            plan.digests[number] = points.identity(points.scenario(number))
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
        _keep_shard(plan, *shard)
    return plan


def _keep_shard(plan: SweepPlan, part: int, parts: int) -> None:
    """Keep one part of the plan: whole groups, and every n-th of the points that cannot be built."""
    plan.groups = plan.groups[part - 1 :: parts]
    kept = {plan.digests[number] for group in plan.groups for number in group}
    broken = list(plan.broken)[part - 1 :: parts]
    plan.broken = {number: plan.broken[number] for number in broken}
    plan.rows = [n for n in plan.rows if n in plan.broken or plan.digests.get(n) in kept]


def _refuse_bad_values(points: GridPoints, plan: SweepPlan, errors: Mapping[int, InputError]) -> None:
    """Raise the problems of values that no point can be built with; other points that fail become rows."""
    good = {item for number in plan.digests for item in enumerate(points.grid.choice(number))}
    problems = {str(problem): problem for problem in points.parts.unapplied()}
    for number, error in errors.items():
        if any(item not in good for item in enumerate(points.grid.choice(number))):
            problems |= {str(problem): problem for problem in error.problems}
    if problems:
        raise InputError(sorted(problems.values(), key=_place))


def _place(problem: Problem) -> tuple[str, int, int]:
    """File, line and column, to sort problems in the order of the file."""
    found = _PLACE.match(problem.where)
    return (found[1], int(found[2]), int(found[3])) if found else (problem.where, 0, 0)
