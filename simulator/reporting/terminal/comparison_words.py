"""Figures and inputs of a comparison as a person reads them, for the terminal and for the page."""

from __future__ import annotations

import json
from typing import Any

from simulator.units import show_bytes, show_time

NAMES = {
    "iteration_time_s": "iteration time",
    "iteration_time_interval_s.p5": "90 % interval, from",
    "iteration_time_interval_s.p95": "90 % interval, to",
    "throughput_samples_per_s": "throughput (samples/s)",
    "scaling_efficiency": "scaling efficiency",
    "breakdown_s.communication_exposed": "communication not hidden",
    "breakdown_s.idle": "idle (waiting for the slowest, for data)",
    "idle_s.waiting_for_slowest": "waiting for the slowest",
    "idle_s.data_loading": "waiting for data",
    "communication_total_s": "communication, hidden or not",
    "waiting_s": "standing at collectives for the slowest",
    "traffic.sent_bytes_per_worker": "sent per worker",
    "traffic.sent_bytes_per_worker_max": "sent by the busiest worker",
    "traffic.total_bytes": "sent by all",
    "traffic.busiest_link.bytes": "over the busiest link",
    "traffic.busiest_link.utilisation": "busiest link's utilisation",
}
_SAME = 1e-12
_LONG = 60


def name_of(key: str) -> str:
    """What a figure is called."""
    return NAMES.get(key, key.partition(".")[2].replace("_", " ") or key)


def figure(value: float | None, unit: str, sign: bool = False) -> str:
    """A figure with its unit.

    >>> figure(0.4, "s"), figure(2e6, "B", sign=True), figure(0.25, "share"), figure(None, "s")
    ('400 ms', '+2 MB', '25 %', '-')
    >>> figure(0.1, "share", sign=True)
    '+10 points'
    """
    if value is None:
        return "-"
    plus = "+" if sign and value > 0 else ""
    if unit == "s":
        return plus + show_time(value)
    if unit == "B":
        return plus + show_bytes(value)
    if unit == "share":
        return f"{plus}{100 * value:.4g} {'points' if sign else '%'}"
    return f"{plus}{value:.4g}"


def change(row: dict[str, Any]) -> tuple[str, str]:
    """Difference and relative change; empty where there is none.

    >>> change({"a": 2.0, "b": 3.0, "difference": 1.0, "ratio": 1.5, "unit": "s"})
    ('+1 s', '+50.0 %')
    """
    difference, ratio = row["difference"], row["ratio"]
    if difference is None:
        return "", ""
    if abs(difference) <= _SAME * max(abs(row["a"]), abs(row["b"])):
        return "=", ""
    return figure(difference, row["unit"], sign=True), "" if ratio is None else percent(ratio)


def percent(ratio: float) -> str:
    """A ratio as a change; as a factor where it is large.

    >>> percent(0.5), percent(12.0)
    ('-50.0 %', 'x 12')
    """
    if abs(ratio - 1) <= _SAME:
        return "="
    if ratio >= 100:
        return f"x {ratio:,.0f}"
    return f"x {ratio:.3g}" if ratio >= 10 else f"{100 * (ratio - 1):+.1f} %"


def input_rows(changes: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Key, value in A, value in B."""
    made = []
    for item in changes:
        if "keys" in item:
            a, b = plain(item["a"]), plain(item["b"])
            key, more = item["key"], f"{item['keys']} keys differ"
            made.append((key, *((more, "") if item["a"] is None else (a, f"{b} ({more})"))))
        else:
            made.append((item["key"], *(plain(item[side]) if item["in"] in ("both", side) else "-" for side in "ab")))
    return made


def plain(value: Any) -> str:
    """A value as text, cut where it is long."""
    text = value if isinstance(value, str) else json.dumps(number(value), ensure_ascii=False)
    return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."


def point_name(key: dict[str, Any]) -> str:
    """A point of a sweep by its varied values.

    >>> point_name({"sparsifier": "topk", "sparsifier.density": 0.01})
    'sparsifier topk, sparsifier.density 0.01'
    """
    return ", ".join(f"{name} {plain(value)}" for name, value in key.items() if value is not None)


def value_rows(document: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Varied keys and the values that only one of two sweeps has: key, in A, in B."""
    made = [
        (item["key"], *(", ".join(map(plain, item[f"only_{side}"])) or "-" for side in "ab"))
        for item in document["values"]
    ]
    for item in document["single_valued"]:
        value = plain(item["value"])
        made.append((item["key"], *(value if item["in"] == side else "as in its base" for side in "ab")))
    return made


def distinct_points(points: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Points with what they are called; those that are one and the same scenario on either side are told once."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for point in points:
        groups.setdefault(tuple(point["digests"]), []).append(point)
    made = []
    for group in groups.values():
        more = f" and {len(group) - 1} more that are the same" if len(group) > 1 else ""
        made.append((point_name(group[0]["key"]) + more, group[0]))
    return made


def number(value: Any) -> Any:
    """Floats short enough to be read."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def evidence(item: dict[str, Any]) -> tuple[str, str, str]:
    """What a prediction rests on: which, its held-out error, and where it left its measured range."""
    mape = item["held_out_mape"]
    outside = [side.upper() for side in "ab" if item[f"in_range_{side}"] is False]
    used = {"both": "both", "a": "A alone", "b": "B alone"}[item["in"]]
    error = "not stated" if mape is None else f"{100 * mape:.1f} %"
    return (
        f"{item['what']}: {item['id']}",
        used,
        error + (f"; outside its range in {', '.join(outside)}" * bool(outside)),
    )


def warnings(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Where a warning is given, and what it says."""
    sides = (("only_a", "A alone"), ("only_b", "B alone"), ("both", "both"))
    return [(label, text) for side, label in sides for text in document["warnings"][side]]


def facts(document: dict[str, Any]) -> list[str]:
    """Sentences about inputs, intervals and versions that go with the answer."""
    made = []
    if document["compared"] == "runs":
        if document["a"]["digest"] == document["b"]["digest"]:
            made.append("Both have the same digest: nothing that the prediction depends on differs.")
        elif document["intervals_overlap"] and not document["alike"]:
            made.append("Their 90 % intervals overlap.")
        if not document["inputs"]["known"]:
            places = ", ".join(document["inputs"]["unknown"])
            made.append(
                f"What went into {places} is not known: `sparsim run --out` stores the scenario, --json does not."
            )
    for item in document["versions"]:
        made.append(f"{item['key']} {item['a'] or 'none'} in A, {item['b'] or 'none'} in B.")
    return made
