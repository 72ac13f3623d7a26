"""What differs between two sweeps, point by point."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulator.errors import InputError, Problem, format_value
from simulator.loading.documents import read_text
from simulator.models.timeline import BREAKDOWN
from simulator.prediction.run_files import check_table, read_json, read_parquet
from simulator.records import Record, replace
from simulator.reporting.answers.compared import (
    PointCounts,
    PointPair,
    Side,
    SingleValued,
    SweepDifferences,
    TermChange,
    ValuesOfOne,
    Varied,
    VersionChange,
)
from simulator.scenario.cluster import LEFT_OUT
from simulator.studies.compare.verdict_words import is_alike
from simulator.units import count_of, join_words

Key = tuple[Any, ...]
Row = dict[str, Any]
"""A row of a table."""


_ACCEPTED = "a scenario, a file of `sparsim run --json`, or a folder of `sparsim run --out` or `sparsim sweep --out`"


class SweepOutcome(Record):
    """A sweep: the row of each point by column (None where a cell is empty), the varied keys, and its manifest."""

    place: str
    rows: list[Row]
    keys: tuple[str, ...]
    manifest: Mapping[str, Any]


def read_sweep(folder: Path, place: str) -> SweepOutcome:
    """The sweep that is stored in a folder. Raises InputError where there is none."""
    path, manifest = folder / "results.parquet", folder / "manifest.json"
    if not path.is_file():
        parts = any(folder.glob("results-*.parquet"))
        hint = "these are shards: run the same sweep without --shard to join them" if parts else ""
        raise InputError(Problem(place, _ACCEPTED, "a folder with neither result.json nor results.parquet", hint))
    table = read_parquet(path)
    columns = list(table.columns)
    if not {"digest", "error"} <= set(columns):  # a sweep whose points all failed has no other columns
        raise InputError(Problem(str(path), "results of `sparsim sweep`", f"columns {format_value(columns)}"))
    about, keys = read_json(read_text(manifest), str(manifest)), tuple(columns[: columns.index("digest")])
    table = check_table(table, str(path)).astype(object)
    return SweepOutcome(place, table.where(table.notna(), None).to_dict("records"), keys, about)


def compare_sweeps(a: SweepOutcome, b: SweepOutcome) -> SweepDifferences:
    """Points joined on the keys that vary, the largest changes of the iteration time first.

    A key that varies in one sweep only is left out of the join if it has one value there. Raises InputError where it
    has several, or where the sweeps vary no common key.
    """
    keys, single = _common_keys(a, b)
    first, second = _rows_by_key(a.rows, keys), _rows_by_key(b.rows, keys)
    joined = [_compare_point(_name(keys, key), first[key], second[key]) for key in first if key in second]
    points = [point for point, _ in joined]
    known = [(abs(math.log(point.ratio)), point, terms) for point, terms in joined if point.ratio is not None]
    known.sort(key=lambda item: -item[0])
    succeeded = [point for _, point, _ in known]
    summary = _summarise(succeeded, points)
    lossy = any(row.get("elastic.goodput") is not None for row in (*a.rows, *b.rows))
    named = [(side, str(side.manifest.get("sweep", "")), side.manifest.get("sweep_digest")) for side in (a, b)]
    sides = [Side(side.place, name, digest, len(side.rows)) for side, name, digest in named]
    return SweepDifferences(
        compared="sweeps",
        a=sides[0],
        b=sides[1],
        answer=" ".join([_answer(summary), *([LEFT_OUT] if lossy else [])]),
        keys=list(keys),
        single_valued=single,
        values=_compare_values(a, b, keys),
        summary=summary,
        terms=[
            TermChange(term, math.fsum(seconds) / len(seconds), min(seconds), max(seconds))
            for term in BREAKDOWN
            if any(seconds := [terms[term] for _, _, terms in known])
        ],
        points=succeeded,
        failed=[point.key | {"error_a": e[0], "error_b": e[1]} for point in points if any(e := point.errors)],
        only_a=[_name(keys, key) for key in first if key not in second],
        only_b=[_name(keys, key) for key in second if key not in first],
        versions=changed_versions(a.manifest.get("versions", {}), b.manifest.get("versions", {})),
    )


def _name(keys: tuple[str, ...], key: Key) -> Varied:
    return dict(zip(keys, key[:-1], strict=True))


def _common_keys(a: SweepOutcome, b: SweepOutcome) -> tuple[tuple[str, ...], list[SingleValued]]:
    keys = tuple(key for key in a.keys if key in b.keys)
    single = []
    for side, outcome, other in (("a", a, b), ("b", b, a)):
        for key in (key for key in outcome.keys if key not in other.keys):
            values = _distinct(outcome, key)
            if len(values) > 1:
                where, got = f"{outcome.place}: {key}", f"{len(values)} values, and none in {other.place}"
                hint = f"keys of {other.place}: {', '.join(other.keys)}"
                raise InputError(Problem(where, "keys that vary in both sweeps", got, hint))
            single.append(SingleValued(key, side, values[0] if values else None))
    if not keys:
        got = f"{', '.join(a.keys)} in {a.place}, and {', '.join(b.keys)} in {b.place}"
        raise InputError(Problem("compare", "sweeps that vary a common key", got))
    return keys, single


def _distinct(sweep: SweepOutcome, key: str) -> list[Any]:
    return list(dict.fromkeys(_rounded(row[key]) for row in sweep.rows))


def _rounded(value: Any) -> Any:
    """A number to 12 digits, since the last ones differ between machines."""
    return float(f"{value:.12g}") if isinstance(value, float) else value


def _rows_by_key(rows: list[Row], keys: tuple[str, ...]) -> dict[Key, Row]:
    """Rows by their varied values; a last number tells rows with equal values apart."""
    seen: Counter[Key] = Counter()
    made: dict[Key, Row] = {}
    for row in rows:
        key = tuple(_rounded(row[name]) for name in keys)
        made[(*key, seen[key])] = row
        seen[key] += 1
    return made


def _compare_point(key: Varied, a: Row, b: Row) -> tuple[PointPair, dict[str, float]]:
    """A point of both sweeps, and the change of each term (s)."""
    before, after = a.get("iteration_time_s"), b.get("iteration_time_s")
    known = bool(before and after)
    columns = {term: f"breakdown_s.{term}" for term in BREAKDOWN if known}
    terms = {term: (b.get(column) or 0.0) - (a.get(column) or 0.0) for term, column in columns.items()}
    most = max(terms, key=lambda term: abs(terms[term])) if any(terms.values()) else None
    point = PointPair(
        key=key,
        a=before,
        b=after,
        ratio=after / before if before and after else None,
        digests=[a["digest"], b["digest"]],
        same_inputs=known and a["digest"] == b["digest"],
        largest_term=most,
        largest_difference=None if most is None else terms[most],
        warnings_differ=a.get("warnings") != b.get("warnings"),
        fidelity_differs=a.get("fidelity.tier") != b.get("fidelity.tier"),
        errors=[row.get("error") for row in (a, b)],
    )
    return point, terms


def _compare_values(a: SweepOutcome, b: SweepOutcome, keys: tuple[str, ...]) -> list[ValuesOfOne]:
    made = []
    for key in keys:
        mine, others = _distinct(a, key), _distinct(b, key)
        only = [value for value in mine if value not in others], [value for value in others if value not in mine]
        if any(only):
            made.append(ValuesOfOne(key, *only))
    return made


def _summarise(succeeded: list[PointPair], points: list[PointPair]) -> PointCounts:
    """Counts of points, and the smallest, median, mean (geometric) and largest ratio of B to A."""
    times = [(point.a, point.b) for point in succeeded if point.a and point.b]
    ratios = sorted(after / before for before, after in times)
    kinds = Counter(
        "alike" if is_alike(after, before) else "slower" if after > before else "faster" for before, after in times
    )
    made = PointCounts(
        joined=len(points),
        came_out=len(succeeded),
        same_inputs=sum(point.same_inputs for point in succeeded),
        faster=kinds["faster"],
        slower=kinds["slower"],
        alike=kinds["alike"],
        warnings_differ=sum(point.warnings_differ for point in succeeded),
        fidelity_differs=sum(point.fidelity_differs for point in succeeded),
    )
    if not ratios:
        return made
    mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
    median = math.sqrt(statistics.median_low(ratios) * statistics.median_high(ratios))
    return replace(made, ratio_min=ratios[0], ratio_median=median, ratio_mean=mean, ratio_max=ratios[-1])


def _answer(summary: PointCounts) -> str:
    joined, succeeded = summary.joined, summary.came_out
    if not joined:
        return "The sweeps have no point in common."
    if not succeeded:
        return f"{count_of(joined, 'point')} in common; none succeeded in both sweeps."
    counts = (("faster", summary.faster), ("slower", summary.slower))
    parts = [f"{count} {'are' if count > 1 else 'is'} {word} in B" for word, count in counts if count]
    parts += [f"{summary.alike} within 1 %"] if summary.alike else []
    text = f"Of {count_of(succeeded, 'point')} that succeeded in both sweeps, {join_words(parts)}."
    if summary.alike == succeeded:
        return text
    return (
        f"{text} B takes {summary.ratio_mean:.3g} times as long as A on the (geometric) mean, "
        f"from {summary.ratio_min:.3g} to {summary.ratio_max:.3g} times."
    )


def changed_versions(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[VersionChange]:
    """Software whose version differs."""
    names = sorted({*first, *second})
    return [VersionChange(n, first.get(n), second.get(n)) for n in names if first.get(n) != second.get(n)]
