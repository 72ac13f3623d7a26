"""Strategies of Hypothesis for numbers that a scenario allows."""

from hypothesis import strategies as st

from simulator.bounds import BOUNDS

_ROOM = 1e3
"""How far above the bound what is drawn stays, so that tests can scale it."""


def or_none(kind, largest):
    """0, or a number of a kind in `BOUNDS` up to `largest`."""
    return st.just(0.0) | st.floats(_ROOM * BOUNDS[kind].smallest, largest)


def durations(largest):
    """0, or seconds up to `largest`."""
    return or_none("time", largest)
