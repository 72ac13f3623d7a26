"""How sure a prediction is, on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from simulator.reporting.answers.explained import Doubts, Effect
from simulator.reporting.terminal.printing import (
    add_rows,
    plain_table,
    print_command,
    print_lines,
    print_plain,
    print_title,
)
from simulator.reporting.wording.comparison import shorten
from simulator.reporting.wording.values import format_difference, format_value
from simulator.units import count_of, show_time

_GROUPS = 8
_NAME = 42
"""Characters of a name."""
_NOTHING = 1e-4
"""Inputs that change the iteration by no more than this share are counted, and not listed."""


def print_uncertainty(doubts: Doubts, console: Console) -> None:
    """Every uncertain input with its width, its effect, and where the width comes from; then what would settle it."""
    low, high = doubts.interval
    print_title("How sure is this", console)
    if low == high:
        print_plain("Nothing that the prediction rests on is uncertain.", console)
        return
    print_plain(
        f"In nine of ten cases the iteration takes {show_time(low)} to {show_time(high)}. The effects of single inputs "
        "at the ends of their widths add in squares; inputs under one effect are wrong the same way, together.",
        console,
    )
    groups = [effect for effect in doubts.groups if effect.largest > _NOTHING * low]
    shown = groups[:_GROUPS]
    table = plain_table(("input", "level"), ("within", "shorter", "longer", "of the width"))
    for group in shown:
        add_rows(table, _rows(group))
    if any(doubts.single_iterations):
        below, above = (format_difference(value, "time") for value in doubts.single_iterations)
        add_rows(table, [("single iterations, which differ at random", "", "", below, above, "")])
    print_lines(table, console)
    more = len(doubts.groups) - len(shown)
    if more:
        print_plain(f"{count_of(more, 'smaller effect')} not listed", console, "dim")
    console.print()
    print_lines(add_rows(plain_table(("the widths come from", "of")), _sources(shown)), console)
    commands = {row.command: f"about {row.minutes:g} min" for row in shown if row.command}
    if commands:
        console.print()
        print_plain("to settle them, largest first:", console)
        for command, minutes in commands.items():
            print_command(f"{command}  # {minutes}", console)


def _rows(group: Effect) -> Iterator[tuple[str, ...]]:
    """The inputs of a group, the effect in the row of the first one."""
    effect = (*(format_difference(value, "time") for value in (group.low, group.high)), f"{100 * group.share:.0f} %")
    for place, item in enumerate(group.inputs):
        name = ("  " if place else "") + _name(item.what, item.id)
        yield name, item.level, format_value("factor", item.width), *(("", "", "") if place else effect)


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
