"""The terms of an iteration's time: what each is called wherever a person reads it, and how idle time is split."""

from __future__ import annotations

from collections.abc import Mapping

from simulator.models.timeline import BREAKDOWN

IDLE = ("waiting_for_slowest", "data_loading")
"""What the breakdown's `idle` is split into."""
TERM_LABELS = {
    "forward": "forward pass",
    "backward": "backward pass",
    "selection": "selection",
    "communication_exposed": "exposed communication",
    "combine": "combine",
    "update": "update",
    "idle": "idle time",
    "waiting_for_slowest": "waiting for the slowest worker",
    "data_loading": "waiting for data",
}


def split_idle(breakdown: Mapping[str, float], idle: Mapping[str, float]) -> dict[str, float]:
    """The terms of a breakdown (s) with idle time as its two parts; they sum to the iteration time.

    >>> split_idle(dict.fromkeys(BREAKDOWN, 1.0), {"waiting_for_slowest": 0.75, "data_loading": 0.25})["data_loading"]
    0.25
    """
    terms = {term: breakdown[term] for term in BREAKDOWN if term != "idle"}
    return terms | {term: idle[term] for term in IDLE}
