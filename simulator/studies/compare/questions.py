"""What differs between a scenario and its baseline in words, and the question that follows from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulator.hardware.gpu import Gpu
from simulator.scenario.scenario import Scenario
from simulator.scenario.titles import cluster_name, method_name, model_name
from simulator.studies.variants.names import schedule_name, topology_name
from simulator.units import count_of, join_words, show_bandwidth, show_bytes, show_time

_FAMILIES: dict[str, Callable[[Scenario], str]] = {
    "sparsifier": method_name,
    "scheduler": schedule_name,
    "topology": topology_name,
}
_NOUNS = {"scheduler": "the schedule ", "topology": "the topology "}
"""What stands before the name of a member, where the name alone would not say what it is."""
_LABELS = {"cluster.links": "links that change"}
"""Keys whose last part says too little."""
Sides = tuple[str, str]
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
        one, other = (_value_at(scenario.resolved(), str(key)) for scenario in (candidate, baseline))
        if one != other:
            if key == "cluster.other_gpus":
                sides.append((_name_gpus(candidate), _name_gpus(baseline)))
                continue
            sides.append(_name_sides(str(key), candidate, baseline) or _name_values(str(key), one, other, stated))
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


def _name_sides(key: str, candidate: Scenario, baseline: Scenario) -> Sides | None:
    """The names of both where a key belongs to a part that has one; None where they are the same."""
    name = _FAMILIES.get(key.partition(".")[0])
    sides = (name(candidate), name(baseline)) if name else ("", "")
    if sides[0] == sides[1]:
        return None
    noun = _NOUNS.get(key.partition(".")[0], "")
    return f"{noun}{sides[0]}", f"{noun}{sides[1]}"


def _name_gpus(scenario: Scenario) -> str:
    """The GPUs of the nodes: `2 nodes of Tesla V100`, or those of all nodes where they are alike."""
    cluster = scenario.cluster
    kinds = [f"{count_of(len(item.nodes), 'node')} of {_short(item.gpu)}" for item in cluster.other_gpus]
    return join_words(kinds) if kinds else f"{_short(cluster.gpu)} on all nodes"


def _short(gpu: Gpu) -> str:
    """The GPU's name without its software."""
    return gpu.name.partition(",")[0]


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


def _value_at(resolved: Any, key: str) -> Any:
    """The value at a dotted key of a resolved scenario; None where there is none."""
    for part in key.split("."):
        if isinstance(resolved, list):
            resolved = resolved[int(part)] if part.isdecimal() and int(part) < len(resolved) else None
        else:
            resolved = resolved.get(part) if isinstance(resolved, dict) else None
    return resolved


def _show(value: Any) -> str:
    """A value of a resolved scenario as a person writes it: quantities in suitable units."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:g}"
    number, _, unit = str(value).partition(" ")
    show = {"s": show_time, "B": show_bytes, "B/s": show_bandwidth}.get(unit)
    return show(float(number)) if show else str(value)
