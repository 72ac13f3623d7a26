"""Advice on the terminal: the answer in three lines, ten rows, and how to use it; the rest where it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from simulator.reporting.answers.advised import Availability, MethodAdvice, RankedRow
from simulator.reporting.terminal.advice_study import print_study, show_chance
from simulator.reporting.terminal.printing import (
    print_command,
    print_facts,
    print_lines,
    print_notes,
    print_plain,
    print_title,
)
from simulator.units import show_time

_ROWS = 10
_LABELS = {"do": "what to do", "gain": "what it gains", "change": "what would change it", "elsewhere": "elsewhere"}
_LEGEND = (
    "against dense: how many times faster (90 % interval) than the best dense of the same group, elsewhere than dense "
    "at its best; pays: probability of that; +1: parts of another code, too"
)
_BRIEF_LIMIT = (
    "Convergence is not modelled: --iterations-to-target ranks by time to target. --full prints everything else."
)


def print_advice(advice: MethodAdvice, console: Console) -> None:
    """The three lines, at most ten rows, the command and the lines of configuration."""
    print_title(advice.scenario, console)
    if advice.interrupted:
        left = f"Interrupted during {advice.interrupted}: what was not reached is missing."
        print_plain(left, console, "yellow")
    console.print()
    lines = ((label, text) for name, label in _LABELS.items() if (text := getattr(advice.summary, name)))
    print_facts(lines, console)
    console.print()
    print_lines(_rows(advice), console)
    print_plain(_LEGEND, console, "dim")
    console.print()
    print_command(advice.command or "", console)
    place = advice.availability
    if place is not None:
        for line in place.lines:
            print_command(line, console)
        print_notes((f"{place.where}: {note}" for note in place.notes), console)
    print_plain(_BRIEF_LIMIT, console, "dim")


def print_full_advice(advice: MethodAdvice, console: Console) -> None:
    """All that the answer says: the brief form, then details, the whole ranking, break-even points and reasons."""
    print_advice(advice, console)
    print_study(advice, console)


def _rows(advice: MethodAdvice) -> Table:
    """The best of every method: first what the scenario's framework offers, then what needs something else."""
    ranking = advice.ranking
    target = any(row.time_to_target is not None for row in ranking)
    table = Table(box=None, pad_edge=False)
    table.add_column("method (schedule, topology)")
    table.add_column("to target" if target else "iteration", justify="right")
    table.add_column("against dense", justify="right")
    table.add_column("pays", justify="right")
    table.add_column("where it exists")
    offered = _best_of_each(row for row in ranking if row.availability.status == "offered")
    others = _best_of_each(row for row in ranking if row.availability.status != "offered")
    shown = offered[: _ROWS // 2] if len(others) > _ROWS // 2 else offered[:_ROWS]
    more = _with_yours(others, advice.yours, _ROWS - len(shown))
    if shown:
        where = shown[0].availability.where
        table.add_row(f"[dim]in {escape(where)}:[/dim]")
        for row in shown:
            against = row.against_offered_dense
            known = None if against is None else (against.speed_up, against.speed_up_interval, against.probability)
            _add(table, row, target, known or (None, None, None))
    if more:
        table.add_row(f"[dim]{'elsewhere:' if shown else 'in no framework:'}[/dim]")
        for row in more:
            figures = (row.speed_up_over_dense, row.speed_up_over_dense_interval, row.probability)
            _add(table, row, target, figures)
    return table


def _best_of_each(rows: Iterable[RankedRow]) -> list[RankedRow]:
    """The first row of every method."""
    best: dict[str, RankedRow] = {}
    for row in rows:
        best.setdefault(row.method, row)
    return list(best.values())


def _with_yours(rows: list[RankedRow], yours: RankedRow | None, most: int) -> list[RankedRow]:
    """The first rows, the last of which is the scenario as it is if it would be cut off."""
    shown = rows[:most]
    if yours is not None and yours.availability.status != "offered" and yours not in shown:
        shown = [*shown[: most - 1], yours]
    return shown


def _add(
    table: Table, row: RankedRow, target: bool, figures: tuple[float | None, Sequence[float] | None, float | None]
) -> None:
    ratio, interval, probability = figures
    seconds = row.time_to_target if target else row.iteration_time
    against = "-" if ratio is None else f"{ratio:.2f}"
    if probability is not None and interval is not None:
        against += f" ({interval[0]:.2f} to {interval[1]:.2f})"
    yours = "yours: " if not row.overrides else ""
    schedule = row.schedule.partition(" in ")[0]
    table.add_row(
        escape(f"{yours}{row.method} ({schedule}, {row.topology})"),
        "-" if seconds is None else show_time(seconds),
        against,
        show_chance(probability),
        escape(_short_place(row.availability)),
        style="bold" if row.method == "dense" else "italic" if yours else None,
    )


def _short_place(availability: Availability) -> str:
    """Where a row exists: the framework, or the code of its method and how many more there are to take parts from.

    >>> _short_place(Availability("research_code", "HKBU-HPML/MG-WFBP and kljp/micro"))
    'kljp/micro +1'
    """
    where = availability.where
    if availability.status != "research_code":
        return where
    *others, last = where.replace(" and ", ", ").split(", ")
    return f"{last} +{len(others)}" if others else last
