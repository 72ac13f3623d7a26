"""Conditions on values, by which a sweep skips points."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from simulator.units import DIMENSIONS, parse

COMPARE: dict[str, Callable[[float, float], bool]] = {
    "above": operator.gt,
    "at_least": operator.ge,
    "below": operator.lt,
    "at_most": operator.le,
}
NOT = "not"
_SAME = 1e-9
_MOST = 1e300


def number_of(value: Any) -> tuple[float, str] | None:
    """A number, or text with a unit, in SI, with its dimension ("" for none and for fractions); else None.

    >>> number_of("10 Gbit/s"), number_of("50 %"), number_of(3), number_of("ring")
    ((1250000000.0, 'bandwidth'), (0.5, ''), (3.0, ''), None)
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (float(value), "") if abs(value) <= _MOST else None  # NaN is not
    if isinstance(value, str):
        for dimension in DIMENSIONS:
            try:
                return parse(value, dimension), "" if dimension == "fraction" else dimension
            except ValueError:
                continue
    return None


def matches(value: Any, condition: Any) -> bool:
    """Whether a value meets a condition: equal, one of a list, or every comparison of a mapping.

    Comparisons: `above`, `at_least`, `below`, `at_most` and `not`. Numbers are equal to 9 digits; a mapping with `kind`
    equals the kind's name.

    >>> matches("10 Gbit/s", {"above": "1 Gbit/s"}), matches({"kind": "topk", "density": 0.1}, ["dense", "topk"])
    (True, True)
    """
    if isinstance(condition, list | tuple):
        return any(matches(value, each) for each in condition)
    if isinstance(condition, dict) and not {*COMPARE, NOT}.isdisjoint(condition):
        return all(_holds(value, word, operand) for word, operand in condition.items())
    return _equal(value, condition)


def _holds(value: Any, word: str, operand: Any) -> bool:
    if word == NOT:
        return not matches(value, operand)
    mine, other = number_of(value), number_of(operand)
    if mine is None or other is None or not _comparable(mine, other):
        return False
    return COMPARE[word](mine[0], other[0])


def _equal(value: Any, other: Any) -> bool:
    mine, theirs = number_of(value), number_of(other)
    if mine is not None and theirs is not None:
        return _comparable(mine, theirs) and math.isclose(mine[0], theirs[0], rel_tol=_SAME)
    if isinstance(other, str) and not isinstance(value, str):
        kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
        return bool(kind == other)
    return bool(value == other)


def _comparable(mine: tuple[float, str], other: tuple[float, str]) -> bool:
    return mine[1] == other[1] or 0.0 in (mine[0], other[0])
