"""Every key of a result is described, and what is described occurs."""

import json

import pytest
from click.testing import CliRunner

from simulator.cli import main
from simulator.prediction.result_keys import IDLE, RESULT_KEYS, flat_keys

FAILING = (
    "scheduler={kind: diloco, inner_steps: 4}",
    "cluster.membership={mean_time_between_failures: 1 h, healing_time: 1 min}",
)
CHECKPOINTS = (
    "cluster.membership={policy: checkpoint, checkpoint_interval: 1 h, checkpoint_time: 1 min, "
    "mean_time_between_failures: 100 h}"
)
RUNS = {
    "compared": ("quickstart",),
    "replayed": ("replay_topk", "--set", "cluster.nodes=2"),
    "followed": ("failover",),
    "several at once": ("ring_check", "--set", "scheduler.streams=2"),
    "local steps": ("quickstart", *(part for text in FAILING for part in ("--set", text))),
    "checkpoints": ("quickstart", "--set", CHECKPOINTS),
    "alone": ("ring_check", "--set", "cluster.nodes=1"),
}
LISTS = {key.partition("[]")[0] for key in RESULT_KEYS if "[]" in key}


@pytest.fixture(scope="module")
def documents():
    def of(arguments):
        result = CliRunner().invoke(main, ["run", *arguments, "--json"], catch_exceptions=False)
        return json.loads(result.output)

    return {name: of(arguments) for name, arguments in RUNS.items()}


def test_every_key_of_a_result_is_described(documents):
    for name, document in documents.items():
        assert set(flat_keys(document)) <= set(RESULT_KEYS) | LISTS, name
        assert set(document["idle_s"]) == set(IDLE)


def test_every_described_key_occurs(documents):
    found = {key for document in documents.values() for key in flat_keys(document)}
    assert set(RESULT_KEYS) <= found


@pytest.mark.parametrize(("ending", "unit"), [("_s", "s"), ("_samples_per_s", "samples/s")])
def test_units_are_those_that_names_carry(ending, unit):
    named = [key for key in RESULT_KEYS if any(part.endswith(ending) for part in key.split("."))]
    assert named
    for key in named:
        assert RESULT_KEYS[key].unit in {unit, "samples/s"}, key


def test_bytes_are_bytes():
    assert {RESULT_KEYS[key].unit for key in RESULT_KEYS if "bytes" in key.rpartition(".")[2]} == {"B"}
