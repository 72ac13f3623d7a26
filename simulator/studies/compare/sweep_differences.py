"""What differs between two sweeps, point by point."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pandas as pd

from simulator.errors import InputError, Problem
from simulator.models.timeline import BREAKDOWN
from simulator.studies.compare.comparison import alike
from simulator.studies.compare.differences import versions_changed
from simulator.studies.compare.outcomes import SweepOutcome
from simulator.units import count_of

_DIGITS = 12
Key = tuple[Any, ...]


def compare_sweeps(a: SweepOutcome, b: SweepOutcome) -> dict[str, Any]:
    """Points joined on the keys that vary, the biggest changes of the iteration time first. JSON-ready.

    A key that varies in one sweep only is left out of the join where it has one value there. Raises InputError where
    it has more, or no key is common.
    """
    keys, single = _joined_on(a, b)
    first, second = _by_key(a.table, keys), _by_key(b.table, keys)
    both = [key for key in first if key in second]
    points = [_point(dict(zip(keys, key[:-1], strict=True)), first[key], second[key]) for key in both]
    came_out = [point for point in points if point["ratio"] is not None]
    came_out.sort(key=lambda point: -abs(math.log(point["ratio"])))
    sides = {"only_a": (first, second), "only_b": (second, first)}
    return {
        "compared": "sweeps",
        "a": _who(a),
        "b": _who(b),
        "answer": _answer(len(both), came_out),
        "keys": list(keys),
        "single_valued": single,
        "values": _values(a, b, keys),
        "summary": _summary(came_out, points),
        "terms": _terms(came_out),
        "points": [{name: value for name, value in point.items() if name != "terms"} for point in came_out],
        "failed": [point["key"] | {"error_a": e[0], "error_b": e[1]} for point in points if any(e := point["errors"])],
        **{
            name: [dict(zip(keys, key[:-1], strict=True)) for key in mine if key not in others]
            for name, (mine, others) in sides.items()
        },
        "versions": versions_changed(a.manifest.get("versions", {}), b.manifest.get("versions", {})),
    }


def _who(outcome: SweepOutcome) -> dict[str, Any]:
    manifest = outcome.manifest
    return {
        "place": outcome.place,
        "name": str(manifest.get("sweep", "")),
        "digest": manifest.get("sweep_digest"),
        "points": len(outcome.table),
    }


def _joined_on(a: SweepOutcome, b: SweepOutcome) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    keys = tuple(key for key in a.keys if key in b.keys)
    single = []
    for side, outcome, other in (("a", a, b), ("b", b, a)):
        for key in (key for key in outcome.keys if key not in other.keys):
            values = _distinct(outcome.table, key)
            if len(values) > 1:
                where, got = f"{outcome.place}: {key}", f"{len(values)} values, and none in {other.place}"
                hint = f"keys of {other.place}: {', '.join(other.keys)}"
                raise InputError(Problem(where, "keys that vary in both sweeps", got, hint))
            single.append({"key": key, "in": side, "value": values[0] if values else None})
    if not keys:
        got = f"{', '.join(a.keys)} in {a.place}, and {', '.join(b.keys)} in {b.place}"
        raise InputError(Problem("compare", "sweeps that vary a common key", got))
    return keys, single


def _distinct(table: pd.DataFrame, key: str) -> list[Any]:
    return list(dict.fromkeys(_plain(value) for value in table[key]))


def _plain(value: Any) -> Any:
    """A cell as JSON has it; numbers to the digits that survive being worked out on another machine."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    value = value.item() if hasattr(value, "item") else value
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def _by_key(table: pd.DataFrame, keys: tuple[str, ...]) -> dict[Key, dict[str, Any]]:
    """Rows by their varied values, told apart by their number where these are the same."""
    seen: Counter[Key] = Counter()
    made: dict[Key, dict[str, Any]] = {}
    for row in table.to_dict("records"):
        key = tuple(_plain(row[name]) for name in keys)
        made[(*key, seen[key])] = row
        seen[key] += 1
    return made


