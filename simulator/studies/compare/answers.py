"""Sentences that compare two times and the terms behind them."""

from __future__ import annotations

from simulator.models.terms import BREAKDOWN, TERM_LABELS
from simulator.prediction.result_parts import BOTH_TIMES
from simulator.units import join_words, show_time

_FIRST = ("communication_exposed", "selection", "combine", "idle", "update")
_TERMS = (*_FIRST, *(term for term in BREAKDOWN if term not in _FIRST))
"""The order in which an answer names the terms."""
SMALL = 0.01
"""Differences up to this share of the longer time are too small to matter."""


def is_alike(time: float, other: float) -> bool:
    """Whether two times differ by at most 1 %."""
    return abs(time - other) <= SMALL * max(time, other)


def describe_difference(name: str, against: str, time: float, other: float, terms: dict[str, float]) -> str:
    """How `time` with `name` compares with `other` with `against`, and which `terms` (differences in s) are why."""
    if is_alike(time, other):
        times = f"{show_time(time)} with {name} and {show_time(other)} with {against}"
        verdict = f"It makes no difference: an iteration takes {times}."
    else:
        ratio = f"{max(time, other) / min(time, other):.2f} times " if min(time, other) else ""
        change = f"{ratio}{'faster' if time < other else 'slower'}"
        verdict = f"with {name} an iteration takes {show_time(time)}, {change} than {against} ({show_time(other)})."
    changes = _describe_terms(time, other, terms)
    return f"{verdict} Compared with {against}, it {changes}." if changes else verdict


def describe_change(name: str, against: str, time: float, other: float, terms: dict[str, float]) -> str:
    """Both times, and which `terms` (differences in s) are longer and shorter; goes with a verdict."""
    joint = " and" if is_alike(time, other) else ", instead of"
    times = f"{BOTH_TIMES} {show_time(time)} with {name}{joint} {show_time(other)} with {against}."
    changes = _describe_terms(time, other, terms)
    return f"{times} It {changes}." if changes else times


def _describe_terms(time: float, other: float, terms: dict[str, float]) -> str:
    """Which terms are shorter and longer by enough to matter; nothing where none is."""
    threshold = SMALL * max(time, other)
    removed = [f"{show_time(-terms[key])} of {TERM_LABELS[key]}" for key in _TERMS if terms[key] < -threshold]
    added = [f"{show_time(terms[key])} of {TERM_LABELS[key]}" for key in _TERMS if terms[key] > threshold]
    changes = (("removes", removed), ("adds", added))
    return " but ".join(f"{verb} {join_words(parts)}" for verb, parts in changes if parts)
