"""The page of a comparison of two runs or two sweeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from simulator.reporting.page.parts import Column, Page, Table
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
from simulator.units import count_of

_ROWS = 500
_BARS = Column("bars", "A (blue), B (orange)", "bars")


def comparison_page(document: dict[str, Any]) -> Page:
    """The answer with its facts, then tables of what differs in the inputs and in the results."""
    sides = [(side.upper(), document[side]) for side in "ab"]
    runs = document["compared"] == "runs"
    warned = warning_rows(document) if runs else ()
    return Page(
        title=f"Two {document['compared']} compared",
        subtitle="differences are B less A",
        answer=document["answer"],
        facts=fact_lines(document),
        glance=[(name, describe_side(side)) for name, side in sides],
        warnings=[f"{where}: {text}" for where, text in warned],
        tables=list((_run_tables if runs else _sweep_tables)(document)),
        provenance=[(f"digest of {name}", str(side["digest"])) for name, side in sides if side["digest"]],
    )


def _text_table(title: str, names: Sequence[str], rows: Iterable[Sequence[str]], folded: bool = False) -> Table:
    return Table(title, [Column(name, name) for name in names], list(rows), folded=folded)


def _run_tables(document: dict[str, Any]) -> Iterator[Table]:
    inputs = document["inputs"]
    if inputs["known"]:
        yield _text_table("Inputs that differ", ("key", "A", "B"), input_rows(inputs["told"]))
        every = inputs["changes"]
        if len(every) > len(inputs["told"]):
            title = f"All {len(every)} keys" if len(every) <= _ROWS else f"{_ROWS} of {len(every)} keys"
            yield _text_table(title, ("key", "A", "B"), input_rows(every[:_ROWS]), folded=True)
    yield _results(document)
    fidelity = document["fidelity"]
    tiers = [
        (side.upper(), fidelity[side].get("tier", "not stated"), fidelity[side].get("reason", "")) for side in "ab"
    ]
    yield _text_table("Fidelity", ("run", "tier", "reason"), tiers)
    evidence = (evidence_row(item) for item in document["calibration"])
    yield _text_table("What the predictions rest on", ("curve or law", "used in", "held-out error"), evidence)


def _results(document: dict[str, Any]) -> Table:
    """Every figure of both runs; bars for the terms of the breakdown, on one scale."""
    columns = (
        Column("group", "part"),
        Column("figure", "result"),
        *(Column(name, name, "figure") for name in ("A", "B", "difference")),
        Column("change", "change", "change"),
        _BARS,
    )
    figures = list(figure_rows(document))
    terms = [row for row, _ in figures if row["key"].startswith("breakdown_s.")]
    longest = max((row[side] or 0.0 for row in terms for side in "ab"), default=0.0)
    rows = [
        (row["group"], *cells, change_of(row), _bars(row["a"], row["b"], longest) if row in terms else None)
        for row, cells in figures
    ]
    return Table("Results", columns, rows, choose=("group",))


def _bars(a: float | None, b: float | None, longest: float) -> tuple[float, float] | None:
    return (max(0.0, a or 0.0) / longest, max(0.0, b or 0.0) / longest) if longest else None


def _sweep_tables(document: dict[str, Any]) -> Iterator[Table]:
    values = value_rows(document)
    if values:
        yield _text_table("Values that only one sweep has", ("key", "A", "B"), values)
    terms = term_rows(document)
    if terms:
        seconds = (Column(name, name, "time_difference") for name in ("mean", "least", "most"))
        yield Table("Change of each term, B less A", (Column("term", "term"), *seconds), terms)
    points = distinct_points(document["points"])
    if points:
        yield _points(points)
    for side in "ab":
        only = [(point_name(key),) for key in document[f"only_{side}"]]
        if only:
            yield _text_table(f"In {side.upper()} only: {count_of(len(only), 'point')}", ("point",), only[:_ROWS])
    failed = document["failed"]
    if failed:
        errors = ("error_a", "error_b")
        rows = [
            (point_name({k: v for k, v in item.items() if k not in errors}), *(item[key] or "" for key in errors))
            for item in failed[:_ROWS]
        ]
        yield _text_table(f"Failed: {count_of(len(failed), 'point')}", ("point", "A", "B"), rows)


def _points(points: Sequence[tuple[str, dict[str, Any]]]) -> Table:
    shown = points[:_ROWS]
    longest = max(max(point["a_s"], point["b_s"]) for _, point in shown)
    columns = (
        Column("point", "point"),
        Column("a", "A", "time"),
        Column("b", "B", "time"),
        Column("change", "change", "change"),
        Column("most", "largest difference"),
        _BARS,
    )
    rows = [
        (name, p["a_s"], p["b_s"], p["ratio"], largest_change(p), _bars(p["a_s"], p["b_s"], longest))
        for name, p in shown
    ]
    return Table(f"Points, the largest changes first ({len(shown)} of {len(points)})", columns, rows)