def _point(key: dict[str, Any], a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    times = [_time(row) for row in (a, b)]
    errors = [_plain(row.get("error")) for row in (a, b)]
    known = all(times)
    terms = {term: _term(b, term) - _term(a, term) for term in BREAKDOWN} if known else {}
    most = max(terms, key=lambda term: abs(terms[term])) if any(terms.values()) else None
    return {
        "key": key,
        "a_s": times[0],
        "b_s": times[1],
        "ratio": times[1] / times[0] if known and times[0] and times[1] else None,
        "digests": [_plain(a["digest"]), _plain(b["digest"])],
        "same_inputs": bool(a["digest"] == b["digest"]) if known else False,
        "largest_term": most,
        "largest_difference_s": None if most is None else terms[most],
        "warnings_differ": _plain(a.get("warnings")) != _plain(b.get("warnings")),
        "fidelity_differs": _plain(a.get("fidelity.tier")) != _plain(b.get("fidelity.tier")),
        "terms": terms,
        "errors": errors,
    }


def _time(row: dict[str, Any]) -> float | None:
    value = row.get("iteration_time_s")
    return None if value is None or math.isnan(value) else float(value)


def _term(row: dict[str, Any], term: str) -> float:
    return float(row.get(f"breakdown_s.{term}", 0.0))


def _values(a: SweepOutcome, b: SweepOutcome, keys: tuple[str, ...]) -> list[dict[str, Any]]:
    """Keys whose values differ: those that only one side has."""
    made = []
    for key in keys:
        mine, others = _distinct(a.table, key), _distinct(b.table, key)
        only = [value for value in mine if value not in others], [value for value in others if value not in mine]
        if any(only):
            made.append({"key": key, "only_a": only[0], "only_b": only[1]})
    return made


def _summary(came_out: list[dict[str, Any]], points: list[dict[str, Any]]) -> dict[str, Any]:
    ratios = sorted(point["ratio"] for point in came_out)
    kinds = Counter(_kind(point) for point in came_out)
    made: dict[str, Any] = {
        "joined": len(points),
        "came_out": len(came_out),
        "same_inputs": sum(point["same_inputs"] for point in came_out),
        **{kind: kinds[kind] for kind in ("faster", "slower", "alike")},
        "warnings_differ": sum(point["warnings_differ"] for point in came_out),
        "fidelity_differs": sum(point["fidelity_differs"] for point in came_out),
    }
    if ratios:
        mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
        middle = ratios[len(ratios) // 2] if len(ratios) % 2 else math.sqrt(math.prod(_two_in_the_middle(ratios)))
        made |= {"ratio_min": ratios[0], "ratio_median": middle, "ratio_mean": mean, "ratio_max": ratios[-1]}
    return made


def _kind(point: dict[str, Any]) -> str:
    if alike(point["b_s"], point["a_s"]):
        return "alike"
    return "slower" if point["ratio"] > 1 else "faster"


def _two_in_the_middle(values: list[float]) -> list[float]:
    half = len(values) // 2
    return values[half - 1 : half + 1]


def _terms(came_out: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean, least and most that each term changed by, in seconds."""
    made = []
    for term in BREAKDOWN:
        changes = [point["terms"][term] for point in came_out]
        if any(changes):
            mean = math.fsum(changes) / len(changes)
            made.append({"term": term, "mean_s": mean, "min_s": min(changes), "max_s": max(changes)})
    return made


def _answer(joined: int, came_out: list[dict[str, Any]]) -> str:
    if not joined:
        return "The sweeps have no point in common."
    counts = _summary(came_out, came_out)
    if not came_out:
        return f"{count_of(joined, 'point')} in common; none came out in both sweeps."
    parts = [
        f"{counts[word]} {'are' if counts[word] > 1 else 'is'} {word} in B"
        for word in ("faster", "slower")
        if counts[word]
    ]
    parts += [f"{counts['alike']} within 1 %"] if counts["alike"] else []
    text = f"Of {count_of(len(came_out), 'point')} that came out in both, {', '.join(parts)}."
    if counts["alike"] == len(came_out):
        return text
    return (
        f"{text} B takes {counts['ratio_mean']:.3g} times as long on the (geometric) mean, "
        f"from {counts['ratio_min']:.3g} to {counts['ratio_max']:.3g}."
    )
