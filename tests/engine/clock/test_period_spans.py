"""Spans of a period: few local steps one by one, of many all forward passes as one span."""

import numpy as np
import pytest
from simulator.engine.clock.period_spans import Part, PeriodLog, worker_spans


@pytest.mark.parametrize(("steps", "shown"), [(1, 1), (32, 32), (33, 1)])
def test_up_to_32_steps_in_a_row_are_shown_one_by_one(steps, shown):
    ends = np.cumsum([0.0, 2.0 * steps, 3.0 * steps, 1.0 * steps])
    terms = ("forward", "backward", "update")
    parts = [
        Part(term, np.array([low]), np.array([high]), -1, steps)
        for term, low, high in zip(terms, ends[:-1], ends[1:], strict=True)
    ]
    passes = [("forward", 2.0), ("backward", 3.0)]
    made = worker_spans(PeriodLog(np.zeros(1), passes, parts, ended=ends[-1:]), 0)
    assert [item.term for item in made] == list(terms) * shown
    assert [item.label for item in made[:3]] == [term if shown == steps else f"{term} of 33 steps" for term in terms]
    assert [(item.start, item.end) for item in made[:2]] == [
        (0.0, 2.0 * steps / shown),
        (2.0 * steps / shown, 5.0 * steps / shown),
    ]
    assert made[-1].end == pytest.approx(6.0 * steps)
