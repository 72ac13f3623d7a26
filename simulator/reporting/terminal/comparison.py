"""Comparisons on the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.markup import escape

from simulator.reporting.terminal.printing import add_rows, plain_table, print_plain, print_title, print_warnings
from simulator.reporting.wording.comparison import (
    change_of,
    describe_side,
    distinct_points,
    evidence_row,
    fact_lines,
    figure_rows,
    input_rows,
    largest_change,
    point_name,
    term_rows,
    value_rows,
    warning_rows,
)
from simulator.reporting.wording.values import format_change, format_difference
from simulator.units import count_of, show_time

_POINTS = 20


def print_comparison(document: dict[str, Any], console: Console) -> None:
    """What is compared, the answer, then what differs in the inputs and in the results."""
    for side in "ab":
        text = escape(describe_side(document[side]))
        console.print(f"[bold]{side.upper()}[/bold]  {text}", highlight=False)
    print_title(f"\n{document['answer']}", console)
    for line in fact_lines(document):
        print_plain(line, console)
    (_print_runs if document["compared"] == "runs" else _print_sweeps)(document, console)


def _print_runs(document: dict[str, Any], console: Console) -> None:
    if document["inputs"]["known"]:
        rows = input_rows(document["inputs"]["told"])
        _print(console, "inputs that differ", ("key", "A", "B"), rows or [("none", "", "")], left=3)
    results: list[tuple[str, ...]] = []
    group = ""
    for row, (label, *cells) in figure_rows(document):
        if row["group"] != group:
            group = row["group"]
            results.append((group, "", "", "", ""))
        ratio = change_of(row)
        results.append((f"  {label}", *cells, "" if ratio is None else format_change(ratio)))
    _print(console, "results", ("", "A", "B", "difference", "change"), results)
    console.print()
    fidelity = document["fidelity"]
    if fidelity["a"] == fidelity["b"]:
        print_plain(f"fidelity in both: {_describe_fidelity(fidelity['a'])}", console)
    else:
        for side in "ab":
            print_plain(f"fidelity in {side.upper()}: {_describe_fidelity(fidelity[side])}", console)
    evidence = [evidence_row(item) for item in document["calibration"]]
    _print(console, "what the predictions rest on", ("", "used in", "held-out error"), evidence, left=3)
    print_warnings((f"({where}) {text}" for where, text in warning_rows(document)), console)


def _describe_fidelity(fidelity: dict[str, Any]) -> str:
    return f"{fidelity.get('tier', 'not stated')}: {fidelity.get('reason', '')}"


def _print_sweeps(document: dict[str, Any], console: Console) -> None:
    values = value_rows(document)
    if values:
        _print(console, "values that only one sweep has", ("key", "A", "B"), values, left=3)
    terms = [
        (label, *(format_difference(value, "time") for value in seconds)) for label, *seconds in term_rows(document)
    ]
    if terms:
        _print(console, "change of each term, B less A", ("", "mean", "least", "most"), terms)
    points = distinct_points([p for p in document["points"] if not p["same_inputs"] or p["a_s"] != p["b_s"]])
    rows = [
        (name, show_time(p["a_s"]), show_time(p["b_s"]), format_change(p["ratio"]), largest_change(p))
        for name, p in points[:_POINTS]
    ]
    if rows:
        count = f" ({len(rows)} of {len(points)})" if len(points) > len(rows) else ""
        columns = ("point", "A", "B", "change", "largest difference")
        _print(console, f"points, the largest changes first{count}", columns, rows)
    for side in "ab":
        only = document[f"only_{side}"]
        if only:
            names = "; ".join(point_name(key) for key in only[:3]) + ("; ..." if len(only) > 3 else "")
            print_plain(f"\n{count_of(len(only), 'point')} in {side.upper()} only: {names}", console)


def _print(
    console: Console, title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]], left: int = 1
) -> None:
    """A table with a title; its first `left` columns are text, the others numbers."""
    table = plain_table(columns[:left], columns[left:], title)
    table.title_style = "bold"
    console.print()
    console.print(add_rows(table, rows), highlight=False)
