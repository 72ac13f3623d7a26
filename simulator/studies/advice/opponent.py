"""What dense is, with which `advise` compares every other method, in words."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.component import build
from simulator.hardware.frameworks import FRAMEWORKS
from simulator.scenario.scenario import Scenario
from simulator.schedulers.base import Scheduler
from simulator.studies.advice.search import DENSE, SearchResult, TimedCombination
from simulator.studies.variants.sharded import sharded_part
from simulator.units import show_time


def describe_opponent(scenario: Scenario, found: SearchResult) -> str:
    """Dense at its best, and the best that the scenario's framework offers where that is something else.

    Methods are tried on schedules that no framework has, so that dense has them, too: neither side is at a
    disadvantage. What the framework offers stands beside it, since that is what can be used today.
    """
    dense = [item for item in found.outcomes if item.method == DENSE]
    if not dense:
        return ""
    framework = FRAMEWORKS[scenario.cluster.runtime.framework]
    schedulers = [build(Scheduler, dict(offer.scheduler)) for offer in framework.schedules]
    sharded = sharded_part(scenario.scheduler) is not None  # all of its meshes are settings
    offered = None if sharded else _offered(scenario, dense, [*schedulers, scenario.scheduler], framework.topologies)
    text = (
        f"The opponent is dense at its best, {dense[0].name}: the fastest of {len(dense)} dense combinations, of the "
        "same schedules and topologies as all other methods."
    )
    if offered is not None and offered is not dense[0]:
        text += f" With what {framework.label} offers, dense takes {show_time(offered.time)} at best, {offered.name}."
    return text


def _offered(
    scenario: Scenario, dense: Sequence[TimedCombination], schedulers: Sequence[Scheduler], topologies: Sequence[str]
) -> TimedCombination | None:
    """The fastest dense outcome with one of the schedulers, on one of the topologies or the scenario's own."""
    for item in dense:
        made = item.candidate.of(scenario)
        if made.scheduler in schedulers and made.topology.kind in (*topologies, scenario.topology.kind):
            return item
    return None
