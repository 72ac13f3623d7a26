"""Why methods are slower or faster than dense, in sentences with the numbers."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.reporting.answers.advised import Reason
from simulator.studies.advice.search import TimedCombination
from simulator.units import count_of, show_bytes, show_time

_NAMED = 6
"""Methods that a sentence names."""
_SHARE = 0.01
Loss = tuple[TimedCombination, float]
"""A method's best combination, and the seconds that it loses against dense in one term."""


def reasons(
    workers: int, dense: TimedCombination, others: Sequence[TimedCombination], own: TimedCombination | None
) -> list[Reason]:
    """Why methods are slower or faster than dense.

    `dense` is its best combination, `others` the best of each other method, `own` the scenario's own combination.
    """
    made = [_possible_saving(dense)]
    faster = [item for item in others if item.time < dense.time * (1 - _SHARE)]
    if faster:
        made.append(_saving(dense, faster))
    losing: dict[str, list[Loss]] = {}
    for item in others:
        if item.time > dense.time * (1 + _SHARE):
            term, seconds = _largest_loss(item, dense)
            losing.setdefault(term, []).append((item, seconds))
    if group := losing.get("selection"):
        text = (
            f"Selection runs on the GPU, where nothing hides it, and it can save at most "
            f"{show_time(_term(dense, 'communication_exposed'))} of exposed communication. It adds {_list(group)}."
        )
        made.append(_reason("selection", group, text))
    if group := losing.get("combine"):
        text = (
            f"Every payload from {workers} workers is added up separately, so combine grows with the number of "
            f"workers: it adds {_list(group)}."
        )
        made.append(_reason("combine", group, text))
    made += _exposed(dense, losing.get("communication_exposed", []))
    if group := losing.get("idle"):
        made.append(_reason("waiting", group, f"All workers wait for the slowest worker: it adds {_list(group)}."))
    if own is not None and own.time > dense.time * (1 + _SHARE) and own.method == "dense":
        text = (
            f"Another schedule or topology alone, {dense.name}, takes {show_time(dense.time)} instead of "
            f"{show_time(own.time)}, with {count_of(dense.calls, 'call')} instead of {own.calls}."
        )
        made.append(Reason("schedule", ["dense"], text))
    return made


def _reason(kind: str, losing: Sequence[Loss], text: str) -> Reason:
    return Reason(kind, [item.method for item, _ in losing], text)


def _term(item: TimedCombination, term: str) -> float:
    return item.result.breakdown[term]


def _possible_saving(dense: TimedCombination) -> Reason:
    exposed, slowed = _term(dense, "communication_exposed"), _term(dense, "slowdown")
    share, also = exposed + slowed, f" and {show_time(slowed)} of slowdown by communication" if slowed else ""
    share = share / dense.time if dense.time else 0.0
    text = (
        f"The fastest dense combination has {show_time(exposed)} of exposed communication{also} in an iteration of "
        f"{show_time(dense.time)} ({100 * share:.1f} %). No method can save more than that, and its own selection "
        "and combine reduce the saving."
    )
    return Reason("room", ["dense"], text)


def _saving(dense: TimedCombination, faster: Sequence[TimedCombination]) -> Reason:
    best = faster[0]
    added = _term(best, "selection") + _term(best, "combine") - _term(dense, "combine")
    text = (
        f"{best.method} reduces exposed communication from {show_time(_term(dense, 'communication_exposed'))} to "
        f"{show_time(_term(best, 'communication_exposed'))} and adds {show_time(max(0.0, added))} of selection and "
        "combine."
    )
    return Reason("less communication", [item.method for item in faster], text)


def _largest_loss(item: TimedCombination, dense: TimedCombination) -> tuple[str, float]:
    """The term in which a method loses most against dense, and the seconds."""
    terms = ("selection", "combine", "communication_exposed", "idle")
    return max(((term, _term(item, term) - _term(dense, term)) for term in terms), key=lambda pair: pair[1])


def _list(losing: Sequence[Loss]) -> str:
    """The seconds that each method loses, the smallest loss first."""
    ordered = sorted(losing, key=lambda pair: pair[1])
    parts = [f"{show_time(seconds)} with {item.method}" for item, seconds in ordered[:_NAMED]]
    more = len(ordered) - _NAMED
    return ", ".join(parts) + (f", and more with {count_of(more, 'other method')}" if more > 0 else "")


def _exposed(dense: TimedCombination, losing: Sequence[Loss]) -> list[Reason]:
    """Reasons for more exposed communication than dense: start-ups, build-up or bytes, by what each method sends."""
    groups: dict[str, list[Loss]] = {}
    for item, seconds in losing:
        density = item.result.density
        more = _sent(item) > _sent(dense)
        kind = "start-up" if not more else "build-up" if density.target < 1 < density.build_up else "bytes"
        groups.setdefault(kind, []).append((item, seconds))
    made = []
    for kind, group in groups.items():
        item = min(group, key=lambda pair: pair[1])[0]
        name, density = item.method, item.result.density
        sent, sent_dense = show_bytes(_sent(item)), show_bytes(_sent(dense))
        texts = {
            "start-up": "They send fewer bytes but not in fewer calls, and every call has a start-up: each worker "
            f"sends {sent} in {count_of(item.calls, 'call')} with {name}, "
            f"{sent_dense} in {dense.calls} with dense.",
            "build-up": f"Workers select different elements: with {name} each selects {density.selected:.3g} of the "
            f"gradient, all together {density.aggregated:.3g}, and each sends {sent} instead of {sent_dense}.",
            "bytes": "Every worker's payload goes to all others without being added up on the way, so the bytes grow "
            f"with the number of workers: each worker sends {sent} with {name}, {sent_dense} with dense.",
        }
        text = f"Exposed communication is longer than with dense, by {_list(group)}. {texts[kind]}"
        made.append(_reason(kind, group, text))
    return made


def _sent(item: TimedCombination) -> float:
    return item.result.traffic.sent_per_worker
