"""The command line as a user meets it."""

import json
import re
import runpy
from functools import cache
from typing import get_args

import jsonschema
import numpy as np
import pandas as pd
import pytest
from command_line import answered, invoke, printed, refused
from places import ROOT
from referencing import Registry
from referencing.jsonschema import DRAFT202012
from small_inputs import NOTHING

from simulator.answers import schema_of
from simulator.cli import main
from simulator.cli.listing import LISTED
from simulator.component import discover
from simulator.loading.documents import read_document
from simulator.loading.finding import known_names
from simulator.prediction.result import RunResult
from simulator.scenario import catalogue
from simulator.scenario.reading import load
from simulator.sparsifiers.base import Sparsifier
from simulator.studies.quality.trainings import study_schema
from simulator.studies.sweep.points import sweep_schema

schemas = cache(catalogue.schemas)


def test_quickstart_answers_its_question_in_words_and_figures():
    told = printed("run", "quickstart", "--full")
    assert "Does Top-k 0.1 % pay" in told
    answer = r"\b(Yes|No|Not decided): [\d.]+ .*; it pays with probability .* takes [\d.]+ ms with topk 0.001 "
    assert re.search(answer, " ".join(told.split()))


def test_an_iteration_of_no_time_has_no_throughput(tmp_path):
    path = tmp_path / "nothing.yaml"
    path.write_text(json.dumps(NOTHING))
    lines = [" ".join(line.split()) for line in printed("run", path, "--full").splitlines()]
    assert lines[1] == "iteration time 0 s (no 90 % interval: no errors are known)"
    assert not [line for line in lines if line.startswith(("throughput", "scaling efficiency"))]
    assert "forward pass 0 s 0.0 %" in lines
    path.write_text(json.dumps(NOTHING | {"versus": {"cluster.nodes": 2}}))
    lines = [" ".join(line.split()) for line in printed("run", path, "--full").splitlines()]
    assert "where the time goes time share the same with nodes 2" in lines
    (answer,) = [line for line in lines if line.startswith("An iteration takes 0 s with nodes 1, instead of ")]
    question = lines[lines.index(answer) - 1]  # nobody asked one, so that it is made from what differs
    assert question == "How long does an iteration of unnamed on 1 GPU take with nodes 1, compared with nodes 2?"
    document = answered("run", path)
    assert document["comparison"]["speed_up"] is None
    assert "verdict" not in document["comparison"]  # there is no ratio to a time of 0 s


def test_one_worker_is_one_worker():
    alone = ("--set", "cluster.nodes=1", "--set", "cluster.gpus_per_node=1")
    lines = [line.rstrip() for line in printed("run", "quickstart", "--full", *alone).splitlines()]
    assert [line for line in lines if line.startswith("throughput") and line.endswith(" on 1 worker")]


def test_out_stores_what_can_be_run_again(tmp_path):
    first = answered("run", "quickstart", "--out", tmp_path / "result")
    assert json.loads((tmp_path / "result" / "result.json").read_text()) == first
    assert load(tmp_path / "result" / "scenario.yaml").digest == first["digest"]


def test_check_prints_a_scenario_that_loads_to_the_same_digest(tmp_path):
    text = printed("check", "ring_check")
    (tmp_path / "again.yaml").write_text(text)
    assert load(tmp_path / "again.yaml").digest == load("ring_check").digest and load("ring_check").digest in text


