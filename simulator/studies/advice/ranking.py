"""Combinations ranked by time, and the verdict on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simulator.prediction.run import run
from simulator.scenario.scenario import Scenario
from simulator.studies.advice.candidates import Candidate, density_of
from simulator.studies.advice.search import Found, Outcome
from simulator.studies.advice.wording import method_of, schedule_name, topology_name
from simulator.units import show_time

LISTED = 20
"""Combinations in the ranking, besides the best of every method."""
DENSE = "dense"
SAME = 0.01
"""Differences up to this share make no difference."""


def own_of(found: Found) -> Outcome | None:
    """The scenario as it stands."""
    return next((item for item in found.outcomes if item.candidate == Candidate()), None)


def best_of_each(found: Found) -> list[Outcome]:
    """The best outcome of every method, fastest first."""
    best: dict[tuple[str, str], Outcome] = {}
    for item in found.outcomes:
        best.setdefault(item.candidate.method, item)
    return list(best.values())


def best_of(scenario: Scenario, found: Found, method: str) -> Outcome | None:
    """The best outcome of one method, None where it was not looked at."""
    return next((item for item in found.outcomes if method_of(scenario, item.candidate) == method), None)


def ranking(scenario: Scenario, found: Found, targets: Mapping[str, float]) -> list[dict[str, Any]]:
    """The fastest combinations, the best of every method and the scenario's own, as they are predicted in full."""
    noisy = {name for name, curve in scenario.cluster.gpu.kernels.items() if curve.spread}
    varies = scenario.cluster.stragglers.jitter > 0 or bool(scenario.cluster.other_gpus)
    best = {item.candidate.key for item in best_of_each(found)}
    own = Candidate().key
    kept = [
        item
        for place, item in enumerate(found.outcomes)
        if place < LISTED or item.candidate.key in best or item.candidate.key == own
    ]
    rows = []
    for item in kept:
        random = varies or bool(item.kernels & noisy)
        document = run(item.candidate.of(scenario)).document if random else item.document
        rows.append(ranked_row(scenario, item.candidate, document, targets))
    key = "time_to_target_s" if targets else "iteration_time_s"
    rows.sort(key=lambda row: (row[key] is None, row[key] or 0.0, row["iteration_time_s"]))
    dense = next((row for row in rows if row["method"] == DENSE), None)
    yours = next((row for row in rows if not row["overrides"]), None)
    seen: set[str] = set()
    for place, row in enumerate(rows):
        row["speed_up_over_dense"] = dense["iteration_time_s"] / row["iteration_time_s"] if dense else None
        row["speed_up_over_yours"] = yours["iteration_time_s"] / row["iteration_time_s"] if yours else None
        row["best_of_method"] = row["method"] not in seen
        seen.add(row["method"])
        rows[place] = {"rank": place + 1, **row}
    return rows


def ranked_row(
    scenario: Scenario, candidate: Candidate, document: dict[str, Any], targets: Mapping[str, float]
) -> dict[str, Any]:
    """One combination with its times; `targets` are iterations to the target by method."""
    made = candidate.of(scenario)
    method = method_of(scenario, candidate)
    iterations = targets.get(method, targets.get(made.sparsifier.kind))
    time = document["iteration_time_s"]
    return {
        "overrides": candidate.overrides,
        "method": method,
        "sparsifier": made.sparsifier.kind,
        "density": density_of(made),
        "schedule": schedule_name(made),
        "topology": topology_name(made),
        "iteration_time_s": time,
        "iteration_time_interval_s": document["iteration_time_interval_s"],
        "throughput_samples_per_s": document["throughput_samples_per_s"],
        "breakdown_s": document["breakdown_s"],
        "sent_bytes_per_worker": document["traffic"]["sent_bytes_per_worker"],
        "iterations_to_target": iterations,
        "time_to_target_s": None if iterations is None else iterations * time,
    }


def row_of(rows: Sequence[dict[str, Any]], outcome: Outcome | None) -> dict[str, Any] | None:
    """The row of an outcome."""
    if outcome is None:
        return None
    return next((row for row in rows if row["overrides"] == outcome.candidate.overrides), None)


def verdict(rows: Sequence[dict[str, Any]], targets: Mapping[str, float]) -> dict[str, Any]:
    """What to do, in a sentence: compress only where that is faster by more than what the prediction can tell apart."""
    key = "time_to_target_s" if targets else "iteration_time_s"
    known = [row for row in rows if row[key] is not None]
    dense = next((row for row in known if row["method"] == DENSE), None)
    lossy = next((row for row in known if row["method"] != DENSE), None)
    if dense is None or lossy is None:
        row = known[0] if known else rows[0]
        return {"overrides": row["overrides"], "text": f"Use {called(row)}: {takes(row)}."}
    ratio = dense[key] / lossy[key]
    if ratio <= 1 + SAME:
        how = f"saves {1 - 1 / ratio:.1%}" if ratio > 1 else f"is {1 / ratio:.2f} times slower"
        text = f"Stay dense, with {called(dense)}: {takes(dense)}; the best method that drops or rounds something, "
        return {"overrides": dense["overrides"], "text": f"{text}{called(lossy)}, {how}."}
    apart = _interval(lossy, key)[1] < _interval(dense, key)[0]
    text = "Compress" if apart else "Compression may pay"
    text += f", with {called(lossy)}: {takes(lossy)}, {ratio:.2f} times faster than the best dense one, "
    text += f"{called(dense)} ({show_time(dense[key])})"
    text += "." if apart else ", but the two intervals overlap."
    if not targets:
        text += f" It pays as long as training takes fewer than {ratio:.2f} times the iterations."
    return {"overrides": lossy["overrides"], "text": text}


def _interval(row: dict[str, Any], key: str) -> tuple[float, float]:
    """The interval of a row's time, per iteration or to the target."""
    low, high = row["iteration_time_interval_s"]
    times = row[key] / row["iteration_time_s"]
    return low * times, high * times


def called(row: dict[str, Any]) -> str:
    """A row's name: `topk 0.01 (wfbp, ring)`."""
    return f"{row['method']} ({row['schedule']}, {row['topology']})"


def takes(row: dict[str, Any]) -> str:
    """How long a row takes, in words."""
    if row["time_to_target_s"] is not None:
        return f"{show_time(row['time_to_target_s'])} to the target ({show_time(row['iteration_time_s'])} an iteration)"
    return f"an iteration takes {show_time(row['iteration_time_s'])}"
