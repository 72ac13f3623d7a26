"""What differs between a scenario and its baseline in words, and the question that follows from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulator.scenario.scenario import Scenario
from simulator.studies.variants.names import method_name, schedule_name, topology_name
from simulator.units import count_of, join_words, show_bandwidth, show_bytes, show_time

_FAMILIES: dict[str, Callable[[Scenario], str]] = {
    "sparsifier": method_name,
    "scheduler": schedule_name,
    "topology": topology_name,
}
_LABELS = {"cluster.links": "links that change", "cluster.other_gpus": "other GPUs"}
"""Keys whose last part says too little."""
Sides = tuple[str, str]


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
            sides.append(_name_sides(str(key), candidate, baseline) or _name_values(str(key), one, other, stated))
    if not sides:
        return "this set-up", "the same"
    return join_words([here for here, _ in sides]), join_words([there for _, there in sides])


def describe_scenario(scenario: Scenario) -> str:
    """What a scenario is, for a title: `resnet50, topk 0.001, 32 GPUs over 10 Gbit/s`."""
    return f"{_model_name(scenario)}, {method_name(scenario)}, {_describe_gpus(scenario)}"


def _describe_gpus(scenario: Scenario) -> str:
    cluster = scenario.cluster
    gpus = count_of(cluster.workers, "GPU")
    return f"{gpus} over {show_bandwidth(cluster.network.bandwidth)}" if cluster.nodes > 1 else gpus


def describe_question(candidate: Scenario, baseline: Scenario) -> str:
    """The question that a comparison answers, from what the two scenarios are."""
    gpus = _describe_gpus(candidate)
    model = _model_name(candidate)
    if is_about_paying(candidate, baseline):
        rival = "" if baseline.sparsifier.kind == "dense" else f" against {method_name(baseline)}"
        return f"Does {method_name(candidate)} pay{rival} for {model} on {gpus}?"
    here, there = describe_sides(candidate, baseline)
    return f"How long does an iteration of {model} on {gpus} take with {here}, compared with {there}?"


def _model_name(scenario: Scenario) -> str:
    """The workload's name without the GPU that it was timed on."""
    model, _, device = scenario.workload.name.rpartition("-")
    return model if model and device in scenario.workload.device.lower() else scenario.workload.name


def _name_sides(key: str, candidate: Scenario, baseline: Scenario) -> Sides | None:
    """The names of both where a key belongs to a part that has one; None where they are the same."""
    name = _FAMILIES.get(key.partition(".")[0])
    sides = (name(candidate), name(baseline)) if name else ("", "")
    return None if sides[0] == sides[1] else sides


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
