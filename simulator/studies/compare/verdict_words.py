"""Comparisons in words: verdicts, times and terms, what differs, and the question that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from simulator.loading.replacing import plain_value_at
from simulator.models.timeline import BREAKDOWN, TERM_LABELS
from simulator.prediction.doubts.spread import Ratio
from simulator.prediction.doubts.verdict import value_of_information
from simulator.prediction.result import RunResult
from simulator.prediction.result_parts import BOTH_TIMES, UNDISTURBED, Worth
from simulator.scenario.scenario import Scenario
from simulator.scenario.titles import cluster_name, method_name, model_name
from simulator.studies.variants.names import schedule_name, topology_name
from simulator.units import count_of, join_words, show_minutes, show_probability, show_quantity, show_time

_FIRST = ("communication_exposed", "selection", "combine", "idle", "update")
_TERMS = (*_FIRST, *(term for term in BREAKDOWN if term not in _FIRST))
"""The order in which an answer names the terms."""
Sides = tuple[str, str]
SMALL = 0.01
"""Differences up to this share of the longer time are too small to matter."""


def is_alike(time: float, other: float) -> bool:
    """Whether two times differ by at most 1 %."""
    return abs(time - other) <= SMALL * max(time, other)


def describe_change(name: str, against: str, time: float, other: float, terms: dict[str, float]) -> str:
    """Both times, and which `terms` (differences in s) are longer and shorter; goes with a verdict."""
    joint = " and" if is_alike(time, other) else ", instead of"
    times = f"{BOTH_TIMES} {show_time(time)} with {name}{joint} {show_time(other)} with {against}."
    threshold = SMALL * max(time, other)
    removed = [f"{show_time(-terms[key])} of {TERM_LABELS[key]}" for key in _TERMS if terms[key] < -threshold]
    added = [f"{show_time(terms[key])} of {TERM_LABELS[key]}" for key in _TERMS if terms[key] > threshold]
    changes = (("removes", removed), ("adds", added))
    said = " but ".join(f"{verb} {join_words(parts)}" for verb, parts in changes if parts)
    return f"{times} It {said}." if said else times


def describe_times(names: Sides, results: tuple[RunResult, RunResult], terms: dict[str, float]) -> str:
    """What either run loses where machines come and go, and then what `describe_change` says of them undisturbed."""
    time, other = (each.iteration_time for each in results)
    change = describe_change(*names, time, other, terms)
    pairs = [(name, each, each.elastic) for name, each in zip(names, results, strict=True)]
    if not any(elastic for _, _, elastic in pairs):
        return change
    endless = [f"The training with {name} never ends: {it.cause}." for name, _, it in pairs if it and not it.finishes]
    lasting = " and ".join(f"{show_time(each.lasting_time)} with {name}" for name, each, _ in pairs)
    said = endless or [f"With what is lost where machines come and go, an iteration takes {lasting}."]
    return f"{' '.join(said)} {UNDISTURBED}{change}"


_FAMILIES = ("sparsifier", "scheduler", "topology")
_NOUNS = {"scheduler": "the schedule ", "topology": "the topology "}
"""What stands before the name of a member, where the name alone would not say what it is."""
_LABELS = {"cluster.links": "links that change"}
"""Keys whose last part says too little."""
_ALIKE = "this set-up", "the same"
"""What two scenarios are called that differ in nothing."""


def is_about_paying(candidate: Scenario, baseline: Scenario) -> bool:
    """Whether a comparison asks if a method pays: the methods differ. Otherwise it asks what something costs."""
    return method_name(candidate) != method_name(baseline)


def describe_sides(candidate: Scenario, baseline: Scenario) -> Sides:
    """What the candidate has, and what the baseline has instead: `stragglers` and `no stragglers`."""
    versus = candidate.versus if isinstance(candidate.versus, dict) else dict.fromkeys(_FAMILIES, "")
    sides: list[Sides] = []
    for key, stated in versus.items():
        one, other = (plain_value_at(scenario.resolved(), str(key)) for scenario in (candidate, baseline))
        if one == other:
            continue
        part = str(key).partition(".")[0]
        name, noun = _NAMES.get(str(key)) or _NAMES.get(part), _NOUNS.get(part, "")
        here, there = (name(candidate), name(baseline)) if name else ("", "")
        sides.append((noun + here, noun + there) if here != there else _name_values(str(key), one, other, stated))
    if not sides:
        return _ALIKE
    return join_words([here for here, _ in sides]), join_words([there for _, there in sides])


def describe_question(candidate: Scenario, baseline: Scenario) -> str:
    """The question that a comparison answers, from what the two scenarios are."""
    model, gpus = model_name(candidate), cluster_name(candidate)
    if is_about_paying(candidate, baseline):
        rival = "" if baseline.sparsifier.kind == "dense" else f" against {method_name(baseline)}"
        return f"Does {method_name(candidate)} pay{rival} for {model} on {gpus}?"
    here, there = describe_sides(candidate, baseline)
    question = f"How long does an iteration of {model} on {gpus} take"
    return f"{question}?" if (here, there) == _ALIKE else f"{question} with {here}, compared with {there}?"


def _name_gpus(scenario: Scenario) -> str:
    """The GPUs of the nodes, without their software: `2 nodes of Tesla V100`, or those of all nodes where they are
    alike."""
    kinds = [(count_of(len(item.nodes), "node"), item.gpu.name) for item in scenario.cluster.other_gpus]
    named = [f"{nodes} of {name.partition(',')[0]}" for nodes, name in kinds]
    return join_words(named) or f"{scenario.cluster.gpu.name.partition(',')[0]} on all nodes"


_NAMES: dict[str, Callable[[Scenario], str]] = {
    "sparsifier": method_name,
    "scheduler": schedule_name,
    "topology": topology_name,
    "cluster.other_gpus": _name_gpus,
}
"""The names of a part, by its key or by the family that the key belongs to."""


def _name_values(key: str, one: Any, other: Any, stated: Any) -> Sides:
    """Two values of a key in words; `stated` is how `versus` writes the second one."""
    label = _LABELS.get(key) or key.rpartition(".")[2].replace("_", " ")
    if stated in ([], {}, None):
        return (label if isinstance(one, list | dict) else f"{label} {_show(one)}"), f"no {label}"
    if isinstance(one, dict) and isinstance(other, dict):
        if one.get("name") != other.get("name"):
            return f"{label} {one.get('name')}", f"{label} {other.get('name')}"
        fields = [field for field in one if one[field] != other.get(field)]
        if not any(isinstance(side.get(field), list | dict) for side in (one, other) for field in fields):
            here, there = (", ".join(f"{field} {_show(side.get(field))}" for field in fields) for side in (one, other))
            label = one.get("kind", label)
            return f"{label} with {here}", f"{label} with {there}"
    if isinstance(one, list | dict) or isinstance(other, list | dict):
        return f"this {label}", f"other {label}"
    return f"{label} {_show(one)}", f"{label} {_show(other)}"


def _show(value: Any) -> str:
    """A value of a resolved scenario as a person writes it: quantities in suitable units."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:g}"
    return show_quantity(str(value))


