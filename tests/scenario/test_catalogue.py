"""What there is: kinds with their parameters, parts by name with their figures, and the key that was meant."""

import pytest

from simulator.component import BrokenPlugin
from simulator.scenario import catalogue
from simulator.scenario.catalogue import LISTED, kinds, list_shipped, suggest_key
from simulator.schedulers.base import Scheduler


def test_a_kind_has_its_parameters_with_defaults_as_in_yaml(monkeypatch):
    monkeypatch.setattr(catalogue, "FAMILIES", (Scheduler,))
    found = {item["kind"]: {each["name"]: each for each in item["parameters"]} for item in kinds()["scheduler"]}
    assert found["diloco"]["inner_steps"]["required"] and found["diloco"]["inner_steps"]["default"] is None
    cycle = found["bucketed"]["cycle_time"]
    assert (cycle["required"], cycle["default"], "default" in cycle["schema"]) == (False, "0.005 s", False)
    assert list(kinds()) == ["scheduler"]
    monkeypatch.setattr(catalogue, "broken_plugins", lambda: [BrokenPlugin("own", "a.b", "no module")])
    assert [item["name"] for item in kinds()["broken_plugins"]] == ["own"]


@pytest.mark.parametrize(
    ("what", "name", "said"),
    [
        ("gpus", "gpus/v100", {"memory_bytes": 16 * 2**30, "fp32_flop_per_s": 15.7e12, "bf16_flop_per_s": None}),
        ("networks", "networks/two-sites-200mbit", {"nics_per_node": 1, "curves_measured": 0}),
        ("runtimes", "runtimes/byteps-0.2", {"what": "BytePS 0.2", "framework": "BytePS"}),
        ("workloads", "workloads/alexnet", {"parameters": 61_100_840, "batch_size": 128, "device": "described"}),
        ("scenarios", "elastic", {"what": "DiLoCo on machines that come and go"}),
        ("traces", "traces/transformer-text", {"workers": 16, "batch_size": 4}),
        ("trainings", "lstm-text", {"parameters": 86_848, "methods": 8, "trainings": 64}),
        ("aliases", "zeropp", {"what": "scheduler: {kind: fsdp, keep: node, gather_wire: int8, reduce_wire: qgz}"}),
    ],
)
def test_what_is_shipped_is_listed_in_order_with_its_figures(what, name, said):
    records = list_shipped(what)
    names = [record["name"] for record in records]
    assert what in LISTED and names == sorted(set(names))
    assert said.items() <= records[names.index(name)].items()


def test_a_file_that_cannot_be_read_is_listed_with_its_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs" / "gpus").mkdir(parents=True)
    (tmp_path / "configs" / "gpus" / "own.yaml").write_text("{name: own, memory_size: 3}")
    (record,) = (each for each in list_shipped("gpus") if each["name"] == "gpus/own")
    assert (record["what"], "memory_size" in record["error"]) == ("", True)


def test_a_key_that_a_scenario_does_not_have_is_found_below_its_parts():
    for key, meant in (("memory_size", "cluster.gpu.memory_size"), ("mixing", "scheduler.mixing"), ("sede", "seed")):
        assert suggest_key(key) == f"did you mean '{meant}'?"
