"""A comparison in blocks: what is compared, the answer, and tables of what differs in the inputs and the results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from simulator.records import replace
from simulator.reporting.answers.compared import (
    BasisPair,
    InputChange,
    PointPair,
    RunDifferences,
    Side,
    SweepDifferences,
    Varied,
)
from simulator.reporting.wording.blocks import PRINTED, Block, Column, Table, Text, columns, describe, texts
from simulator.reporting.wording.runs import SHOWN, value_table
from simulator.reporting.wording.values import format_difference, format_error, format_value
from simulator.scenario.titles import leave_out_changes
from simulator.units import count_of

Differences = RunDifferences | SweepDifferences
_LONG = 60


def describe_side(side: Side) -> str:
    """What A or B is: its name, where it is, and how many points it has."""
    points = f", {count_of(side.points, 'point')}" if side.points is not None else ""
    # Where the place tells the overrides, the name does not have to.
    name = leave_out_changes(side.name) if " --set " in side.place else side.name
    return f"{name} ({side.place}{points})"


def shorten(value: Any, most: int = _LONG) -> str:
    """A value as text of at most so many characters, floats to 6 digits."""
    number = float(f"{value:.6g}") if isinstance(value, float) else value
    text = value if isinstance(value, str) else json.dumps(number, ensure_ascii=False)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def warning_lines(found: Differences) -> list[str]:
    """Warnings of two runs, each with the run that it belongs to."""
    if isinstance(found, SweepDifferences):
        return []
    sides = ((found.warnings.only_a, "A only"), (found.warnings.only_b, "B only"), (found.warnings.both, "both"))
    return [f"({label}) {text}" for texts, label in sides for text in texts]


def fact_lines(found: Differences) -> list[str]:
    """Sentences about inputs, versions and points, in addition to the answer."""
    lines = list(_run_facts(found) if isinstance(found, RunDifferences) else _sweep_facts(found))
    return lines + [f"{item.key} {item.a or 'none'} in A, {item.b or 'none'} in B." for item in found.versions]


def _run_facts(found: RunDifferences) -> Iterator[str]:
    if found.a.digest == found.b.digest:
        yield "Both have the same digest: nothing that the prediction depends on differs."
    if not found.inputs.known:
        places = ", ".join(found.inputs.unknown)
        yield (
            f"The inputs of {places} are not known, so they are not compared: `sparsim run --out DIR` stores the "
            "scenario with the result, `run --json` does not."
        )


def _sweep_facts(found: SweepDifferences) -> Iterator[str]:
    summary = found.summary
    counts = (
        (summary.same_inputs, "the same digest in both: nothing that the prediction depends on differs"),
        (summary.warnings_differ, "different warnings in A and B"),
        (summary.fidelity_differs, "a different fidelity in A and B"),
    )
    for count, text in counts:
        if count:
            yield f"{count_of(count, 'point')} {'has' if count == 1 else 'have'} {text}."
    if found.failed:
        yield f"{count_of(len(found.failed), 'point')} failed in A or in B."


_ROWS = 500
_SAME = 1e-12
_ROUNDING_S = 1e-13
"""Differences of sums of seconds that are none."""
_BARS = Column("bars", "A (blue), B (orange)", "bars")
_KINDS = {"s": "time", "B": "bytes", "share": "share"}
_SIDES = {"both": "both", "a": "A only", "b": "B only"}


def comparison_blocks(found: Differences) -> Iterator[Block]:
    """What is compared, the answer, then what differs in the inputs and in the results."""
    yield from (f"{name}  {describe_side(side)}" for name, side in (("A", found.a), ("B", found.b)))
    yield ""
    yield Text(found.answer, "title")
    yield from fact_lines(found)
    for table in comparison_tables(found, brief=True):
        yield from ("", replace(table, most=PRINTED))
    yield from texts(warning_lines(found), "warning")


def comparison_tables(found: Differences, brief: bool = False) -> Iterator[Table]:
    """All tables; `brief` ones leave out single keys of exchanged parts, and points that are the same in A and B."""
    return _run_tables(found, brief) if isinstance(found, RunDifferences) else _sweep_tables(found, brief)


def _text_table(title: str, names: Sequence[str], rows: Iterable[Sequence[str]], folded: bool = False) -> Table:
    return Table(title, columns("text", *names), list(rows), folded=folded)


def _run_tables(found: RunDifferences, brief: bool) -> Iterator[Table]:
    inputs, fidelity = found.inputs, found.fidelity
    worth = value_table(found.word, found.value_of_information, SHOWN if brief else None)
    if worth is not None:
        yield worth
    if inputs.known:
        yield _text_table("Inputs that differ", ("key", "A", "B"), map(_input_row, inputs.told))
        every = inputs.changes
        if len(every) > len(inputs.told) and not brief:
            title = f"All {len(every)} keys" if len(every) <= _ROWS else f"{_ROWS} of {len(every)} keys"
            yield _text_table(title, ("key", "A", "B"), map(_input_row, every[:_ROWS]), folded=True)
    yield _results(found)
    tiers = [(name, side.tier, side.reason) for name, side in (("A", fidelity.a), ("B", fidelity.b))]
    yield _text_table("Fidelity", ("run", "tier", "reason"), tiers)
    evidence = map(_evidence_row, found.calibration)
    yield _text_table("What the predictions rest on", ("curve or law", "used in", "held-out error"), evidence)


def _input_row(item: InputChange) -> tuple[str, str, str]:
    """An input that differs, or a part with many of them: key, value in A, value in B."""
    a, b = (shorten(value) if item.where in ("both", side) else "-" for side, value in (("a", item.a), ("b", item.b)))
    if item.keys is None:
        return item.key, a, b
    more = f"{item.keys} keys differ"
    return (item.key, more, "") if item.a is None else (item.key, a, f"{b} ({more})")


def _evidence_row(item: BasisPair) -> tuple[str, str, str]:
    mape, inside = item.held_out_mape, (("A", item.in_range_a), ("B", item.in_range_b))
    extrapolated = [side for side, within in inside if within is False]
    note = f"; extrapolated in {' and '.join(extrapolated)}" if extrapolated else ""
    return (
        f"{item.what}: {item.id}",
        _SIDES[item.where],
        ("not stated" if mape is None else format_error(mape)) + note,
    )


def _results(found: RunDifferences) -> Table:
    """Every figure of two runs that is not zero in both; bars for the terms of the breakdown, on one scale."""
    heads = (
        *columns("text", group="part", figure="result"),
        *columns("figure", "A", "B", "difference"),
        *columns("change", "change"),
        _BARS,
    )
    figures = [row for row in found.figures if not row.a == row.b == 0]
    terms = [row for row in figures if row.key.startswith("breakdown_s.")]
    longest = max((value or 0.0 for row in terms for value in (row.a, row.b)), default=0.0)
    rows = []
    for row in figures:
        kind, difference = _KINDS.get(row.unit, "number"), row.difference
        same = difference is not None and abs(difference) <= _SAME * max(abs(row.a or 0.0), abs(row.b or 0.0))
        text = "=" if same else "" if difference is None else format_difference(difference, kind)
        cells = (describe(row.key).label, *(format_value(kind, value, "-") for value in (row.a, row.b)), text)
        bars = _bars(row.a, row.b, longest) if row in terms else None
        rows.append((row.group, *cells, None if same else row.ratio, bars))
    return Table("Results", heads, rows, choose=("group",))


def _bars(a: float | None, b: float | None, longest: float) -> tuple[float, float] | None:
    return (max(0.0, a or 0.0) / longest, max(0.0, b or 0.0) / longest) if longest else None


def _sweep_tables(found: SweepDifferences, brief: bool) -> Iterator[Table]:
    values = [
        (item.key, *(", ".join(map(shorten, only)) or "-" for only in (item.only_a, item.only_b)))
        for item in found.values
    ]
    for one in found.single_valued:
        values.append((one.key, *(shorten(one.value) if one.where == side else "as in its base" for side in "ab")))
    if values:
        yield _text_table("Values that only one sweep has", ("key", "A", "B"), values)
    terms = [row for row in found.terms if max(abs(row.least), abs(row.most)) > _ROUNDING_S]
    if terms:
        heads = (*columns("text", "term"), *columns("time_difference", "mean", "least", "most"))
        rows = [(describe(f"breakdown_s.{row.term}").label, row.mean, row.least, row.most) for row in terms]
        yield Table("Change of each term, B less A", heads, rows)
    points = [p for p in found.points if not (brief and p.same_inputs and p.a == p.b)]
    if points:
        yield _points(_distinct_points(points))
    for side, keys in (("A", found.only_a), ("B", found.only_b)):
        only = [(_point_name(key),) for key in keys]
        if only:
            yield _text_table(f"In {side} only: {count_of(len(only), 'point')}", ("point",), only[:_ROWS])
    failed, errors = found.failed, ("error_a", "error_b")
    if failed:
        named = [
            (_point_name({k: v for k, v in item.items() if k not in errors}), *(item[key] or "" for key in errors))
            for item in failed[:_ROWS]
        ]
        yield _text_table(f"Failed: {count_of(len(failed), 'point')}", ("point", "A", "B"), named)


def _point_name(key: Varied) -> str:
    """A point of a sweep by its varied values.

    >>> _point_name({"sparsifier": "topk", "sparsifier.density": 0.01})
    'sparsifier topk, sparsifier.density 0.01'
    """
    return ", ".join(f"{name} {shorten(value)}" for name, value in key.items() if value is not None)


def _distinct_points(points: list[PointPair]) -> list[tuple[str, PointPair]]:
    """Points with their names; points that are the same scenario in A and the same in B are one."""
    groups: dict[tuple[str | None, ...], list[PointPair]] = {}
    for point in points:
        groups.setdefault(tuple(point.digests), []).append(point)
    more = (f" and {len(same) - 1} more that are the same" if len(same) > 1 else "" for same in groups.values())
    return [(_point_name(same[0].key) + text, same[0]) for same, text in zip(groups.values(), more, strict=True)]


def _points(points: Sequence[tuple[str, PointPair]]) -> Table:
    shown = points[:_ROWS]
    longest = max(max(point.a or 0.0, point.b or 0.0) for _, point in shown)
    heads = (
        *columns("text", "point"),
        *columns("time", a="A", b="B"),
        *columns("change", "change"),
        *columns("text", most="largest difference"),
        _BARS,
    )
    rows = []
    for name, p in shown:
        term, seconds = p.largest_term, p.largest_difference
        most = f"{describe(f'breakdown_s.{term}').label} {format_difference(seconds or 0.0, 'time')}" if term else ""
        rows.append((name, p.a, p.b, p.ratio, most, _bars(p.a, p.b, longest)))
    return Table(f"Points, the largest changes first ({len(shown)} of {len(points)})", heads, rows)
