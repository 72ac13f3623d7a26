"""Why a method is slower than dense, or faster, in words with the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulator.scenario.scenario import Scenario
from simulator.studies.advice.search import Outcome
from simulator.studies.advice.wording import method_of, name_of
from simulator.units import count_of, show_bytes, show_time

_NAMED = 6
_SHARE = 0.01


def reasons(scenario: Scenario, dense: Outcome, others: Sequence[Outcome], own: Outcome | None) -> list[dict[str, Any]]:
    """Reasons, each with its `kind`, the `methods` it holds for, and a `text`.

    `dense` is its best combination, `others` the best of each other method, `own` the scenario as it stands.
    """
    made = [_room(scenario, dense)]
    faster = [item for item in others if item.time < dense.time * (1 - _SHARE)]
    if faster:
        made.append(_winning(scenario, dense, faster))
    losing: dict[str, list[tuple[Outcome, float]]] = {}
    for item in others:
        if item.time > dense.time * (1 + _SHARE):
            kind, seconds = _main_cost(item, dense)
            losing.setdefault(kind, []).append((item, seconds))
    for kind in ("selection", "combine", "communication_exposed", "idle"):
        if kind in losing:
            made += _LOSING[kind](scenario, dense, losing[kind])
    if own is not None and own.time > dense.time * (1 + _SHARE) and method_of(scenario, own.candidate) == "dense":
        made.append(_schedule(scenario, dense, own))
    return made


def _reason(kind: str, methods: Sequence[str], text: str) -> dict[str, Any]:
    return {"kind": kind, "methods": list(methods), "text": text}


def _room(scenario: Scenario, dense: Outcome) -> dict[str, Any]:
    """What there is to win."""
    exposed = dense.document["breakdown_s"]["communication_exposed"]
    share = exposed / dense.time if dense.time else 0.0
    text = (
        f"At its best, dense leaves {show_time(exposed)} of {show_time(dense.time)} ({share:.1%}) "
        "of communication not hidden: no method can win more, and what it computes itself comes off that."
    )
    return _reason("room", ["dense"], text)


def _winning(scenario: Scenario, dense: Outcome, faster: Sequence[Outcome]) -> dict[str, Any]:
    best = faster[0]
    mine, theirs = best.document["breakdown_s"], dense.document["breakdown_s"]
    own = mine["selection"] + mine["combine"] - theirs["combine"]
    text = (
        f"{method_of(scenario, best.candidate)} cuts communication not hidden from "
        f"{show_time(theirs['communication_exposed'])} to {show_time(mine['communication_exposed'])}, and costs "
        f"{show_time(max(0.0, own))} of selecting and combining."
    )
    return _reason("less communication", [method_of(scenario, item.candidate) for item in faster], text)


def _main_cost(item: Outcome, dense: Outcome) -> tuple[str, float]:
    """The term in which a method loses most against dense, and the seconds."""
    mine, theirs = item.document["breakdown_s"], dense.document["breakdown_s"]
    differences = {key: mine[key] - theirs[key] for key in ("selection", "combine", "communication_exposed", "idle")}
    return max(differences.items(), key=lambda pair: pair[1])


def _each(scenario: Scenario, losing: Sequence[tuple[Outcome, float]]) -> str:
    """The methods with what it costs them, the cheapest first."""
    ordered = sorted(losing, key=lambda pair: pair[1])
    parts = [f"{method_of(scenario, item.candidate)} {show_time(seconds)}" for item, seconds in ordered[:_NAMED]]
    more = len(ordered) - _NAMED
    return ", ".join(parts) + (f" and {more} more" if more > 0 else "")


def _selection(scenario: Scenario, dense: Outcome, losing: Sequence[tuple[Outcome, float]]) -> list[dict[str, Any]]:
    exposed = dense.document["breakdown_s"]["communication_exposed"]
    text = (
        f"Selecting runs on the GPU, where nothing hides it, and there are {show_time(exposed)} to win. It costs "
        f"{_each(scenario, losing)}."
    )
    return [_reason("selection", _names(scenario, losing), text)]


def _combine(scenario: Scenario, dense: Outcome, losing: Sequence[tuple[Outcome, float]]) -> list[dict[str, Any]]:
    workers = scenario.cluster.workers
    text = (
        f"Putting together what {workers} workers sent grows with their number, since every gathered payload is added "
        f"on its own: {_each(scenario, losing)}."
    )
    return [_reason("combine", _names(scenario, losing), text)]


def _exposed(scenario: Scenario, dense: Outcome, losing: Sequence[tuple[Outcome, float]]) -> list[dict[str, Any]]:
    """Start-ups, build-up or plain bytes: by what each sends, against dense."""
    whole, calls = _sent(dense), _calls(dense)
    groups: dict[str, list[tuple[Outcome, float]]] = {}
    for pair in losing:
        density = pair[0].document["density"]
        more = _sent(pair[0]) > whole
        kind = "start-up" if not more else "build-up" if density["target"] < 1 < density["build_up"] else "bytes"
        groups.setdefault(kind, []).append(pair)
    made = []
    for kind, group in groups.items():
        item = min(group, key=lambda pair: pair[1])[0]
        name, density = method_of(scenario, item.candidate), item.document["density"]
        text = f"Exchanges leave more exposed than dense's, by {_each(scenario, group)}."
        if kind == "start-up":
            text += (
                f" Their bytes are fewer, but not their calls: {name} sends {show_bytes(_sent(item))} per worker in "
                f"{_called(item)}, dense {show_bytes(whole)} in {calls}, and every call has its start-up."
            )
        elif kind == "build-up":
            text += (
                f" Selections overlap little: {density['selected']:.3g} of the gradient on each worker of {name} is "
                f"{density['aggregated']:.3g} together, and {show_bytes(_sent(item))} travel per worker, not "
                f"{show_bytes(whole)}."
            )
        else:
            text += (
                " What each worker sends has to reach every other one, unsummed, so bytes grow with their number: "
                f"{show_bytes(_sent(item))} per worker with {name}, {show_bytes(whole)} dense."
            )
        made.append(_reason(kind, _names(scenario, group), text))
    return made


def _sent(item: Outcome) -> float:
    return float(item.document["traffic"]["sent_bytes_per_worker"])


def _calls(item: Outcome) -> int:
    return sum(row["calls"] for row in item.document["collectives"])


def _called(item: Outcome) -> str:
    return count_of(_calls(item), "call")


def _waiting(scenario: Scenario, dense: Outcome, losing: Sequence[tuple[Outcome, float]]) -> list[dict[str, Any]]:
    text = f"All wait for the slowest worker's work: {_each(scenario, losing)}."
    return [_reason("waiting", _names(scenario, losing), text)]


def _schedule(scenario: Scenario, dense: Outcome, own: Outcome) -> dict[str, Any]:
    text = (
        f"Another schedule or topology alone, {name_of(scenario, dense.candidate)}, takes {show_time(dense.time)} "
        f"instead of {show_time(own.time)}: {_called(dense)} instead of {_calls(own)}."
    )
    return _reason("schedule", ["dense"], text)


def _names(scenario: Scenario, losing: Sequence[tuple[Outcome, float]]) -> list[str]:
    return [method_of(scenario, item.candidate) for item, _ in losing]


_LOSING = {"selection": _selection, "combine": _combine, "communication_exposed": _exposed, "idle": _waiting}
