"""The rows and sentences of a comparison, for the terminal and for the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from simulator.reporting.wording.quantities import describe
from simulator.reporting.wording.values import format_difference, format_error, format_value
from simulator.units import count_of

_KINDS = {"s": "time", "B": "bytes", "share": "share", "": "number"}
_SAME = 1e-12
_LONG = 60
_SIDES = {"both": "both", "a": "A only", "b": "B only"}


def describe_side(side: dict[str, Any]) -> str:
    """What A or B is: its name, where it is, and how many points it has."""
    points = f", {count_of(side['points'], 'point')}" if "points" in side else ""
    return f"{side['name']} ({side['place']}{points})"


def figure_rows(document: dict[str, Any]) -> Iterator[tuple[dict[str, Any], tuple[str, str, str, str]]]:
    """Each figure of two runs that is not zero in both, and its cells: label, in A, in B, difference."""
    for row in document["figures"]:
        if not row["a"] == row["b"] == 0:
            kind = _KINDS.get(row["unit"], "number")
            a, b = (format_value(kind, row[side], "-") for side in "ab")
            yield row, (describe(row["key"]).label, a, b, _difference(row, kind))


def _difference(row: dict[str, Any], kind: str) -> str:
    difference = row["difference"]
    if difference is None:
        return ""
    same = abs(difference) <= _SAME * max(abs(row["a"]), abs(row["b"]))
    return "=" if same else format_difference(difference, kind)


def change_of(row: dict[str, Any]) -> float | None:
    """B over A, where both are given and differ."""
    difference, ratio = row["difference"], row["ratio"]
    if difference is None or ratio is None or abs(difference) <= _SAME * max(abs(row["a"]), abs(row["b"])):
        return None
    return float(ratio)


def term_rows(document: dict[str, Any]) -> list[tuple[str, float, float, float]]:
    """How each term changes over the points of two sweeps: label, mean, least, most (s)."""
    return [
        (describe(f"breakdown_s.{row['term']}").label, row["mean_s"], row["min_s"], row["max_s"])
        for row in document["terms"]
    ]


def largest_change(point: dict[str, Any]) -> str:
    """The term that changes most from A to B at a point of two sweeps."""
    term = point["largest_term"]
    if term is None:
        return ""
    return f"{describe(f'breakdown_s.{term}').label} {format_difference(point['largest_difference_s'], 'time')}"


def input_rows(changes: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Inputs that differ: key, value in A, value in B."""
    rows = []
    for item in changes:
        if "keys" in item:
            a, b = shorten(item["a"]), shorten(item["b"])
            key, more = item["key"], f"{item['keys']} keys differ"
            rows.append((key, *((more, "") if item["a"] is None else (a, f"{b} ({more})"))))
        else:
            rows.append((item["key"], *(shorten(item[side]) if item["in"] in ("both", side) else "-" for side in "ab")))
    return rows


def shorten(value: Any) -> str:
    """A value as text of at most 60 characters, floats to 6 digits."""
    number = float(f"{value:.6g}") if isinstance(value, float) else value
    text = value if isinstance(value, str) else json.dumps(number, ensure_ascii=False)
    return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."


def point_name(key: dict[str, Any]) -> str:
    """A point of a sweep by its varied values.

    >>> point_name({"sparsifier": "topk", "sparsifier.density": 0.01})
    'sparsifier topk, sparsifier.density 0.01'
    """
    return ", ".join(f"{name} {shorten(value)}" for name, value in key.items() if value is not None)


def value_rows(document: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Varied keys with the values that only one of two sweeps has: key, in A, in B."""
    rows = [
        (item["key"], *(", ".join(map(shorten, item[f"only_{side}"])) or "-" for side in "ab"))
        for item in document["values"]
    ]
    for item in document["single_valued"]:
        value = shorten(item["value"])
        rows.append((item["key"], *(value if item["in"] == side else "as in its base" for side in "ab")))
    return rows


def distinct_points(points: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Points with their names; points that are the same scenario in A and the same in B are one."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for point in points:
        groups.setdefault(tuple(point["digests"]), []).append(point)
    return [
        (
            point_name(same[0]["key"]) + (f" and {len(same) - 1} more that are the same" if len(same) > 1 else ""),
            same[0],
        )
        for same in groups.values()
    ]


def evidence_row(item: dict[str, Any]) -> tuple[str, str, str]:
    """What a prediction rests on: its name, in which predictions it is used, and its held-out error."""
    mape = item["held_out_mape"]
    extrapolated = [side.upper() for side in "ab" if item[f"in_range_{side}"] is False]
    error = "not stated" if mape is None else format_error(mape)
    note = f"; extrapolated in {' and '.join(extrapolated)}" if extrapolated else ""
    return f"{item['what']}: {item['id']}", _SIDES[item["in"]], error + note


def warning_rows(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Warnings of two runs: in which of them, and the text."""
    sides = (("only_a", "A only"), ("only_b", "B only"), ("both", "both"))
    return [(label, text) for side, label in sides for text in document["warnings"][side]]


def fact_lines(document: dict[str, Any]) -> list[str]:
    """Sentences about inputs, intervals, versions and points, in addition to the answer."""
    lines = list(_run_facts(document) if document["compared"] == "runs" else _sweep_facts(document))
    versions = document["versions"]
    return lines + [f"{item['key']} {item['a'] or 'none'} in A, {item['b'] or 'none'} in B." for item in versions]


def _run_facts(document: dict[str, Any]) -> Iterator[str]:
    if document["a"]["digest"] == document["b"]["digest"]:
        yield "Both have the same digest: nothing that the prediction depends on differs."
    elif document["intervals_overlap"] and not document["alike"]:
        yield "Their 90 % intervals overlap."
    if not document["inputs"]["known"]:
        places = ", ".join(document["inputs"]["unknown"])
        yield (
            f"The inputs of {places} are not known, so they are not compared: `sparsim run --out DIR` stores the "
            "scenario with the result, `run --json` does not."
        )


def _sweep_facts(document: dict[str, Any]) -> Iterator[str]:
    summary = document["summary"]
    counts = (
        ("same_inputs", "the same digest in both: nothing that the prediction depends on differs"),
        ("warnings_differ", "different warnings in A and B"),
        ("fidelity_differs", "a different fidelity in A and B"),
    )
    for key, text in counts:
        if summary[key]:
            yield f"{count_of(summary[key], 'point')} {'has' if summary[key] == 1 else 'have'} {text}."
    if document["failed"]:
        yield f"{count_of(len(document['failed']), 'point')} failed in A or in B; `--json` names them."
