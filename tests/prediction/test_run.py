"""Predictions of many scenarios in one batch are those of each by itself, to the bit."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worked_scenarios import worked

from simulator.component import build, discover
from simulator.errors import InputError
from simulator.prediction.run import run, run_batch, time_batch, with_responses, with_responses_of
from simulator.scenario.changes import with_value
from simulator.scenario.reading import load
from simulator.scenario.scenario import Scenario
from simulator.sparsifiers.base import Sparsifier
from simulator.studies.storage.row_table import row_of
from simulator.topologies.base import Topology

SHIPPED = ("quickstart", "replay_topk")
METHODS = ("dense", "topk", "randomk", "qsgd", "powersgd", "gtopk", "dgc")
TOPOLOGIES = ("ring", "nccl", "parameter_server", "tree")


def described(made):
    """All that a prediction says, as bytes; of an error its text."""
    if isinstance(made, InputError):
        return str(made)
    return json.dumps(
        [
            made.document,
            list(made.times),
            made.spread.interval(),
            [item._replace(change=None, shift=None) for item in made.inputs],
        ]
    )


def alone(scenario):
    try:
        return run(scenario)
    except InputError as error:
        return error


@st.composite
def batches(draw):
    """Points of a small sweep: one scenario with other networks, workers, methods and densities."""
    made, base = [], load("quickstart", ("iterations=2", "warmup=0"))
    for _ in range(draw(st.integers(1, 3))):
        one = with_value(base, "cluster.nodes", draw(st.sampled_from((1, 2, 4))))
        method = {"kind": draw(st.sampled_from(METHODS))}
        if "density" in discover(Sparsifier)[method["kind"]].model_fields:
            method["density"] = draw(st.sampled_from((0.001, 0.01, 0.3)))
        one = with_value(one, "sparsifier", build(Sparsifier, method))
        one = with_value(one, "topology", build(Topology, draw(st.sampled_from(TOPOLOGIES))))
        rates = draw(st.lists(st.floats(1e7, 1e11), min_size=1, max_size=3))
        made += [with_value(one, "cluster.network.bandwidth", rate) for rate in rates]
    return made


@pytest.mark.long
@settings(max_examples=10)
@given(batches())
def test_a_batch_is_each_scenario_by_itself(scenarios):
    assert [described(made) for made in run_batch(scenarios)] == [described(alone(scenario)) for scenario in scenarios]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_batch_of_shipped_scenarios_is_each_by_itself(name):
    scenario = load(name)
    slower = with_value(scenario, "cluster.network.latency", 2 * scenario.cluster.network.latency)
    together = run_batch([scenario, slower, scenario])
    assert [described(made) for made in together] == [described(run(item)) for item in (scenario, slower, scenario)]
    assert time_batch([scenario, slower]) == [made.spread.time for made in together[:2]]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_row_is_that_of_the_document(name):
    (made,) = run_batch([load(name)])
    row = row_of(made.result_without_lists)
    assert json.dumps(row) == json.dumps(row_of(made.result))


def test_responses_of_several_predictions_are_those_of_each():
    scenario = load("quickstart")
    made = run_batch([with_value(scenario, "cluster.network.bandwidth", rate) for rate in (1e8, 1e9, 1e10)])
    assert [described(each) for each in with_responses_of(made)] == [described(with_responses(each)) for each in made]


def test_an_error_takes_the_place_of_what_fails():
    scenario = load("quickstart")
    absent = with_value(scenario, "cluster.gpu.memory_size", 1e6)
    first, failed, last = run_batch([scenario, absent, scenario])
    assert isinstance(failed, InputError) and "memory" in str(failed)
    assert described(first) == described(last) == described(run(scenario))
    assert [str(made) for made in time_batch([scenario, absent])] == [str(first.spread.time), str(failed)]


def test_without_intervals_no_input_is_looked_at():
    (made,) = run_batch([load("quickstart")], intervals=False)
    assert made.inputs == [] and made.document["calibration"] == []


ALONE = "one exchange at a time, and no message waits for another worker's on a link; algorithm ring"
MANY, AS_ASKED = "many exchanges at once share the links", "as asked: each link carries all its bytes at full rate"


@pytest.mark.parametrize(
    ("parts", "tier", "reason"),
    [
        ({"nodes": 1}, "fold", "one worker: nothing is exchanged"),
        ({}, "fold", ALONE),
        ({"network": {"protocols": [{"name": "LL", "up_to_per_worker": "1 kB"}]}}, "fold",
            f"{ALONE}, protocol by payload: LL up to 1000 B per worker"),
        ({"fidelity": "flows"}, "flows", "as asked; one exchange at a time; algorithm ring"),
        ({"links": [{"link": "node 0", "factor": 0.5, "start": 1.0}]}, "flows",
            "links change while exchanges are under way; algorithm ring"),
        ({"scheduler": {"kind": "wfbp", "streams": 2}}, "flows",
            "up to 2 exchanges at once share the links; algorithm ring"),
        ({"topology": "parameter_server"}, "flows", f"{MANY}; algorithm parameter_server"),
        ({"topology": "parameter_server", "fidelity": "fold"}, "fold",
            f"{MANY} first in, first out, {AS_ASKED}; algorithm parameter_server"),
        ({"network": {"kind": "leaf_spine", "nodes_per_leaf": 1, "oversubscription": 4}}, "flows",
            "more may cross leaf 0 to spine 0 than it carries; algorithm ring"),
    ],
)  # fmt: skip
def test_a_result_says_how_its_exchanges_were_timed_and_why(parts, tier, reason):
    asked = Scenario.model_validate(worked([(1, 1, 1)] * 2, ignore_memory=True, **parts))
    made = run(asked, intervals=False).result.fidelity
    assert (made.tier, made.reason) == (tier, reason)
