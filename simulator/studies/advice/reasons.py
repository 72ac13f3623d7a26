"""Why methods are slower or faster than dense, and what a speed-up rests on that was not measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simulator.prediction.doubts.doubt import Doubt
from simulator.prediction.doubts.own_error import MODEL
from simulator.prediction.doubts.spread import Ratio, Response
from simulator.prediction.doubts.verdict import weightiest
from simulator.reporting.answers.advised import Reason, Unmeasured
from simulator.studies.advice.search import Combination
from simulator.units import count_of, join_words, show_bytes, show_time

SAME = 0.01
"""Differences up to this share are too small to matter."""
_LISTED = 5
_FEW = 2


def find_unmeasured(ratio: Ratio) -> list[Unmeasured]:
    """Inputs that were not measured here and may make a speed-up smaller by more than 1 %, the worst one first.

    The model's own error is no input that can be measured.
    """
    worst = [(min(item.low, item.high), item) for item in ratio.responses]
    rows = [
        _describe(item, math.exp(ratio.log + effect), turns=ratio.log > 0 > ratio.log + effect)
        for effect, item in sorted(worst, key=lambda pair: pair[0])
        if effect < -SAME and _not_measured(item)
    ]
    return rows[:_LISTED]


def describe_unmeasured(rows: Sequence[Unmeasured], than: str = "dense") -> str:
    """What a recommendation must say: kernels that were not measured, and all else that alone turns the answer.

    `than`: what the speed-ups of the rows are over.
    """
    named = sorted((row for row in rows if row.turns or row.is_kernel), key=lambda row: not row.is_kernel)[:_FEW]
    if not named:
        return ""
    parts = [f"{row.input} (at the worst {row.speed_up_at_worst:.2f} times as fast as {than})" for row in named]
    kind = "kernels" if all(row.is_kernel for row in named) else "inputs"
    return f" This rests on {kind} that were not measured: {join_words(parts)}."


def _not_measured(item: Response) -> list[Doubt]:
    """The inputs of a response that were not measured, those that matter most first."""
    return weightiest(each for each in item.doubts if each.level != "measured" and each.what != MODEL)


def _describe(item: Response, at_worst: float, *, turns: bool) -> Unmeasured:
    inputs = _not_measured(item)
    names = dict.fromkeys(each.measurement.what if each.measurement else f"{each.what} of {each.id}" for each in inputs)
    return Unmeasured(
        input=join_words(list(names)),
        what=inputs[0].what,
        id=[each.id for each in inputs],
        level=inputs[0].level,
        width=max(each.width for each in inputs),
        speed_up_at_worst=at_worst,
        turns=turns,
    )


_NAMED = 6
"""Methods that a sentence names."""
_SHARE = 0.01
_LOSING = ("selection", "combine", "communication_exposed", "idle")
Loss = tuple[Combination, float]
"""A method's best combination, and the seconds that it loses against dense in one term."""


def reasons(
    workers: int, dense: Combination | None, others: Sequence[Combination], own: Combination | None
) -> list[Reason]:
    """Why methods are slower or faster than dense.

    `dense` is its best combination, `others` the best of each other method, `own` the scenario's own combination.
    """
    if workers == 1:
        return [Reason("room", [], "There is no communication with one worker.")]
    if dense is None:
        return []
    made = [_possible_saving(dense)]
    faster = [item for item in others if item.time < dense.time * (1 - _SHARE)]
    if faster:
        made.append(_saving(dense, faster))
    losing: dict[str, list[Loss]] = {"selection": [], "combine": []}
    waiting: list[Loss] = []
    for item in (item for item in others if item.time > dense.time * (1 + _SHARE)):
        lost = {term: item.row.breakdown[term] - dense.row.breakdown[term] for term in _LOSING}
        most = max(lost, key=lambda term: lost[term])
        kind = _why_exposed(item, dense) if most == "communication_exposed" else most
        (waiting if kind == "idle" else losing.setdefault(kind, [])).append((item, lost[most]))
    made += [_loss(kind, group, dense, workers) for kind, group in (*losing.items(), ("waiting", waiting)) if group]
    if own is not None and own.time > dense.time * (1 + _SHARE) and own.row.method == "dense":
        text = (
            f"Another schedule or topology alone, {dense.name}, takes {show_time(dense.time)} instead of "
            f"{show_time(own.time)}, with {count_of(dense.calls, 'call')} instead of {own.calls}."
        )
        made.append(Reason("schedule", ["dense"], text))
    return made


