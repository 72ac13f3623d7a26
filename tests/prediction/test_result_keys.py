"""Every key of a result is described by its type, with a unit, and what is described occurs."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
from command_line import answered
from in_json import flatten

from simulator.answers import keys_of, read_answer, schema_of
from simulator.errors import InputError
from simulator.models.timeline import IDLE
from simulator.prediction.result import RunResult
from simulator.prediction.run_files import read_result


def sets(*overrides):
    return [part for text in overrides for part in ("--set", text)]


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
    "local steps": ("quickstart", *sets(*FAILING)),
    "checkpoints": ("quickstart", "--set", CHECKPOINTS),
    "sharded": ("hsdp_llama3", "--set", "versus=none"),
    "divided": ("hsdp_llama3", *sets("versus=none", "parallelism={tensor: 2}", "scheduler.shard=2")),
    "stages": ("hsdp_llama3", *sets("versus=none", "parallelism={tensor: 2, pipeline: {stages: 4, schedule: gpipe}}")),
    "two levels": ("two_level_diloco", "--set", "versus=none"),
    "measured": ("quickstart", "--set", "measured={iteration_time: 400 ms, source: a timer}"),
    "alone": ("ring_check", "--set", "cluster.nodes=1"),
}
KEYS = keys_of(RunResult)
LISTS = {key.partition("[]")[0] for key in KEYS if "[]" in key}
GOLDEN = sorted(
    path for path in (Path(__file__).parents[1] / "golden").glob("*.json") if "iteration_time_s" in path.read_text()
)
OF_ITERATIONS = {"density_over_iterations[].iteration", "density_over_iterations[].residual_norm"}
NUMBERS_WITHOUT_UNIT = {"seed", "workers", "memory.stage", "axes.stage", "replay.from_iteration", *OF_ITERATIONS}


@pytest.fixture(scope="module")
def documents():
    def of(arguments):
        return answered("run", *arguments)

    return {name: of(arguments) for name, arguments in RUNS.items()}


def test_every_key_of_a_result_is_described(documents):
    for name, document in documents.items():
        assert {key for key, _ in flatten(document)} <= set(KEYS) | LISTS, name
        assert set(document["idle_s"]) == set(IDLE)


def test_every_described_key_occurs(documents):
    assert set(KEYS) <= {key for document in documents.values() for key, _ in flatten(document)}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_every_number_of_a_golden_result_has_a_unit_in_the_type(path):
    document = json.loads(path.read_text())
    if "breakdown_s" not in document:
        pytest.skip("no result of a run")
    for key, value in flatten(document):
        assert key in KEYS or (key in LISTS and value == []), key
        numbers = value if isinstance(value, list) else [value]
        if key in KEYS and any(isinstance(item, float | int) and not isinstance(item, bool) for item in numbers):
            assert KEYS[key].unit or key in NUMBERS_WITHOUT_UNIT, key
        if key in KEYS:
            assert len(KEYS[key].what) > 3


def test_results_are_read_as_they_were_written_and_fit_the_schema(documents):
    schema = schema_of(RunResult)
    for document in documents.values():
        assert read_answer(document, RunResult, "here").to_dict() == document
        jsonschema.validate(document, schema)


def test_the_schema_states_units(documents):
    (fields,) = [part["properties"] for part in schema_of(RunResult)["$defs"].values() if part["title"] == "RunResult"]
    assert fields["iteration_time_s"]["unit"] == "s"
    assert fields["breakdown_s"]["properties"]["forward"]["unit"] == "s"
    assert fields["throughput_samples_per_s"]["description"] == KEYS["throughput_samples_per_s"].what


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("traffic", {"total_bytes": 1.0}, "here: traffic: expected a key `sent_bytes_per_worker`, got none"),
        ("iteration_time_s", "1 s", "here: iteration_time_s: expected a number"),
        ("workers", None, "here: workers: expected a whole number"),
        ("iteration_time_interval_s", [1.0], "here: iteration_time_interval_s: expected a list of length 2"),
    ],
)
def test_what_is_of_another_form_is_refused_with_its_place(documents, key, value, said):
    with pytest.raises(InputError, match=re.escape(said)):
        read_answer(documents["alone"] | {key: value}, RunResult, "here")


def test_a_result_of_an_older_version_is_read_without_what_it_lacks(documents):
    lacking = ("versions", "precision", "intervals_s", "warning_sizes", "notes", "memory", "links", "waiting_s")
    old = {key: value for key, value in documents["compared"].items() if key not in lacking}
    old["idle_s"] = {key: value for key, value in old["idle_s"].items() if key != "waiting_for_host"}
    old["breakdown_s"] = {key: value for key, value in old["breakdown_s"].items() if key != "slowdown"}
    result = read_result(old, "here")
    assert (result.memory, result.links, result.versions) == (None, None, {}) and result.breakdown["slowdown"] == 0
    assert result.warning_texts == old["warnings"]


@pytest.mark.parametrize(("ending", "unit"), [("_s", "s"), ("_samples_per_s", "samples/s")])
def test_units_are_those_that_names_carry(ending, unit):
    named = [key for key in KEYS if any(part.endswith(ending) for part in key.split("."))]
    assert named
    for key in named:
        assert KEYS[key].unit in {unit, "samples/s"}, key


def test_bytes_are_bytes():
    assert {KEYS[key].unit for key in KEYS if "bytes" in key.rpartition(".")[2]} == {"B"}
