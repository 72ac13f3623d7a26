"""Periods of local steps exactly at their limits, and the copies of the model that they keep."""

import pytest
from pydantic import ValidationError

from simulator.component import build
from simulator.schedulers.base import Scheduler


def scheduler(kind, **fields):
    return build(Scheduler, {"kind": kind, "inner_steps": 10, **fields})


def test_a_delay_may_last_a_whole_period_and_no_longer():
    """Overlapped: the period is the inner steps. Streaming: of 3 fragments each 10 / 3 = 3 steps, 9 in all."""
    for kind, fields, most in (("overlapped_diloco", {}, 10), ("streaming_diloco", {"fragments": 3}, 9)):
        for delay in (0, most):
            period = scheduler(kind, delay=delay, **fields).period
            assert period.steps == most
            assert {end - start for start, end, *_ in period.fragments} == {delay}
        with pytest.raises(ValidationError, match=f"a `delay` of at most {most} steps"):
            scheduler(kind, delay=most + 1, **fields)


def test_what_is_under_way_and_the_outer_parameters_are_copies():
    """Beside a worker's own: those of the last exchange; overlapped, what travels, too; eager, its own part of that."""
    copies = [
        scheduler(kind, **fields).copies
        for kind, fields in (("diloco", {}), ("overlapped_diloco", {}), ("overlapped_diloco", {"eager": True}))
    ]
    assert copies == [1, 2, 3]
