"""A prediction against the baseline that its scenario's `versus` describes."""

from __future__ import annotations

from typing import Any

from simulator.models.terms import BREAKDOWN
from simulator.prediction.run import Prediction
from simulator.studies.compare.answers import describe_change
from simulator.studies.compare.verdict import judge
from simulator.studies.compare.verdict_words import describe_cost, describe_verdict
from simulator.studies.variants.names import combination_name, method_name


def compare(candidate: Prediction, baseline: Prediction) -> dict[str, Any]:
    """Speed-up of `candidate` over `baseline`, the difference of every term, the verdict, and the answer in words.

    Both with their responses.
    """
    time, other = (item.document["iteration_time_s"] for item in (candidate, baseline))
    terms = {key: candidate.document["breakdown_s"][key] - baseline.document["breakdown_s"][key] for key in BREAKDOWN}
    name, against = combination_name(candidate.scenario), combination_name(baseline.scenario)
    if name == against:
        name, against = "this set-up", f"the same with {_describe_changes(candidate.scenario.versus)}"
    verdict = judge(candidate, baseline)
    pays = method_name(candidate.scenario) != method_name(baseline.scenario)
    answer = describe_verdict(verdict) if pays else describe_cost(verdict)
    return {
        "baseline": against,
        "baseline_iteration_time_s": other,
        "baseline_iteration_time_interval_s": baseline.document["iteration_time_interval_s"],
        "baseline_breakdown_s": baseline.document["breakdown_s"],
        "baseline_idle_s": baseline.document["idle_s"],
        "speed_up": other / time if time else None,
        "difference_s": terms,
        "answer": f"{answer} {describe_change(name, against, time, other, terms)}",
        **verdict.as_keys(),
    }


def _describe_changes(versus: dict[str, Any] | None) -> str:
    """What `versus` changes, in words."""
    parts = []
    for key, value in (versus or {}).items():
        text = ", ".join(f"{name} {item}" for name, item in value.items()) if isinstance(value, dict) else value
        parts.append(f"no {key}" if value in ([], {}, None) else f"{key} {text}")
    return " and ".join(parts) or "other inputs"
