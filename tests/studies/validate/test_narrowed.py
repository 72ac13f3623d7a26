"""One measured row of a model on a set-up narrows the intervals of its other rows, and these still hold what they say.

The model's own error is that of other set-ups, and no constant is fitted here. That a measurement outside its interval
is not carried over was chosen with these rows in sight.
"""

from statistics import median

import pytest

from simulator.prediction.doubts import own_error
from simulator.prediction.measured import WHOLE, is_used_in_fit, measured_values
from simulator.prediction.run import run_batch, with_responses_of
from simulator.scenario.changes import with_value
from simulator.scenario.scenario import Measured
from simulator.studies.validate.measured_rows import find_tasks, scenario_of_task

pytestmark = pytest.mark.long
MOST = 8
"""Other rows of a model that are predicted."""
SLOW = ("mpt", "megatron", "torchtitan")
"""Set-ups whose rows each have several seconds of doubts to follow."""


def by_model():
    """Rows as scenarios with their seconds, by set-up and model, where there are several."""
    rows = {}
    for task in find_tasks([], []):
        if task.is_table or any(name in task.group for name in SLOW):
            continue
        scenario = scenario_of_task(task)
        values = measured_values(scenario)
        seconds = next((values[name] for name in WHOLE if name in values), None)
        if seconds is not None:
            rows.setdefault((task.group, scenario.workload.name), []).append((scenario, seconds))
    return {key: each for key, each in rows.items() if len(each) > 1}


def half_width(made):
    low, high = made.spread.interval()
    return (high - low) / 2 / made.spread.time


def test_one_measured_row_narrows_the_others_and_their_intervals_hold(monkeypatch):
    own, found = own_error.model_error(), []
    for (group, _), rows in by_model().items():
        elsewhere = own_error.ModelError(own.rows, own.of(group), {})
        monkeypatch.setattr(own_error, "model_error", lambda elsewhere=elsewhere: elsewhere)
        dense = [row for row in rows if row[0].sparsifier.kind == "dense"] or rows
        first = min(dense, key=lambda row: row[0].cluster.workers)
        measured = Measured(iteration_time=first[1], source="a row", at=with_value(first[0], "measured", None))
        seen = [row for row in rows if not any(is_used_in_fit(row[0].measured, name) for name in WHOLE)]
        others = [row for row in seen if row is not first]
        bare = [with_value(scenario, "measured", None) for scenario, _ in others[:MOST]]
        known = [with_value(scenario, "measured", measured) for scenario in bare]
        made = with_responses_of([*run_batch(bare), *run_batch(known)])
        for before, after, (_, seconds) in zip(made, made[len(bare) :], others, strict=False):
            low, high = after.spread.interval()
            found.append((half_width(before), half_width(after), low <= seconds <= high))
    wide, narrow, holds = zip(*found, strict=True)

    assert len(found) > 100
    assert median(narrow) < 0.775 * median(wide)
    assert sum(holds) / len(holds) >= 0.84