def test_bad_input_is_one_line_and_exit_code_2(tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text((ROOT / "scenarios" / "ring_check.yaml").read_text().replace("nodes: 8", "nodes: 0"))
    result = invoke("run", bad)
    assert result.exit_code == 2 and result.stdout == ""
    assert re.fullmatch(r".*bad\.yaml:4:3: cluster\.nodes: expected at least 1, got 0\n", result.stderr)


def test_input_that_does_not_fit_into_memory_is_one_line_and_exit_code_2(monkeypatch):
    def none_left(*_):
        raise MemoryError("Unable to allocate 7.28 TiB")

    monkeypatch.setattr("simulator.studies.compare.opponent.load", none_left)
    said = "sparsim: expected input that fits into memory, got Unable to allocate 7.28 TiB: ask for something smaller\n"
    assert refused("run", "quickstart") == said


def test_check_prints_one_json_document_on_demand():
    document = answered("check", "ring_check", "--set", "cluster.nodes=4")
    loaded = load("ring_check", ("cluster.nodes=4",))
    assert document == {"digest": loaded.digest, "scenario": loaded.resolved()}


def test_an_unwritable_place_is_said_so(tmp_path):
    (tmp_path / "file").write_text("")
    assert "expected a place that can be written" in refused("run", "ring_check", "--out", tmp_path / "file" / "inside")


def test_scenarios_and_configs_are_found_from_any_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert answered("run", "quickstart")["workers"] == 32


def test_list_names_every_family_with_summaries():
    listing = answered("list")
    assert list(listing) == ["sparsifier", "topology", "scheduler", "fabric"]
    assert all(item["summary"] for kinds in listing.values() for item in kinds)
    assert {"dense", "topk", "randomk", "threshold"} <= {item["kind"] for item in listing["sparsifier"]}


SHIPPED = {
    "workloads": "workloads/resnet50-v100", "gpus": "gpus/h100", "networks": "networks/10gbe-tcp",
    "runtimes": "runtimes/pytorch-ddp", "scenarios": "quickstart", "sweeps": "break_even_map", "papers": "skip-reduce",
    "traces": "traces/resnet-digits", "trainings": "mlp-digits",
}  # fmt: skip


def test_list_names_what_can_be_listed_besides_the_kinds():
    from simulator.scenario.catalogue import LISTED as READ

    assert set(LISTED) == {"kinds", *READ, *SHIPPED}
    assert printed("list").splitlines()[-1] == f"also: sparsim list {'|'.join([*LISTED][1:])}"


def test_what_the_command_line_states_by_itself_is_what_studies_know():
    """Their modules are slow to import."""
    from simulator.cli.runs import collective, plan
    from simulator.prediction.collective import Kind
    from simulator.studies.planning.targets import FASTER

    assert tuple(next(item for item in collective.params if item.name == "kind").type.choices) == get_args(Kind)
    assert next(item for item in plan.params if item.name == "target").default == FASTER


@pytest.mark.parametrize(("what", "name"), SHIPPED.items())
def test_list_shows_a_line_for_everything_that_is_shipped(what, name):
    (records,) = answered("list", what).values()
    (found,) = [item for item in records if item["name"] == name]
    assert found["what"]
    assert not [item for item in records if "error" in item]
    lines = printed("list", what).splitlines()
    assert len([line for line in lines if line.startswith(name)]) >= 1 and max(map(len, lines)) <= 100
    place = "configs" if "/" in name or what == "trainings" else "scenarios"
    folder = ROOT / place / ("" if what == "scenarios" else what)
    suffix = "*.csv" if what == "trainings" else "*/trace.yaml" if what == "traces" else "*.yaml"
    assert len(records) == len(list(folder.glob(suffix)))


def test_list_shows_figures_in_si():
    (gpu,) = [item for item in answered("list", "gpus")["gpus"] if item["name"] == "gpus/v100"]
    assert gpu["memory_bandwidth_bytes_per_s"] == 900e9
    assert printed("list", "--json", "gpus") == printed("list", "gpus", "--json")
    (model,) = [
        item for item in answered("list", "workloads")["workloads"] if item["name"] == "workloads/resnet50-v100"
    ]
    assert (model["parameters"], model["batch_size"]) == (25_557_032, 32)


def test_rates_of_kernels_are_one_json_document_on_demand():
    rates, text = answered("list", "kernels", "--rates"), printed("list", "kernels", "--rates")
    stored = read_document(ROOT / "configs" / "kernel_rates.yaml").data
    assert rates["launch"] == pytest.approx(stored["launch"], rel=1e-3)
    assert rates["kernels"].keys() == stored["kernels"].keys()
    assert text == (ROOT / "configs" / "kernel_rates.yaml").read_text()


def test_list_shows_files_of_the_current_folder_and_says_what_is_wrong_with_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs" / "gpus").mkdir(parents=True)
    (tmp_path / "configs" / "gpus" / "mine.yaml").write_text("name: my own\nmemory_bandwidth: 1 TB/s\n")
    (tmp_path / "configs" / "gpus" / "broken.yaml").write_text("nme: x\n")
    records = {item["name"]: item for item in answered("list", "gpus")["gpus"]}
    assert records["gpus/mine"]["what"] == "my own"
    assert "nme" in records["gpus/broken"]["error"] or "name" in records["gpus/broken"]["error"]
    text = printed("list", "gpus")
    assert "gpus/broken" in text and max(map(len, text.splitlines())) <= 100


def test_shipped_schemas_are_up_to_date():
    every = {"sweep": sweep_schema(), "trainings": study_schema(), "result": schema_of(RunResult)} | schemas()
    for name, schema in every.items():
        stored = json.loads((ROOT / "configs" / "schema" / f"{name}.json").read_text())
        assert stored == schema, "run `sparsim list schemas`"


def test_every_shipped_scenario_fits_the_schema():
    validator = jsonschema.Draft202012Validator(schemas()["scenario"])
    others = ("sweeps", "trainings", "papers")
    files = [path for path in (ROOT / "scenarios").rglob("*.yaml") if path.parent.name not in others]
    assert len(files) > 40
    for path in files:
        errors = [error.message for error in validator.iter_errors(read_document(path).data)]
        assert not errors, (path, errors[:3])


def test_every_shipped_study_of_trainings_fits_the_schema():
    validator = jsonschema.Draft202012Validator(study_schema())
    for path in (ROOT / "scenarios" / "trainings").glob("*.yaml"):
        data = read_document(path).data
        assert not [error.message for error in validator.iter_errors(data)], path
        assert [error.message for error in validator.iter_errors(data | {"base": {"wrokers": 3}})], path


def test_every_shipped_sweep_fits_the_schema_and_broken_ones_do_not():

    schema = sweep_schema()
    keys = ["name", "question", "base", "vary", "zip", "skip", "intervals", "verdicts"]
    assert list(schema["properties"]) == keys
    registry = Registry().with_resource("scenario.json", DRAFT202012.create_resource(schemas()["scenario"]))
    validator = jsonschema.Draft202012Validator(schema, registry=registry)
    files = sorted((ROOT / "scenarios" / "sweeps").glob("*.yaml"))
    assert len(files) >= 4
    for path in files:
        data = read_document(path).data
        assert not [error.message for error in validator.iter_errors(data)], path
        key = "vary" if "vary" in data else "zip"
        broken = [
            {k: v for k, v in data.items() if k != "base"},
            {k: v for k, v in data.items() if k not in ("vary", "zip")},
            data | {"varry": {}},
            data | {"base": {"clustr": {}}},
            data | {"base": {"fidelity": "exact"}},
            data | {"base": {"cluster": {"node": 4}}},
            data | {key: [] if key == "vary" else {}},
            data | {"vary": {"cluster.nodes": {"from": 1, "to": 4, "points": 1}}},
            data | {"vary": {"cluster.nodes": {"from": 1, "to": 4, "step": 1, "points": 2}}},
        ]
        for number, each in enumerate(broken):
            assert list(validator.iter_errors(each)), (path, number)


def test_a_process_that_is_started_by_another_runs_no_command():
    """Processes of a sweep import the main module of the one that started them, under another name."""
    assert runpy.run_module("simulator", run_name="__mp_main__")["main"] is main


def test_readme_counts_methods_and_traces():
    counted = re.findall(r"\((\d+) sparsifiers\), (\d+) traces", " ".join((ROOT / "README.md").read_text().split()))
    assert counted == [(str(len(discover(Sparsifier))), str(len(known_names("traces"))))]


def test_readme_commands_exist():
    text = (ROOT / "README.md").read_text()
    named = set(re.findall(r"`sparsim ([a-z]+)", text + (ROOT / "docs" / "reference" / "cli.md").read_text()))
    assert len(named) > 15
    for command in named:
        assert command in main.commands
    setups = re.findall(r"^python3 -m venv .*$", text, flags=re.M)
    assert len(setups) == 2 and "pip install -e ." in setups[0]
    assert text.index(setups[0]) < text.index("sparsim run quickstart") < text.index(setups[1])
    assert setups[1].endswith(".venv/bin/pytest")


def test_messages_are_stored_beside_the_result(tmp_path):
    folder = tmp_path / "ring"
    printed("run", "ring_check", "--messages", "--out", folder)
    table = pd.read_parquet(folder / "messages.parquet")
    assert list(table.columns) == ["source", "destination", "nbytes", "start_s", "end_s", "exchange"]
    document = json.loads((folder / "result.json").read_text())
    assert table["end_s"].max() + 50e-6 == pytest.approx(document["iteration_time_s"])  # the latency after the last
    pairs = table.groupby(["source", "destination"])["nbytes"].sum()
    traffic = pd.read_csv(folder / "traffic.csv")
    names = traffic[["source", "destination"]].map(lambda name: int(name.removeprefix("worker ")))
    expected = zip(names.itertuples(index=False, name=None), traffic["bytes"], strict=True)
    assert dict(pairs) == pytest.approx(dict(expected))
    assert set(table["exchange"]) == {"AllReduce, bucket 0"}


def test_messages_need_a_folder_and_flows(tmp_path):
    assert refused("run", "ring_check", "--messages").startswith("--messages: expected --out FOLDER, got none: ")
    said = refused("run", "ring_check", "--messages", "--set", "fidelity=fold", "--out", str(tmp_path))
    assert "fidelity: expected `auto` or `flows`, got `fold`" in said


def test_one_worker_sends_no_messages(tmp_path):
    printed("run", "ring_check", "--messages", *["--set", "cluster.nodes=1", "--out", str(tmp_path)])
    assert pd.read_parquet(tmp_path / "messages.parquet").empty


def test_out_holds_what_every_link_carried_over_time(tmp_path):
    """A ring by itself shares no links, nor does one worker; servers do, and their bytes are those of the traffic."""
    printed("run", "ring_check", "--out", tmp_path / "ring")
    assert not (tmp_path / "ring" / "links.csv").exists()
    server = ["--set", "topology={kind: parameter_server, servers: 1}", "--set", "scheduler=wfbp"]
    printed("run", "ring_check", *server, "--out", tmp_path / "ps")
    table = pd.read_csv(tmp_path / "ps" / "links.csv")
    document = json.loads((tmp_path / "ps" / "result.json").read_text())
    name, nbytes = (document["traffic"]["busiest_link"][key] for key in ("name", "bytes"))
    rows = table[table["link"] == name]
    assert (rows["bytes_per_s"].to_numpy()[:-1] * np.diff(rows["time_s"])).sum() == pytest.approx(nbytes, rel=1e-9)
    assert table["utilisation"].max() <= 1 + 1e-9
    assert {item["name"] for item in document["links"]} >= {name}
    printed("run", "ring_check", *server, "--set", "cluster.nodes=1", "--out", tmp_path / "one")
    assert not (tmp_path / "one" / "links.csv").exists()


def test_run_json_is_one_document_with_the_contract_keys():
    document = answered("run", "quickstart")
    assert {
        "scenario", "digest", "versions", "seed", "workers", "iteration_time_s", "iteration_time_interval_s",
        "throughput_samples_per_s", "scaling_efficiency", "breakdown_s", "communication_total_s", "traffic", "density",
        "fidelity", "calibration", "warnings",
    } <= set(document)  # fmt: skip
    assert set(document["breakdown_s"]) == {
        "forward", "backward", "slowdown", "selection", "communication_exposed", "combine", "update", "idle",
    }  # fmt: skip
    assert sum(document["breakdown_s"].values()) == pytest.approx(document["iteration_time_s"], rel=1e-9)
    assert set(document["traffic"]) >= {
        "sent_bytes_per_worker", "sent_bytes_per_worker_max", "total_bytes", "busiest_link",
    }  # fmt: skip
    assert set(document["density"]) >= {"target", "selected", "aggregated", "build_up", "padding"}
    low, high = document["iteration_time_interval_s"]
    assert low <= document["iteration_time_s"] <= high
