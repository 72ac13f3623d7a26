"""Work that is remembered: schedules that make the same buckets may still exchange them differently."""

import pytest
from worked_scenarios import M, worked

from simulator.prediction.run import plan_of
from simulator.scenario.scenario import Scenario


def scenario(numel, scheduler):
    """Two workers whose layers have so many elements each."""
    return Scenario.model_validate(worked([(numel / M, 0, 1)] * 3, scheduler={"kind": scheduler, "bucket_size": 4e6}))


@pytest.mark.parametrize(("numel", "first"), [(1_000_000, "bucketed"), (1_000_001, "decoupled")])
def test_equal_buckets_of_another_schedule_are_other_work(numel, first):
    second = {"bucketed": "decoupled", "decoupled": "bucketed"}[first]
    halves = {kind: plan_of(scenario(numel, kind)).work.halves for kind in (first, second)}
    assert any(halves["decoupled"])
    assert not any(halves["bucketed"])
