"""Comparisons on the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from simulator.reporting.terminal.comparison_words import (
    change,
    distinct_points,
    evidence,
    facts,
    figure,
    input_rows,
    name_of,
    percent,
    point_name,
    value_rows,
    warnings,
)

_POINTS = 20


def print_comparison(document: dict[str, Any], console: Console) -> None:
    """Who is compared, the answer, then what changed in the input and in the outcome."""
    for side in "ab":
        who = document[side]
        points = f", {who['points']} points" if "points" in who else ""
        text = f"{who['name']} ({who['place']}{points})"
        console.print(f"[bold]{side.upper()}[/bold]  {escape(text)}", highlight=False)
    console.print(f"\n[bold]{escape(document['answer'])}[/bold]", highlight=False)
    for line in facts(document):
        console.print(escape(line), highlight=False)
    (_run if document["compared"] == "runs" else _sweep)(document, console)


def _run(document: dict[str, Any], console: Console) -> None:
    if document["inputs"]["known"]:
        told = input_rows(document["inputs"]["told"])
        _print(console, "what went in", ("key", "A", "B"), told or [("nothing differs", "", "")], left=3)
    rows: list[tuple[str, ...]] = []
    group = ""
    for row in document["figures"]:
        if row["a"] == row["b"] == 0:
            continue
        if row["group"] != group:
            group = row["group"]
            rows.append((f"[dim]{group}[/dim]", "", "", "", ""))
        cells = (figure(row["a"], row["unit"]), figure(row["b"], row["unit"]), *change(row))
        rows.append((f"  {escape(name_of(row['key']))}", *cells))
    _print(console, "what came out", ("", "A", "B", "difference", "change"), rows, escaped=True)
    fidelity = document["fidelity"]
    if fidelity["a"] == fidelity["b"]:
        console.print(f"\nfidelity in both: {escape(_tier(fidelity['a']))}", highlight=False)
    else:
        for side in "ab":
            console.print(f"{'' if side == 'b' else chr(10)}fidelity in {side.upper()}: ", end="", highlight=False)
            console.print(escape(_tier(fidelity[side])), highlight=False)
    rest = [evidence(item) for item in document["calibration"]]
    _print(console, "what they rest on", ("", "used in", "held-out error"), rest, left=3)
    for where, text in warnings(document):
        console.print(f"[yellow]warning[/yellow] ({where}) {escape(text)}", highlight=False)


def _tier(fidelity: dict[str, Any]) -> str:
    return f"{fidelity.get('tier', 'not stated')}: {fidelity.get('reason', '')}"


def _sweep(document: dict[str, Any], console: Console) -> None:
    values = value_rows(document)
    if values:
        _print(console, "values of one sweep only", ("key", "A", "B"), values, left=3)
    terms = [
        (
            name_of(f"breakdown_s.{row['term']}"),
            *(figure(row[key], "s", sign=True) for key in ("mean_s", "min_s", "max_s")),
        )
        for row in document["terms"]
    ]
    if terms:
        _print(console, "change of each term, B against A", ("", "mean", "least", "most"), terms)
    points = [point for point in document["points"] if not point["same_inputs"] or point["a_s"] != point["b_s"]]
    told = distinct_points(points)
    rows = [_point(name, point) for name, point in told[:_POINTS]]
    if rows:
        title = "points, the biggest changes first" + (
            f" ({len(rows)} of {len(told)})" if len(told) > len(rows) else ""
        )
        _print(console, title, ("point", "A", "B", "change", "mostly"), rows)
    for side in "ab":
        only = document[f"only_{side}"]
        if only:
            names = "; ".join(point_name(key) for key in only[:3]) + ("; ..." if len(only) > 3 else "")
            console.print(f"\n{len(only)} points in {side.upper()} only: {escape(names)}", highlight=False)
    for line in sweep_facts(document):
        console.print(escape(line), highlight=False)


def sweep_facts(document: dict[str, Any]) -> list[str]:
    """What else there is to say about the points of two sweeps."""
    summary = document["summary"]
    counts = (
        ("same_inputs", "points have the same digest in both: nothing that they depend on differs"),
        ("warnings_differ", "points have other warnings"),
        ("fidelity_differs", "points have another fidelity"),
    )
    made = [f"{summary[key]} {words}." for key, words in counts if summary[key]]
    if document["failed"]:
        made.append(f"{len(document['failed'])} points failed in A or B; --json names them.")
    return made


def _point(name: str, point: dict[str, Any]) -> tuple[str, ...]:
    term, seconds = point["largest_term"], point["largest_difference_s"]
    mostly = "" if term is None else f"{name_of(f'breakdown_s.{term}')} {figure(seconds, 's', sign=True)}"
    times = (figure(point["a_s"], "s"), figure(point["b_s"], "s"), percent(point["ratio"]))
    return (name, *times, mostly)


def _print(
    console: Console,
    title: str,
    columns: tuple[str, ...],
    rows: Iterable[tuple[str, ...]],
    *,
    left: int = 1,
    escaped: bool = False,
) -> None:
    """A table with a title; its first `left` columns are text, the others figures."""
    table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*(row if escaped else map(escape, row)))
    console.print()
    console.print(table, highlight=False)
