"""The terms of an iteration's time: what each is called and means wherever a person reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Term(NamedTuple):
    """A term: its label, what its seconds are, and the formula that they come from."""

    label: str
    meaning: str
    formula: str = ""


_TERMS = {
    "forward": Term(
        "forward pass",
        "forward pass, mean over workers; the breakdown sums to the iteration time",
        "sum of the layers' forward times",
    ),
    "backward": Term(
        "backward pass",
        "backward pass, without the selection that runs in between",
        "sum of the layers' backward times, of additions of gradients where there are several passes, and of copies to "
        "buckets",
    ),
    "slowdown": Term(
        "slowdown by communication",
        "what kernels take longer because exchanges run beside them; no other term has it",
        "sum over tasks beside exchanges of (seconds taken - seconds alone); alone: seconds/(1 + slowdown) beside one",
    ),
    "selection": Term(
        "selection",
        "kernels and calls that choose and pack what is sent",
        "sum of the kernels before an exchange, each the slower of GPU and host",
    ),
    "communication_exposed": Term("exposed communication", "communication that no computation hides"),
    "combine": Term(
        "combine",
        "kernels that add up what has arrived",
        "sum of the kernels after an exchange, and of those inside it that compute waits for",
    ),
    "update": Term("update", "the optimiser", "the optimiser's kernels on all tensors, the slower of GPU and host"),
    "idle": Term("idle time", "waiting for the slowest worker, for the host, and for data"),
}
_IDLE = {
    "waiting_for_slowest": Term(
        "waiting for the slowest worker",
        "part of the idle time: waiting for the slowest worker",
        "mean over workers of (slowest worker's compute - own)",
    ),
    "waiting_for_host": Term(
        "waiting for the host",
        "part of the idle time: waiting for exchanges that the host has not started, and for its hooks",
        "time of cycles, launches and hooks in which nothing is under way that compute waits for",
    ),
    "waiting_for_stages": Term(
        "waiting for other stages",
        "part of the idle time: the bubble of a pipeline, with what is sent between its stages",
        "seconds of the micro-batches in the pipeline - those in which the first stage computes",
    ),
    "data_loading": Term(
        "waiting for data",
        "part of the idle time: waiting for the next batch",
        "time in which a worker waits for its next batch",
    ),
}
BREAKDOWN = tuple(_TERMS)
"""Terms into which the time of an iteration is split; they sum to it."""
LATER = ("slowdown",)
"""Terms that results of older versions have inside others; there they count as 0."""
IDLE = tuple(_IDLE)
"""Terms into which the idle time of the breakdown is split."""
TERMS = _TERMS | _IDLE
TERM_LABELS = {name: term.label for name, term in TERMS.items()}


def split_idle(breakdown: Mapping[str, float], idle: Mapping[str, float]) -> dict[str, float]:
    """The terms of a breakdown (s) with idle time as its parts; they sum to the iteration time.

    >>> split_idle(dict.fromkeys(BREAKDOWN, 1.0), {"waiting_for_slowest": 0.75, "data_loading": 0.25})["data_loading"]
    0.25
    """
    terms = {term: breakdown.get(term, 0.0) for term in BREAKDOWN if term != "idle"}
    return terms | {term: idle.get(term, 0.0) for term in IDLE}  # results of older versions lack some
