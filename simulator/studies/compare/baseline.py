"""A prediction against the baseline that its scenario's `versus` asks for, and what a good implementation saves."""

from __future__ import annotations

from simulator.errors import InputError
from simulator.models.terms import BREAKDOWN
from simulator.prediction.doubts.spread import is_heavy
from simulator.prediction.doubts.verdict import judge
from simulator.prediction.result import RunResult
from simulator.prediction.result_parts import Comparison, ImplementationSaving
from simulator.prediction.run import Prediction, run, time_batch, with_responses
from simulator.records import replace
from simulator.scenario.changes import Overrides
from simulator.scenario.reading import ScenarioSource, load
from simulator.sparsifiers.implementation import GOOD
from simulator.studies.compare.answers import describe_change
from simulator.studies.compare.opponent import Opponent, find_opponent
from simulator.studies.compare.questions import describe_question, describe_sides, is_about_paying
from simulator.studies.compare.verdict_words import describe_cost, describe_verdict
from simulator.studies.variants.changes import with_good_implementation
from simulator.studies.variants.names import combination_name


def run_with_comparison(source: ScenarioSource, overrides: Overrides = (), keep_iterations: bool = False) -> Prediction:
    """What `sparsim run` answers: the prediction with its intervals, what a good implementation would save, and the
    comparison that the scenario's `versus` asks for.

    Raises InputError for a wrong scenario, and where it or its baseline cannot run.
    """
    prediction = with_responses(run(load(source, overrides), keep_iterations))
    prediction.result = replace(prediction.result, implementation=compare_with_good(prediction))
    add_comparison(prediction, source, overrides)
    return prediction


def compare_with_good(prediction: Prediction) -> ImplementationSaving | None:
    """The implementation of a prediction's method, and what one that is fused and never waits would save.

    None where there is nothing to say: a single worker, or a method without kernels; and where the answer would take
    another replay or another simulation of flows.
    """
    scenario, plan = prediction.scenario, prediction.plan
    own = set(plan.work.kernels) - {"update", "copy"}
    if scenario.sparsifier.implementation == GOOD or not own or scenario.workload.gradients or plan.flowing:
        return None
    time, (good,) = prediction.spread.time, time_batch([with_good_implementation(scenario)])
    if isinstance(good, InputError):
        return None
    # Kernels whose time grows faster than their elements are not fused where that is slower.
    good = min(time, good)
    return ImplementationSaving(
        name=scenario.sparsifier.implementation,
        label=scenario.sparsifier.known_implementations()[scenario.sparsifier.implementation].label,
        good_iteration_time=good,
        saving=time - good,
        saving_share=1 - good / time if time else 0.0,
    )


def add_comparison(prediction: Prediction, source: ScenarioSource, overrides: Overrides = ()) -> None:
    """Add the comparison and its question to the result of a scenario that was read from `source`.

    Nothing is added where there is nothing to compare with. Raises InputError where the baseline cannot run.
    """
    opponent = find_opponent(prediction.scenario, source, overrides, search=not is_heavy(prediction.plan))
    if opponent is not None:
        prediction.result = compared_with(opponent, prediction, with_responses(run(opponent.scenario)))


def compared_with(opponent: Opponent, prediction: Prediction, rival: Prediction) -> RunResult:
    """The result of a prediction with its comparison with its opponent, of which `rival` is the prediction."""
    scenario, comparison = prediction.scenario, compare(prediction, rival, opponent.words)
    question = scenario.question or describe_question(scenario, opponent.scenario)
    return replace(prediction.result, comparison=comparison, question=question)


def compare(candidate: Prediction, baseline: Prediction, opponent: str = "") -> Comparison:
    """Speed-up of `candidate` over `baseline`, the difference of every term, and the verdict, and the answer in words.

    Both with their responses. `opponent`: what the baseline is, where the scenario did not describe it.
    """
    own, against = candidate.result, baseline.result
    time, other = own.iteration_time, against.iteration_time
    terms = {key: own.breakdown[key] - against.breakdown[key] for key in BREAKDOWN}
    pays = is_about_paying(candidate.scenario, baseline.scenario)
    names = _name_both(candidate, baseline)
    # There is no ratio to a time of 0 s.
    verdict = judge(candidate.spread, baseline.spread) if bool(time) == bool(other) else None
    answer = [] if verdict is None else [describe_verdict(verdict) if pays else describe_cost(verdict)]
    sides = names if pays else describe_sides(candidate.scenario, baseline.scenario)
    named = [f"The opponent is {opponent}."] if opponent else []
    made = Comparison(
        kind="pays" if pays else "costs",
        baseline=names[1],
        found=opponent,
        opponent_time=other,
        opponent_interval=against.interval,
        opponent_breakdown=against.breakdown,
        opponent_idle=against.idle,
        speed_up=other / time if time else None,
        difference=terms,
        text=" ".join([*answer, describe_change(*sides, time, other, terms), *named]),
    )
    return made if verdict is None else replace(made, **verdict.as_fields())


def _name_both(candidate: Prediction, baseline: Prediction) -> tuple[str, str]:
    """What the two are called: by what differs where their method, schedule and topology have the same names."""
    name, against = combination_name(candidate.scenario), combination_name(baseline.scenario)
    if name != against:
        return name, against
    return "this set-up", f"the same with {describe_sides(candidate.scenario, baseline.scenario)[1]}"
