"""How sure a prediction is, in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simulator.reporting.answers.explained import Doubts, Effect
from simulator.reporting.wording.blocks import Block, Text, texts
from simulator.reporting.wording.comparison import shorten
from simulator.reporting.wording.tables import Table, columns
from simulator.reporting.wording.values import format_difference
from simulator.units import count_of, show_time

_GROUPS = 8
_LARGEST = 3
"""Effects that are told at a glance."""
_NAME = 42
"""Characters of a name."""
_NOTHING = 1e-4
"""Inputs that change the iteration by no more than this share are counted, and not listed."""


_INPUTS = (
    *columns("words", "input", "level"),
    *columns("factor", "within"),
    *columns("time_difference", "shorter", "longer"),
    *columns("whole_percent", "of the width"),
)


def doubt_lines(doubts: Doubts) -> Iterator[str]:
    """The largest effects, each in a line: its inputs, how well they are known, and what they change."""
    for effect in [effect for effect in doubts.groups if _counts(effect, doubts)][:_LARGEST]:
        first, *others = effect.inputs
        more = f" and {count_of(len(others), 'other')}" if others else ""
        ends = " to ".join(format_difference(end, "time") for end in (effect.low, effect.high))
        width = max(item.width for item in effect.inputs)
        yield f"{_name(first.what, first.id)}{more}: {ends} ({effect.level}, within x {width:.3g})"


def _counts(effect: Effect, doubts: Doubts) -> bool:
    return effect.largest > _NOTHING * doubts.interval[0]


def uncertainty_blocks(doubts: Doubts) -> Iterator[Block]:
    """Every uncertain input with its width, its effect, and where the width comes from; then what would settle it."""
    low, high = doubts.interval
    yield Text("How sure is this", "title")
    if low == high:
        yield "Nothing that the prediction rests on is uncertain."
        return
    yield (
        f"In nine of ten cases the iteration takes {show_time(low)} to {show_time(high)}. The effects of single inputs "
        "at the ends of their widths add in squares; inputs under one effect are wrong the same way, together."
    )
    groups = [effect for effect in doubts.groups if _counts(effect, doubts)]
    shown = groups[:_GROUPS]
    rows = [row for group in shown for row in _rows(group)]
    if any(doubts.single_iterations):
        rows.append(("single iterations, which differ at random", "", "", *doubts.single_iterations, ""))
    yield Table("", _INPUTS, rows)
    more = len(doubts.groups) - len(shown)
    if more:
        yield Text(f"{count_of(more, 'smaller effect')} not listed", "dim")
    yield ""
    yield Table("", columns("words", "the widths come from", "of"), _sources(shown))
    commands = {row.command: f"about {row.minutes:g} min" for row in shown if row.command}
    if commands:
        yield ""
        yield "to settle them, largest first:"
        yield from texts((f"{command}  # {minutes}" for command, minutes in commands.items()), "command")


def _rows(group: Effect) -> Iterator[tuple[Any, ...]]:
    """The inputs of a group, the effect in the row of the first one."""
    effect = (group.low, group.high, group.share)
    for place, item in enumerate(group.inputs):
        name = ("  " if place else "") + _name(item.what, item.id)
        yield name, item.level, item.width, *(("", "", "") if place else effect)


def _sources(groups: list[Effect]) -> list[tuple[str, str]]:
    """Each source of widths, with the inputs whose widths come from it."""
    made: dict[str, list[str]] = {}
    for item in (item for group in groups for item in group.inputs):
        made.setdefault(item.source, []).append(_name(item.what, item.id))
    return [(source, ", ".join(names)) for source, names in made.items()]


def _name(what: str, identity: str) -> str:
    """An input as a person calls it, without the part of the scenario that it belongs to.

    >>> _name("kernel topk, transferred", "RTX 2080 Ti/topk"), _name("constant", "Horovod 0.19/negotiation")
    ('kernel topk', 'constant: negotiation')
    """
    kind, last = what.partition(",")[0], identity.rpartition("/")[2]
    return kind if last in kind.split() else shorten(f"{kind}: {last}", _NAME)
