"""What differs between two runs, in what went in and in what came out, term by term."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from simulator.errors import InputError, Problem
from simulator.studies.compare.comparison import TERMS, alike, in_words
from simulator.studies.compare.outcomes import RunOutcome, SweepOutcome, opened
from simulator.studies.sweep.rows import row_of

INERT = ("name", "question", "versus", "measured")
"""Keys of a scenario that nothing is computed from."""
_TOGETHER = ("workload", "cluster.gpu", "cluster.network", "cluster.runtime")
"""Parts that are usually exchanged as a whole: many changes in one of them are told as one."""
_MANY = 6
_GROUPS = {
    "iteration_time_s": "iteration",
    "iteration_time_interval_s": "iteration",
    "throughput_samples_per_s": "iteration",
    "scaling_efficiency": "iteration",
    "breakdown_s": "where the time goes",
    "idle_s": "of it, idle",
    "communication_total_s": "communication",
    "waiting_s": "communication",
    "traffic": "traffic",
    "density": "density",
}


def compare_outcomes(
    a: str, b: str, overrides_a: tuple[str, ...] = (), overrides_b: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Compare two runs or two sweeps, given as `opened` takes them. Raises InputError where one is a run only."""
    first, second = opened(a, overrides_a), opened(b, overrides_b)
    if isinstance(first, RunOutcome) and isinstance(second, RunOutcome):
        return compare_runs(first, second)
    if isinstance(first, SweepOutcome) and isinstance(second, SweepOutcome):
        from simulator.studies.compare.sweep_differences import compare_sweeps  # pandas: where there are tables

        return compare_sweeps(first, second)
    run, sweep = (a, b) if isinstance(first, RunOutcome) else (b, a)
    raise InputError(Problem("compare", "two runs or two sweeps", f"the run {run} and the sweep {sweep}"))


def compare_runs(a: RunOutcome, b: RunOutcome) -> dict[str, Any]:
    """Inputs that differ, every figure of both, and what their results rest on and warn of. JSON-ready."""
    one, other = a.document, b.document
    time, before = float(other["iteration_time_s"]), float(one["iteration_time_s"])
    terms = {key: other["breakdown_s"].get(key, 0.0) - one["breakdown_s"].get(key, 0.0) for key in TERMS}
    words = in_words("B", "A", time, before, terms)
    warnings = [list(map(str, item.get("warnings", []))) for item in (one, other)]
    return {
        "compared": "runs",
        "a": _who(a),
        "b": _who(b),
        "answer": words[0].upper() + words[1:],
        "alike": alike(time, before),
        "intervals_overlap": _overlap(one["iteration_time_interval_s"], other["iteration_time_interval_s"]),
        "inputs": _inputs(a, b),
        "figures": list(_figures(row_of(one), row_of(other))),
        "fidelity": {"a": one.get("fidelity", {}), "b": other.get("fidelity", {})},
        "calibration": _calibration(one.get("calibration", []), other.get("calibration", [])),
        "warnings": {
            "both": [item for item in warnings[0] if item in warnings[1]],
            "only_a": [item for item in warnings[0] if item not in warnings[1]],
            "only_b": [item for item in warnings[1] if item not in warnings[0]],
        },
        "versions": versions_changed(one.get("versions", {}), other.get("versions", {})),
    }


def _who(outcome: RunOutcome) -> dict[str, Any]:
    document = outcome.document
    return {"place": outcome.place, "name": document["scenario"], "digest": document["digest"]}


def _overlap(first: list[float], second: list[float]) -> bool:
    return bool(first[0] <= second[1] and second[0] <= first[1])


def versions_changed(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Software whose version differs."""
    names = sorted({*first, *second})
    return [{"key": n, "a": first.get(n), "b": second.get(n)} for n in names if first.get(n) != second.get(n)]


def _inputs(a: RunOutcome, b: RunOutcome) -> dict[str, Any]:
    """Dotted keys that differ, all of them, and the same with whole parts that were exchanged told as one."""
    unknown = [item.place for item in (a, b) if item.inputs is None]
    if a.inputs is None or b.inputs is None:
        return {"known": False, "unknown": unknown, "changes": [], "told": []}
    first, second = (
        dict(_flat({key: value for key, value in inputs.items() if key not in INERT}))
        for inputs in (a.inputs, b.inputs)
    )
    changes = [
        {"key": key, "a": first.get(key), "b": second.get(key)} | _side(key, first, second)
        for key in dict.fromkeys([*first, *second])
        if key not in first or key not in second or first[key] != second[key]
    ]
    return {"known": True, "unknown": [], "changes": changes, "told": _told(changes)}


def _side(key: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, str]:
    return {"in": "both" if key in first and key in second else "a" if key in first else "b"}


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and plain values; lists of plain values in one."""
    inner: Iterator[tuple[Any, Any]] | None = None
    if isinstance(value, dict) and value:
        inner = iter(value.items())
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        inner = iter(enumerate(value))
    if inner is None:
        yield name, json.dumps(value) if isinstance(value, list | dict) else value
        return
    for key, item in inner:
        yield from _flat(item, f"{name}.{key}" if name else str(key))


def _told(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The changes as a person would tell them."""
    told: list[dict[str, Any]] = []
    for change in changes:
        if change["key"].endswith(".source"):  # where a figure is from, not what it is
            continue
        part = next((part for part in _TOGETHER if change["key"].startswith(f"{part}.")), None)
        inside = [item for item in changes if part and item["key"].startswith(f"{part}.")]
        if part is None or len(inside) <= _MANY:
            told.append(change)
        elif not any(item["key"] == part for item in told):
            named = next((item for item in inside if item["key"] == f"{part}.name"), {"a": None, "b": None})
            told.append({"key": part, "a": named["a"], "b": named["b"], "in": "both", "keys": len(inside)})
    return told


def _figures(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every figure of either, with its group, unit, difference and ratio (of B to A)."""
    groups = list(dict.fromkeys(_GROUPS.values()))
    keys = [key for key in dict.fromkeys([*first, *second]) if key.partition(".")[0] in _GROUPS]
    for key in sorted(keys, key=lambda key: groups.index(_GROUPS[key.partition(".")[0]])):
        group = _GROUPS[key.partition(".")[0]]
        a, b = first.get(key), second.get(key)
        if not all(value is None or _number(value) for value in (a, b)) or (a is None and b is None):
            continue
        yield {
            "group": group,
            "key": key,
            "unit": _unit(key),
            "a": a,
            "b": b,
            "difference": None if a is None or b is None else b - a,
            "ratio": b / a if a and b is not None else None,
        }


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _unit(key: str) -> str:
    if key.endswith("_per_s"):
        return "1/s"
    if key.partition(".")[0].endswith("_s"):
        return "s"
    if "bytes" in key:
        return "B"
    return "share" if key.endswith(("utilisation", "efficiency")) else ""


def _calibration(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the predictions rest on: each with its held-out error, and on which side it is used."""
    sides = [{(item["what"], item["id"]): item for item in side} for side in (first, second)]
    made = []
    for what, name in dict.fromkeys([*sides[0], *sides[1]]):
        here = [side.get((what, name)) for side in sides]
        used = "both" if all(here) else "a" if here[0] else "b"
        evidence = next(item for item in here if item)
        inside = [None if item is None else item.get("in_range") for item in here]
        made.append(
            {
                "what": what,
                "id": name,
                "in": used,
                "held_out_mape": evidence.get("held_out_mape"),
                "in_range_a": inside[0],
                "in_range_b": inside[1],
            }
        )
    return made
