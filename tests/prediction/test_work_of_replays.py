"""How much a replay beyond the recorded workers computes, counted: selections of groups, sorts, and rows sorted."""

import itertools

import pytest
from places import ROOT

from simulator.component import build
from simulator.engine import replay
from simulator.engine.build_up import one_bucket
from simulator.models import largest
from simulator.prediction.extrapolation import replay_by_workers
from simulator.sparsifiers.base import Sparsifier
from simulator.traces.format.trace import Trace

ITERATIONS = 4
GROUPS = {1: 4, 2: 4, 4: 4, 8: 2, 16: 1}
"""Groups of each size, of 16 recorded workers, that are replayed one by one."""
REPLAYS, ROWS = sum(GROUPS.values()), sum(count * size for size, count in GROUPS.items())
MERGES = sum(count * (size.bit_length() - 1) for size, count in GROUPS.items())
MERGED = sum(count * (size - 1) for size, count in GROUPS.items())


@pytest.mark.parametrize(
    ("kind", "granularity", "work"),
    [
        ("topk", "layer", (1, 1, 16)),
        ("dgc", "layer", (1, 2, 32)),
        ("cltk", "layer", (REPLAYS, REPLAYS, REPLAYS)),
        ("deft", "bucket", (REPLAYS, REPLAYS, REPLAYS)),
        ("gtopk", "layer", (REPLAYS, REPLAYS + MERGES, ROWS + MERGED)),
        ("micro", "bucket", (REPLAYS, 0, 0)),
    ],
)
def test_a_replay_beyond_the_recorded_workers_does_no_more_work_than_it_needs(kind, granularity, work, monkeypatch):
    """`work`: selections, sorts and rows sorted in each iteration.

    Every group selects once, and sorts all tensors of all its workers in one call; gTop-k does so once more for each
    round of merges. Rows are as long as the sample at most.
    """
    trace = Trace.open(ROOT / "configs" / "traces" / "resnet-digits")
    member = build(Sparsifier, {"kind": kind, "density": 0.01, "granularity": granularity})
    selected, sorted_rows, read = [], [], replay.blocks_with_residuals
    choose, order = type(member).choose, largest.order_of_units

    def count_selection(self, u, block, state):
        selected.append(len(u))
        return choose(self, u, block, state)

    def count_sort(values, unit):
        sorted_rows.append(len(values))
        assert values.shape[1] <= len(trace.keys.layer)
        return order(values, unit)

    monkeypatch.setattr(type(member), "choose", count_selection)
    monkeypatch.setattr(largest, "order_of_units", count_sort)
    monkeypatch.setattr("simulator.sparsifiers.dgc.order_of_units", count_sort)
    monkeypatch.setattr(replay, "blocks_with_residuals", lambda *of: itertools.islice(read(*of), ITERATIONS))
    observed, _ = replay_by_workers(member, [one_bucket(trace)], trace)
    assert [one.workers for one in observed] == [1, 2, 4, 8, 16]
    assert (len(selected), len(sorted_rows), sum(sorted_rows)) == tuple(ITERATIONS * n for n in work)
