"""A prediction against the baseline that its scenario's `versus` asks for."""

from __future__ import annotations

from typing import Any

from simulator.models.terms import BREAKDOWN
from simulator.prediction.doubts.responses import is_heavy
from simulator.prediction.doubts.verdict import judge
from simulator.prediction.run import Prediction, run, with_responses
from simulator.scenario.overrides import Overrides
from simulator.scenario.reading import ScenarioSource, load
from simulator.studies.compare.answers import describe_change
from simulator.studies.compare.implementations import compare_with_good
from simulator.studies.compare.opponent import find_opponent
from simulator.studies.compare.questions import describe_question, describe_sides, is_about_paying
from simulator.studies.compare.verdict_words import describe_cost, describe_verdict
from simulator.studies.variants.names import combination_name


def run_with_comparison(source: ScenarioSource, overrides: Overrides = (), keep_iterations: bool = False) -> Prediction:
    """What `sparsim run` answers: the prediction with its intervals, what a good implementation would save, and the
    comparison that the scenario's `versus` asks for.

    Raises InputError for a wrong scenario, and where it or its baseline cannot run.
    """
    prediction = with_responses(run(load(source, overrides), keep_iterations))
    implementation = compare_with_good(prediction)
    if implementation is not None:
        prediction.document["implementation"] = implementation
    add_comparison(prediction, source, overrides)
    return prediction


def add_comparison(prediction: Prediction, source: ScenarioSource, overrides: Overrides = ()) -> None:
    """Add `comparison` and `question` to the document of a scenario that was read from `source`.

    Nothing is added where there is nothing to compare with. Raises InputError where the baseline cannot run.
    """
    scenario = prediction.scenario
    opponent = find_opponent(scenario, source, overrides, search=not is_heavy(prediction.plan))
    if opponent is None:
        return
    prediction.document["comparison"] = compare(prediction, with_responses(run(opponent.scenario)), opponent.words)
    prediction.document["question"] = scenario.question or describe_question(scenario, opponent.scenario)


def compare(candidate: Prediction, baseline: Prediction, opponent: str = "") -> dict[str, Any]:
    """Speed-up of `candidate` over `baseline`, the difference of every term, and the verdict, and the answer in words.

    Both with their responses. `opponent`: what the baseline is, where the scenario did not describe it.
    """
    time, other = (item.document["iteration_time_s"] for item in (candidate, baseline))
    terms = {key: candidate.document["breakdown_s"][key] - baseline.document["breakdown_s"][key] for key in BREAKDOWN}
    pays = is_about_paying(candidate.scenario, baseline.scenario)
    name, against = _name_both(candidate, baseline)
    # There is no ratio to a time of 0 s.
    verdict = judge(candidate.spread, baseline.spread) if bool(time) == bool(other) else None
    answer = [] if verdict is None else [describe_verdict(verdict) if pays else describe_cost(verdict)]
    sides = (name, against) if pays else describe_sides(candidate.scenario, baseline.scenario)
    return {
        "kind": "pays" if pays else "costs",
        "baseline": against,
        "opponent": opponent,
        "baseline_iteration_time_s": other,
        "baseline_iteration_time_interval_s": baseline.document["iteration_time_interval_s"],
        "baseline_breakdown_s": baseline.document["breakdown_s"],
        "baseline_idle_s": baseline.document["idle_s"],
        "speed_up": other / time if time else None,
        "difference_s": terms,
        "answer": " ".join([*answer, describe_change(*sides, time, other, terms), *_name_opponent(opponent)]),
        **(verdict.as_keys() if verdict else {}),
    }


def _name_opponent(opponent: str) -> list[str]:
    return [f"The opponent is {opponent}."] if opponent else []


def _name_both(candidate: Prediction, baseline: Prediction) -> tuple[str, str]:
    """What the two are called: by what differs where their method, schedule and topology have the same names."""
    name, against = combination_name(candidate.scenario), combination_name(baseline.scenario)
    if name != against:
        return name, against
    return "this set-up", f"the same with {describe_sides(candidate.scenario, baseline.scenario)[1]}"
