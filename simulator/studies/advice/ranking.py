"""Combinations ranked by time, and the recommendation that follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simulator.prediction.run import run
from simulator.scenario.scenario import Scenario
from simulator.studies.advice.candidates import Candidate, density_of
from simulator.studies.advice.search import Found, Outcome
from simulator.studies.variants.names import method_name, schedule_name, topology_name
from simulator.units import show_time

LISTED = 20
"""Combinations in the ranking, besides the best of every method."""
DENSE = "dense"
SAME = 0.01
"""Differences up to this share are too small to matter."""


def ranking(scenario: Scenario, found: Found, targets: Mapping[str, float]) -> list[dict[str, Any]]:
    """The fastest combinations, the best of every method and the scenario's own, with random differences included."""
    noisy = {name for name, curve in scenario.cluster.gpu.kernels.items() if curve.spread}
    varies = scenario.cluster.stragglers.jitter > 0 or bool(scenario.cluster.other_gpus)
    listed = {item.candidate.key for item in [*found.outcomes[:LISTED], *found.best_of_each()]} | {Candidate().key}
    rows = []
    for item in (item for item in found.outcomes if item.candidate.key in listed):
        random = varies or bool(item.kernels & noisy)
        document = run(item.candidate.of(scenario)).document if random else item.document
        rows.append(ranked_row(scenario, item.candidate, document, targets))
    key = _ranked_by(targets)
    rows.sort(key=lambda row: (row[key] is None, row[key] or 0.0, row["iteration_time_s"]))
    dense = next((row for row in rows if row["method"] == DENSE), None)
    yours = next((row for row in rows if not row["overrides"]), None)
    seen: set[str] = set()
    for place, row in enumerate(rows):
        for name, other in (("speed_up_over_dense", dense), ("speed_up_over_yours", yours)):
            row[name] = other["iteration_time_s"] / row["iteration_time_s"] if other else None
        row["best_of_method"] = row["method"] not in seen
        seen.add(row["method"])
        rows[place] = {"rank": place + 1, **row}
    return rows


def ranked_row(
    scenario: Scenario, candidate: Candidate, document: dict[str, Any], targets: Mapping[str, float]
) -> dict[str, Any]:
    """One combination with its times; `targets` are iterations to the target by method."""
    changed = candidate.of(scenario)
    method, kind = method_name(changed), changed.sparsifier.kind
    iterations = targets.get(method, targets.get(kind))
    time = document["iteration_time_s"]
    return {
        "overrides": candidate.overrides,
        "method": method,
        "sparsifier": kind,
        "density": density_of(changed),
        "schedule": schedule_name(changed),
        "topology": topology_name(changed),
        "iteration_time_s": time,
        "iteration_time_interval_s": document["iteration_time_interval_s"],
        "throughput_samples_per_s": document["throughput_samples_per_s"],
        "breakdown_s": document["breakdown_s"],
        "sent_bytes_per_worker": document["traffic"]["sent_bytes_per_worker"],
        "iterations_to_target": iterations,
        "time_to_target_s": None if iterations is None else iterations * time,
    }


def row_of(rows: Sequence[dict[str, Any]], outcome: Outcome | None) -> dict[str, Any] | None:
    """The row of an outcome; None without one."""
    overrides = outcome and outcome.candidate.overrides
    return next((row for row in rows if row["overrides"] == overrides), None)


def recommendation(rows: Sequence[dict[str, Any]], targets: Mapping[str, float]) -> tuple[dict[str, Any], str]:
    """Keys to change, and a sentence: compress only where that is faster by more than `SAME`."""
    key = _ranked_by(targets)
    known = [row for row in rows if row[key] is not None]
    dense = next((row for row in known if row["method"] == DENSE), None)
    other = next((row for row in known if row["method"] != DENSE), None)
    if dense is None or other is None:
        row = known[0] if known else rows[0]
        return row["overrides"], f"Use {_name(row)}: {_times(row)}."
    ratio = dense[key] / other[key]
    if ratio <= 1 + SAME:
        effect = f"saves only {100 * (1 - 1 / ratio):.1f} %" if ratio > 1 else f"is {1 / ratio:.2f} times slower"
        text = f"Stay dense, with {_name(dense)}: {_times(dense)}. The best other method, {_name(other)}, {effect}."
        return dense["overrides"], text
    apart = _interval(other, key)[1] < _interval(dense, key)[0]
    text = (
        f"{'Compress' if apart else 'Compression may pay'}, with {_name(other)}: {_times(other)}, {ratio:.2f} times "
        f"faster than dense at its best, {_name(dense)} ({show_time(dense[key])})"
    )
    text += "." if apart else ", but the two 90 % intervals overlap."
    if not targets:
        text += f" It pays as long as training needs fewer than {ratio:.2f} times the iterations."
    return other["overrides"], text


def _ranked_by(targets: Mapping[str, float]) -> str:
    return "time_to_target_s" if targets else "iteration_time_s"


def _interval(row: dict[str, Any], key: str) -> tuple[float, float]:
    """The interval of a row's time, per iteration or to the target."""
    low, high = row["iteration_time_interval_s"]
    iterations = row[key] / row["iteration_time_s"]
    return low * iterations, high * iterations


def _name(row: dict[str, Any]) -> str:
    return f"{row['method']} ({row['schedule']}, {row['topology']})"


def _times(row: dict[str, Any]) -> str:
    """How long a row takes, in words."""
    time = show_time(row["iteration_time_s"])
    if row["time_to_target_s"] is None:
        return f"an iteration takes {time}"
    return f"{show_time(row['time_to_target_s'])} to the target ({time} per iteration)"
