"""The tables of a comparison: what differs in the inputs and in the results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from simulator.reporting.wording.comparison import shorten
from simulator.reporting.wording.quantities import describe
from simulator.reporting.wording.tables import Column, Table
from simulator.reporting.wording.values import format_difference, format_error, format_value
from simulator.reporting.wording.verdict_tables import SHOWN, value_table
from simulator.units import count_of

_ROWS = 500
_SAME = 1e-12
_ROUNDING_S = 1e-13
"""Differences of sums of seconds that are none."""
_BARS = Column("bars", "A (blue), B (orange)", "bars")
_CHANGE = Column("change", "change", "change")
_KINDS = {"s": "time", "B": "bytes", "share": "share"}
_SIDES = {"both": "both", "a": "A only", "b": "B only"}


def comparison_tables(document: dict[str, Any], brief: bool = False) -> Iterator[Table]:
    """All tables; `brief` ones leave out single keys of exchanged parts, and points that are the same in A and B."""
    return (_run_tables if document["compared"] == "runs" else _sweep_tables)(document, brief)


def _text_table(title: str, names: Sequence[str], rows: Iterable[Sequence[str]], folded: bool = False) -> Table:
    return Table(title, [Column(name, name) for name in names], list(rows), folded=folded)


def _run_tables(document: dict[str, Any], brief: bool) -> Iterator[Table]:
    inputs, fidelity = document["inputs"], document["fidelity"]
    worth = value_table(document.get("verdict"), document.get("value_of_information"), SHOWN if brief else None)
    if worth is not None:
        yield worth
    if inputs["known"]:
        yield _text_table("Inputs that differ", ("key", "A", "B"), map(_input_row, inputs["told"]))
        every = inputs["changes"]
        if len(every) > len(inputs["told"]) and not brief:
            title = f"All {len(every)} keys" if len(every) <= _ROWS else f"{_ROWS} of {len(every)} keys"
            yield _text_table(title, ("key", "A", "B"), map(_input_row, every[:_ROWS]), folded=True)
    yield _results(document)
    tiers = [(side.upper(), fidelity[side].tier, fidelity[side].reason) for side in "ab"]
    yield _text_table("Fidelity", ("run", "tier", "reason"), tiers)
    evidence = map(_evidence_row, document["calibration"])
    yield _text_table("What the predictions rest on", ("curve or law", "used in", "held-out error"), evidence)


def _input_row(item: dict[str, Any]) -> tuple[str, str, str]:
    """An input that differs, or a part with many of them: key, value in A, value in B."""
    a, b = (shorten(item[side]) if item.get("in", "both") in ("both", side) else "-" for side in "ab")
    if "keys" not in item:
        return item["key"], a, b
    more = f"{item['keys']} keys differ"
    return (item["key"], more, "") if item["a"] is None else (item["key"], a, f"{b} ({more})")


def _evidence_row(item: dict[str, Any]) -> tuple[str, str, str]:
    mape = item["held_out_mape"]
    extrapolated = [side.upper() for side in "ab" if item[f"in_range_{side}"] is False]
    note = f"; extrapolated in {' and '.join(extrapolated)}" if extrapolated else ""
    return (
        f"{item['what']}: {item['id']}",
        _SIDES[item["in"]],
        ("not stated" if mape is None else format_error(mape)) + note,
    )


def _results(document: dict[str, Any]) -> Table:
    """Every figure of two runs that is not zero in both; bars for the terms of the breakdown, on one scale."""
    columns = (
        *(Column("group", "part"), Column("figure", "result")),
        *(Column(name, name, "figure") for name in ("A", "B", "difference")),
        *(_CHANGE, _BARS),
    )
    figures = [row for row in document["figures"] if not row["a"] == row["b"] == 0]
    terms = [row for row in figures if row["key"].startswith("breakdown_s.")]
    longest = max((row[side] or 0.0 for row in terms for side in "ab"), default=0.0)
    rows = []
    for row in figures:
        kind, difference = _KINDS.get(row["unit"], "number"), row["difference"]
        same = difference is not None and abs(difference) <= _SAME * max(abs(row["a"]), abs(row["b"]))
        text = "=" if same else "" if difference is None else format_difference(difference, kind)
        cells = (describe(row["key"]).label, *(format_value(kind, row[side], "-") for side in "ab"), text)
        bars = _bars(row["a"], row["b"], longest) if row in terms else None
        rows.append((row["group"], *cells, None if same else row["ratio"], bars))
    return Table("Results", columns, rows, choose=("group",))


def _bars(a: float | None, b: float | None, longest: float) -> tuple[float, float] | None:
    return (max(0.0, a or 0.0) / longest, max(0.0, b or 0.0) / longest) if longest else None


def _sweep_tables(document: dict[str, Any], brief: bool) -> Iterator[Table]:
    values = [
        (item["key"], *(", ".join(map(shorten, item[f"only_{side}"])) or "-" for side in "ab"))
        for item in document["values"]
    ]
    for item in document["single_valued"]:
        values.append((item["key"], *(shorten(item["value"]) if item["in"] == s else "as in its base" for s in "ab")))
    if values:
        yield _text_table("Values that only one sweep has", ("key", "A", "B"), values)
    terms = [row for row in document["terms"] if max(abs(row["min_s"]), abs(row["max_s"])) > _ROUNDING_S]
    if terms:
        keys = {"mean_s": "mean", "min_s": "least", "max_s": "most"}
        columns = (Column("term", "term"), *(Column(key, name, "time_difference") for key, name in keys.items()))
        rows = [(describe(f"breakdown_s.{row['term']}").label, *(row[key] for key in keys)) for row in terms]
        yield Table("Change of each term, B less A", columns, rows)
    points = [p for p in document["points"] if not (brief and p["same_inputs"] and p["a_s"] == p["b_s"])]
    if points:
        yield _points(_distinct_points(points))
    for side in "ab":
        only = [(_point_name(key),) for key in document[f"only_{side}"]]
        if only:
            yield _text_table(f"In {side.upper()} only: {count_of(len(only), 'point')}", ("point",), only[:_ROWS])
    failed, errors = document["failed"], ("error_a", "error_b")
    if failed:
        named = [
            (_point_name({k: v for k, v in item.items() if k not in errors}), *(item[key] or "" for key in errors))
            for item in failed[:_ROWS]
        ]
        yield _text_table(f"Failed: {count_of(len(failed), 'point')}", ("point", "A", "B"), named)


def _point_name(key: dict[str, Any]) -> str:
    """A point of a sweep by its varied values.

    >>> _point_name({"sparsifier": "topk", "sparsifier.density": 0.01})
    'sparsifier topk, sparsifier.density 0.01'
    """
    return ", ".join(f"{name} {shorten(value)}" for name, value in key.items() if value is not None)


def _distinct_points(points: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Points with their names; points that are the same scenario in A and the same in B are one."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for point in points:
        groups.setdefault(tuple(point["digests"]), []).append(point)
    more = (f" and {len(same) - 1} more that are the same" if len(same) > 1 else "" for same in groups.values())
    return [(_point_name(same[0]["key"]) + text, same[0]) for same, text in zip(groups.values(), more, strict=True)]


def _points(points: Sequence[tuple[str, dict[str, Any]]]) -> Table:
    shown = points[:_ROWS]
    longest = max(max(point["a_s"], point["b_s"]) for _, point in shown)
    columns = (
        *(Column("point", "point"), Column("a", "A", "time"), Column("b", "B", "time"), _CHANGE),
        *(Column("most", "largest difference"), _BARS),
    )
    rows = []
    for name, p in shown:
        term, seconds = p["largest_term"], p["largest_difference_s"]
        most = f"{describe(f'breakdown_s.{term}').label} {format_difference(seconds, 'time')}" if term else ""
        rows.append((name, p["a_s"], p["b_s"], p["ratio"], most, _bars(p["a_s"], p["b_s"], longest)))
    return Table(f"Points, the largest changes first ({len(shown)} of {len(points)})", columns, rows)
