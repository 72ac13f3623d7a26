"""Two predictions side by side, and in words why one is faster."""

from __future__ import annotations

from typing import Any

from simulator.prediction.run import Prediction
from simulator.units import show_time

TERMS = {
    "communication_exposed": "exposed communication",
    "selection": "selection",
    "combine": "combining what arrived",
    "idle": "waiting for the slowest worker",
    "update": "the update",
    "forward": "forward",
    "backward": "backward",
}
_SMALL = 0.01


def compare(candidate: Prediction, baseline: Prediction) -> dict[str, Any]:
    """Speed-up of `candidate` over `baseline`, the difference of every term, and the answer in a sentence or two."""
    time, other = (item.document["iteration_time_s"] for item in (candidate, baseline))
    terms = {key: candidate.document["breakdown_s"][key] - baseline.document["breakdown_s"][key] for key in TERMS}
    name, against = method(candidate), method(baseline)
    if name == against:
        name, against = "this set-up", f"the same with {_changes(candidate.scenario.versus)}"
    speed_up = other / time if time else None  # what takes no time has no speed-up
    return {
        "baseline": against,
        "baseline_iteration_time_s": other,
        "baseline_breakdown_s": baseline.document["breakdown_s"],
        "baseline_idle_s": baseline.document["idle_s"],
        "speed_up": speed_up,
        "difference_s": terms,
        "answer": _answer(name, against, time, other, terms),
    }


def _changes(versus: dict[str, Any] | None) -> str:
    """What `versus` changes, in words."""
    parts = []
    for key, value in (versus or {}).items():
        shown = ", ".join(f"{name} {item}" for name, item in value.items()) if isinstance(value, dict) else value
        parts.append(f"no {key}" if value in ([], {}, None) else f"{key} {shown}")
    return " and ".join(parts) or "other inputs"


def method(prediction: Prediction) -> str:
    """What runs, in words: sparsifier with its density, schedule and topology."""
    scenario = prediction.scenario
    density = getattr(scenario.sparsifier, "density", None)
    share = f" {density:.4g}" if density is not None else ""
    return f"{scenario.sparsifier.kind}{share} ({scenario.scheduler.kind}, {scenario.topology.kind})"


def _answer(name: str, against: str, time: float, other: float, terms: dict[str, float]) -> str:
    words = in_words(name, against, time, other, terms)
    if alike(time, other):
        return words
    return f"{'Yes' if time < other else 'No'}: {words}"


def alike(time: float, other: float) -> bool:
    """Whether two times differ by so little that nobody would care: 1 %."""
    return abs(time - other) <= _SMALL * max(time, other)


def in_words(name: str, against: str, time: float, other: float, terms: dict[str, float]) -> str:
    """How long an iteration takes with `name`, against `other` seconds with `against`, and which `terms` make it so."""
    floor = _SMALL * max(time, other)
    saved = [f"{TERMS[k]} {show_time(-v)}" for k, v in terms.items() if v < -floor]
    spent = [f"{TERMS[k]} {show_time(v)}" for k, v in terms.items() if v > floor]
    if alike(time, other):
        verdict = f"It makes no difference: {name} {show_time(time)}, {against} {show_time(other)} per iteration."
    else:
        # Nothing is so many times slower than what takes no time.
        times = f"{max(time, other) / min(time, other):.2f} times " if min(time, other) else ""
        change = f"{times}{'faster' if time < other else 'slower'}"
        verdict = f"with {name} an iteration takes {show_time(time)}, {change} than {against} ({show_time(other)})."
    why = "; ".join(
        part
        for part in (
            f"it saves {', '.join(saved)}" if saved else "",
            f"it costs {', '.join(spent)}" if spent else "",
        )
        if part
    )
    return f"{verdict} Compared with {against}, {why}." if why else verdict
