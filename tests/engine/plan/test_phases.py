"""Phases of a step on links that it shares are made once for each step, server and layout."""

import pytest

from simulator.engine.plan import phases
from simulator.prediction.run import run
from simulator.scenario.reading import load


@pytest.mark.parametrize("placement", ["sharded", "hashed"])
def test_remembered_phases_are_those_of_a_process_that_remembers_nothing(monkeypatch, placement):
    """Two jobs, of which the second asks for the same bytes from other places."""
    changes = ("topology={kind: parameter_server, in_order: false}", f"topology.placement={placement}")
    scenarios = [
        load("quickstart", (*changes, "sparsifier=dense", f"cluster.nodes={nodes}", "cluster.gpus_per_node=2"))
        for nodes in (2, 3, 2)
    ]
    together = [run(scenario) for scenario in scenarios]
    assert together[0].document == together[2].document
    for scenario, known in zip(scenarios, together, strict=True):
        monkeypatch.setattr(phases, "_known", phases.LatestResults(1))
        assert run(scenario).document == known.document
