"""Advice on the terminal: the answer in three lines, ten rows, and how to use it; the rest where it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

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


def print_advice(document: dict[str, Any], console: Console) -> None:
    """The three lines, at most ten rows, the command and the lines of configuration."""
    print_title(document["scenario"], console)
    if document["interrupted"]:
        left = f"Interrupted during {document['interrupted']}: what was not reached is missing."
        print_plain(left, console, "yellow")
    console.print()
    lines = ((label, document["summary"][key]) for key, label in _LABELS.items() if document["summary"][key])
    print_facts(lines, console)
    console.print()
    print_lines(_rows(document), console)
    print_plain(_LEGEND, console, "dim")
    console.print()
    print_command(document["command"], console)
    place = document["availability"] or {"lines": (), "notes": ()}
    for line in place["lines"]:
        print_command(line, console)
    print_notes((f"{place['where']}: {note}" for note in place["notes"]), console)
    print_plain(_BRIEF_LIMIT, console, "dim")


def print_full_advice(document: dict[str, Any], console: Console) -> None:
    """All that the answer says: the brief form, then details, the whole ranking, break-even points and reasons."""
    print_advice(document, console)
    print_study(document, console)


def _rows(document: dict[str, Any]) -> Table:
    """The best of every method: first what the scenario's framework offers, then what needs something else."""
    ranking: Sequence[dict[str, Any]] = document["ranking"]
    target = any(row["time_to_target_s"] is not None for row in ranking)
    table = Table(box=None, pad_edge=False)
    table.add_column("method (schedule, topology)")
    table.add_column("to target" if target else "iteration", justify="right")
    table.add_column("against dense", justify="right")
    table.add_column("pays", justify="right")
    table.add_column("where it exists")
    offered = _best_of_each(row for row in ranking if row["availability"]["status"] == "offered")
    others = _best_of_each(row for row in ranking if row["availability"]["status"] != "offered")
    shown = offered[: _ROWS // 2] if len(others) > _ROWS // 2 else offered[:_ROWS]
    more = _with_yours(others, document["yours"], _ROWS - len(shown))
    if shown:
        where = shown[0]["availability"]["where"]
        table.add_row(f"[dim]in {escape(where)}:[/dim]")
        for row in shown:
            against = row["against_offered_dense"] or {"speed_up": None, "probability": None}
            interval = against.get("speed_up_interval")
            _add(table, row, target, (against["speed_up"], interval, against["probability"]))
    if more:
        table.add_row(f"[dim]{'elsewhere:' if shown else 'in no framework:'}[/dim]")
        for row in more:
            figures = (row["speed_up_over_dense"], row["speed_up_over_dense_interval"], row["probability"])
            _add(table, row, target, figures)
    return table


def _best_of_each(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first row of every method."""
    best: dict[str, dict[str, Any]] = {}
    for row in rows:
        best.setdefault(row["method"], row)
    return list(best.values())


def _with_yours(rows: list[dict[str, Any]], yours: dict[str, Any] | None, most: int) -> list[dict[str, Any]]:
    """The first rows, the last of which is the scenario as it is if it would be cut off."""
    shown = rows[:most]
    if yours is not None and yours["availability"]["status"] != "offered" and yours not in shown:
        shown = [*shown[: most - 1], yours]
    return shown


def _add(
    table: Table, row: dict[str, Any], target: bool, figures: tuple[float | None, Sequence[float] | None, float | None]
) -> None:
    ratio, interval, probability = figures
    seconds = row["time_to_target_s"] if target else row["iteration_time_s"]
    against = "-" if ratio is None else f"{ratio:.2f}"
    if probability is not None and interval is not None:
        against += f" ({interval[0]:.2f} to {interval[1]:.2f})"
    yours = "yours: " if not row["overrides"] else ""
    schedule = row["schedule"].partition(" in ")[0]
    table.add_row(
        escape(f"{yours}{row['method']} ({schedule}, {row['topology']})"),
        "-" if seconds is None else show_time(seconds),
        against,
        show_chance(probability),
        escape(_short_place(row["availability"])),
        style="bold" if row["method"] == "dense" else "italic" if yours else None,
    )


def _short_place(availability: dict[str, Any]) -> str:
    """Where a row exists: the framework, or the code of its method and how many more there are to take parts from.

    >>> _short_place({"status": "research_code", "where": "HKBU-HPML/MG-WFBP and kljp/micro"})
    'kljp/micro +1'
    """
    where = str(availability["where"])
    if availability["status"] != "research_code":
        return where
    *others, last = where.replace(" and ", ", ").split(", ")
    return f"{last} +{len(others)}" if others else last
