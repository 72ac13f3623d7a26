"""A link from one synchronisation: exact where the law is, and within 2 % on runs that were not probed."""

from pathlib import Path

import pytest
from command_line import invoke

from simulator.errors import InputError
from simulator.prediction.run import run
from simulator.scenario.changes import with_value
from simulator.scenario.reading import load
from simulator.studies.fit.link_probe import probe_link

FOUR = Path(__file__).parents[3] / "scenarios/validation/4xl40s-diloco/template.yaml"
ONE, EIGHT = (f"scheduler={{kind: diloco, inner_steps: {steps}}}" for steps in (1, 8))


@pytest.mark.parametrize(
    ("rate", "probe", "measured"), [("992.6 Mbit/s", 1.5057, 1.50741), ("198.5 Mbit/s", 8.25254, 8.28341)]
)
def test_a_probe_at_one_local_step_predicts_eight(rate, probe, measured):
    """In sight: the runs at H = 1 and 8; nothing but the probe is fitted."""
    network, _ = probe_link(load(FOUR, (ONE, f"cluster.network.bandwidth={rate}")), probe)
    again = with_value(load(FOUR, (ONE,)), "cluster.network", network)
    assert run(again).document["period"]["synchronisation_s"] == pytest.approx(probe, rel=1e-6)
    eight = with_value(load(FOUR, (EIGHT,)), "cluster.network", network)
    assert run(eight).document["period"]["synchronisation_s"] == pytest.approx(measured, rel=0.02)


def test_the_rate_of_a_ring_in_closed_form():
    """One tensor of n values between two workers without start-up: 4 n / B."""
    changes = (
        "workload={batch_size: 1, layers: [{name: a, numel: 1000000, forward: 1 s}]}",
        "cluster={nodes: 2, gpu: {name: ideal, ideal: true}, network: {kind: single_switch, bandwidth: 1 GB/s}}",
        "sparsifier=dense",
        "topology=ring",
        ONE,
    )
    assert probe_link(load("quickstart", changes), 2.0)[0].bandwidth == pytest.approx(2e6, rel=1e-6)


def test_what_cannot_be_probed_is_refused():
    with pytest.raises(InputError, match="local steps on several nodes"):
        probe_link(load("quickstart"), 1.0)
    with pytest.raises(InputError, match="a synchronisation longer than"):
        probe_link(load(FOUR, (ONE,)), 1e-3)


def test_the_command_writes_a_network_that_a_scenario_can_name(tmp_path):
    out = tmp_path / "mine.yaml"
    made = invoke(*["calibrate", "link", str(FOUR), "--set", ONE, "--synchronisation", "1.5 s", "--out", str(out)])
    assert made.exit_code == 0, made.output
    assert "null" not in out.read_text()
    document = run(load(FOUR, (EIGHT, f"cluster.network={out}"))).document
    assert document["period"]["synchronisation_s"] == pytest.approx(1.5, rel=1e-3)
