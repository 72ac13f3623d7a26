"""A comparison as one HTML file that needs nothing else, and prints well."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from simulator.reporting.terminal.comparison import sweep_facts
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

_POINTS = 500
_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.45 system-ui, sans-serif; color: #1a1a1a; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .4rem; }
p.answer { font-size: 1.1rem; font-weight: 600; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .9rem .15rem 0; text-align: right; vertical-align: top; white-space: nowrap; }
th { font-weight: 600; border-bottom: 1px solid #888; }
td:first-child, th:first-child, table.text td, table.text th { text-align: left; white-space: normal; }
tr.group td { color: #666; padding-top: .5rem; }
tr:hover td { background: #f3f3f3; }
.bar { display: inline-block; height: .7em; vertical-align: baseline; }
.a { background: #0072b2; } .b { background: #e69f00; }
td.bars { text-align: left; min-width: 14rem; line-height: 1; }
.mark { display: inline-block; width: 1.4em; text-align: center; color: #fff; border-radius: 2px; }
.mark.b { color: #000; }
.warning { border-left: 3px solid #d55e00; padding-left: .6rem; margin: .3rem 0; }
@media print { body { margin: 0; max-width: none; font-size: 11px; } tr { break-inside: avoid; }
  h2 { break-after: avoid; } .bar, .mark { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  details > summary { display: none; } }
"""
Cell = str | tuple[str, str]
"""Text, or HTML that has been made here with the class of its cell."""


def comparison_page(document: dict[str, Any]) -> str:
    """The page; all text from scenarios is escaped."""
    title = f"{document['a']['name']} and {document['b']['name']}"
    parts = [f"<h1>Two {document['compared']} compared</h1>"]
    for side in "ab":
        who = document[side]
        points = f", {who['points']} points" if "points" in who else ""
        text = escape(f"{who['name']} ({who['place']}{points})")
        digest = escape(str(who["digest"] or "")[:12])
        parts.append(f'<p><span class="mark {side}">{side.upper()}</span> {text} <small>{digest}</small></p>')
    parts.append(f'<p class="answer">{escape(document["answer"])}</p>')
    parts += [f"<p>{escape(line)}</p>" for line in facts(document)]
    parts += _run(document) if document["compared"] == "runs" else _sweep(document)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _run(document: dict[str, Any]) -> list[str]:
    parts = []
    if document["inputs"]["known"]:
        told = input_rows(document["inputs"]["told"])
        parts += _table("What went in", ("key", "A", "B"), told or [("nothing differs", "", "")], text=True)
        every = document["inputs"]["changes"]
        if len(every) > len(document["inputs"]["told"]):
            inside = "".join(_table("", ("key", "A", "B"), input_rows(every[:_POINTS]), text=True))
            shown = f"all {len(every)} keys" if len(every) <= _POINTS else f"{_POINTS} of {len(every)} keys"
            parts.append(f"<details><summary>{shown}</summary>{inside}</details>")
    longest = max((abs(row[side] or 0.0) for row in document["figures"] if _is_term(row) for side in "ab"), default=0.0)
    rows: list[Sequence[Cell]] = []
    group = ""
    for row in document["figures"]:
        if row["a"] == row["b"] == 0:
            continue
        if row["group"] != group:
            group = row["group"]
            rows.append((("group", escape(group)),))
        bars = _bars(row, longest) if _is_term(row) else ""
        cells = (figure(row["a"], row["unit"]), figure(row["b"], row["unit"]), *change(row))
        rows.append((name_of(row["key"]), *cells, ("bars", bars)))
    parts += _table("What came out", ("", "A", "B", "difference", "change", ""), rows)
    fidelity = document["fidelity"]
    tiers = [
        (side.upper(), str(fidelity[side].get("tier", "not stated")), str(fidelity[side].get("reason", "")))
        for side in "ab"
    ]
    parts += _table("Fidelity", ("", "tier", "why"), tiers, text=True)
    rest = [evidence(item) for item in document["calibration"]]
    parts += _table("What they rest on", ("", "used in", "held-out error"), rest, text=True)
    warned = warnings(document)
    if warned:
        parts.append("<h2>Warnings</h2>")
        parts += [f'<p class="warning">{escape(where)}: {escape(text)}</p>' for where, text in warned]
    return parts


def _is_term(row: dict[str, Any]) -> bool:
    return bool(row["key"].startswith("breakdown_s."))


def _bars(row: dict[str, Any], longest: float) -> str:
    """The two values one above the other, on one scale for all terms."""
    lines = []
    for side in "ab":
        width = 100 * max(0.0, row[side] or 0.0) / longest if longest else 0.0
        lines.append(f'<span class="bar {side}" style="width:{width:.2f}%" title="{side.upper()}"></span>')
    return "<br>".join(lines)


def _sweep(document: dict[str, Any]) -> list[str]:
    parts = [f"<p>{escape(line)}</p>" for line in sweep_facts(document)]
    values = value_rows(document)
    if values:
        parts += _table("Values of one sweep only", ("key", "A", "B"), values, text=True)
    terms = [
        (
            name_of(f"breakdown_s.{row['term']}"),
            *(figure(row[key], "s", sign=True) for key in ("mean_s", "min_s", "max_s")),
        )
        for row in document["terms"]
    ]
    if terms:
        parts += _table("Change of each term, B against A", ("", "mean", "least", "most"), terms)
    points = distinct_points(document["points"])
    if points:
        longest = max(max(point["a_s"], point["b_s"]) for _, point in points[:_POINTS])
        rows: list[Sequence[Cell]] = []
        for name, point in points[:_POINTS]:
            sides = {"a": point["a_s"], "b": point["b_s"]}
            term, seconds = point["largest_term"], point["largest_difference_s"]
            mostly = "" if term is None else f"{name_of(f'breakdown_s.{term}')} {figure(seconds, 's', sign=True)}"
            times = (figure(point["a_s"], "s"), figure(point["b_s"], "s"), percent(point["ratio"]))
            rows.append((name, *times, mostly, ("bars", _bars(sides, longest))))
        title = f"Points, the biggest changes first ({len(rows)} of {len(points)})"
        parts += _table(title, ("point", "A", "B", "change", "mostly", ""), rows)
    for side in "ab":
        only = [(point_name(key),) for key in document[f"only_{side}"]]
        if only:
            parts += _table(f"In {side.upper()} only: {len(only)} points", ("point",), only[:_POINTS], text=True)
    failed = [
        (
            point_name({k: v for k, v in item.items() if k not in ("error_a", "error_b")}),
            item["error_a"] or "",
            item["error_b"] or "",
        )
        for item in document["failed"][:_POINTS]
    ]
    if failed:
        parts += _table(f"Failed: {len(document['failed'])} points", ("point", "A", "B"), failed, text=True)
    return parts


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]], text: bool = False) -> list[str]:
    """A heading and a table; a row of one cell spans it."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    lines = []
    for row in rows:
        if len(row) == 1 and isinstance(row[0], tuple):
            lines.append(f'<tr class="{row[0][0]}"><td colspan="{len(columns)}">{row[0][1]}</td></tr>')
        else:
            lines.append(f"<tr>{''.join(map(_cell, row))}</tr>")
    kind = ' class="text"' if text else ""
    table = (
        f'<div class="scroll"><table{kind}><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
    )
    return [f"<h2>{escape(title)}</h2>", table] if title else [table]


def _cell(cell: Cell) -> str:
    return f"<td>{escape(cell)}</td>" if isinstance(cell, str) else f'<td class="{cell[0]}">{cell[1]}</td>'