def _possible_saving(dense: Combination) -> Reason:
    exposed, slowed = (dense.row.breakdown[term] for term in ("communication_exposed", "slowdown"))
    share, also = exposed + slowed, f" and {show_time(slowed)} of slowdown by communication" if slowed else ""
    share = share / dense.time if dense.time else 0.0
    text = (
        f"The fastest dense combination has {show_time(exposed)} of exposed communication{also} in an iteration of "
        f"{show_time(dense.time)} ({100 * share:.1f} %). No method can save more than that, and its own selection "
        "and combine reduce the saving."
    )
    return Reason("room", ["dense"], text)


def _saving(dense: Combination, faster: Sequence[Combination]) -> Reason:
    best, exposed = faster[0].row.breakdown, "communication_exposed"
    added = best["selection"] + best["combine"] - dense.row.breakdown["combine"]
    text = (
        f"{faster[0].row.method} reduces exposed communication from {show_time(dense.row.breakdown[exposed])} to "
        f"{show_time(best[exposed])} and adds {show_time(max(0.0, added))} of selection and combine."
    )
    return Reason("less communication", [item.row.method for item in faster], text)


def _list(losing: Sequence[Loss]) -> str:
    """The seconds that each method loses, the smallest loss first."""
    ordered = sorted(losing, key=lambda pair: pair[1])
    parts = [f"{show_time(seconds)} with {item.row.method}" for item, seconds in ordered[:_NAMED]]
    more = len(ordered) - _NAMED
    return ", ".join(parts) + (f", and more with {count_of(more, 'other method')}" if more > 0 else "")


def _why_exposed(item: Combination, dense: Combination) -> str:
    """The kind of reason for more exposed communication than dense, by what the method sends."""
    if item.row.sent_per_worker <= dense.row.sent_per_worker:
        return "start-up"
    return "build-up" if item.densities.target < 1 < item.densities.build_up else "bytes"


def _loss(kind: str, group: Sequence[Loss], dense: Combination, workers: int) -> Reason:
    """Why methods are slower, with the seconds that each loses, and the numbers of the one that loses least."""
    item = min(group, key=lambda pair: pair[1])[0]
    name, density = item.row.method, item.densities
    sent, sent_dense = show_bytes(item.row.sent_per_worker), show_bytes(dense.row.sent_per_worker)
    adds, longer = f"adds {_list(group)}.", f"Exposed communication is longer than with dense, by {_list(group)}."
    texts = {
        "selection": "Selection runs on the GPU, where nothing hides it, and it can save at most "
        f"{show_time(dense.row.breakdown['communication_exposed'])} of exposed communication. It {adds}",
        "combine": f"Every payload from {workers} workers is added up separately, so combine grows with the number of "
        f"workers: it {adds}",
        "start-up": f"{longer} They send fewer bytes but not in fewer calls, and every call has a start-up: each "
        f"worker sends {sent} in {count_of(item.calls, 'call')} with {name}, {sent_dense} in {dense.calls} with dense.",
        "build-up": f"{longer} Workers select different elements: with {name} each selects {density.selected:.3g} of "
        f"the gradient, all together {density.aggregated:.3g}, and each sends {sent} instead of {sent_dense}.",
        "bytes": f"{longer} Every worker's payload goes to all others without being added up on the way, so the bytes "
        f"grow with the number of workers: each worker sends {sent} with {name}, {sent_dense} with dense.",
        "waiting": f"All workers wait for the slowest worker: it {adds}",
    }
    return Reason(kind, [item.row.method for item, _ in group], texts[kind])