_LIKELY = 0.2
"""A measurement that decides a question with less than this probability is not recommended."""
_LONG = 2.0
"""From this ratio on a cost is a factor instead of a share."""


class VerdictWords(NamedTuple):
    """How the answers to a question begin, and the claim whose probability they state."""

    yes: str
    no: str
    undecided: str
    claim: str


PAYS = VerdictWords("Yes", "No", "Not decided", "it pays")
TWO_RUNS = VerdictWords("B is faster than A", "B is slower than A", "Not decided which one is faster", "B is faster")


def describe_verdict(ratio: Ratio, question: VerdictWords = PAYS) -> str:
    """The answer with the speed-up, its interval and its probability, and what would decide it where that is open.

    With the default: `Yes: 1.31 times faster (90 % interval 1.12 to 1.50); it pays with probability 0.97.`
    """
    low, high = ratio.interval()
    fast = f"{_number(low)} to {_number(high)} times as fast (90 % interval)" if high > low else ""
    if ratio.word == "alike":
        return f"It makes no difference ({fast})." if fast else "It makes no difference."
    sure = f"; {question.claim} with probability {show_probability(ratio.probability())}" if fast else ""
    if ratio.word == "undecided":
        return f"{question.undecided}: {fast}{sure}. {describe_measurement(value_of_information(ratio))}"
    return f"{question.yes if ratio.word == 'yes' else question.no}: {describe_speed_up(ratio)}{sure}."


def describe_cost(ratio: Ratio) -> str:
    """The answer to a question that is not about paying: the share of the iteration that something costs or saves."""
    time = 1 / ratio.value
    high, low = (1 / end for end in ratio.interval())
    if ratio.word == "alike":
        return describe_verdict(ratio)
    if ratio.word == "undecided":
        longer = show_probability(1 - ratio.probability())
        return (
            f"Not decided whether it costs time: an iteration takes {_number(low)} to {_number(high)} times as long "
            f"(90 % interval); it takes longer with probability {longer}. "
            f"{describe_measurement(value_of_information(ratio))}"
        )
    if time >= _LONG:
        return f"It takes {_number(time)} times as long{_interval(low, high)}."
    if time > 1:
        return f"It costs {_percent(time)}{_interval(low, high, _percent)}."
    return f"It saves {_percent(time)}{_interval(high, low, _percent)}."


def describe_speed_up(ratio: Ratio) -> str:
    """How many times faster or slower, with the 90 % interval: `1.17 times slower (90 % interval 1.05 to 1.30)`."""
    low, high = ratio.interval()
    if ratio.log >= 0:
        return f"{_number(ratio.value)} times faster{_interval(low, high)}"
    return f"{_number(1 / ratio.value)} times slower{_interval(1 / high, 1 / low)}"


def describe_measurement(rows: Sequence[Worth], lines: int = 0) -> str:
    """What would decide an open question, from the entries of `value_of_information`.

    Where no single measurement is likely to, it is to be tried; `lines` of configuration are needed for that.
    """
    if not rows:
        return "No measurement that sparsim has a command for would decide it."
    best = rows[0]
    if best.decided < _LIKELY:
        needs = f": {count_of(lines, 'line')} to set" if lines else ""
        return f"No single measurement is likely to decide it; try it{needs}."
    command = f"(`{best.command}`, about {show_minutes(best.minutes)})"
    sure = show_probability(best.decided)
    return f"Measure {best.input} on your machines {command}, and it is decided with probability {sure}."


def _number(value: float) -> str:
    """A ratio to two decimals, large ones to three digits."""
    return f"{value:.2f}" if value < 100 else f"{value:,.3g}"


def _percent(time: float) -> str:
    """By how much a ratio of times differs from 1."""
    return f"{float(f'{100 * abs(time - 1):.2g}'):g} %"


def _interval(one: float, other: float, show: Callable[[float], str] = _number) -> str:
    return f" (90 % interval {show(one)} to {show(other)})" if one != other else ""
