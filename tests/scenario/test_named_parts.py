"""Parts that are named in scenarios: read once as long as their files are the same, and again when they are not."""

import json
from pathlib import Path

import pytest
from number_fields import numbers

from simulator.errors import InputError
from simulator.scenario import named_parts
from simulator.scenario.changes import with_runtime, with_value, without_randomness
from simulator.scenario.cluster import Cluster
from simulator.scenario.named_parts import WorkloadSource, read_gpu, read_part, read_runtime, read_workload
from simulator.scenario.reading import load
from simulator.scenario.scenario import Mixture, OtherJob, Scenario

SCENARIO = """
name: one
workload: {trace: model, batch_size: %d}
cluster: {nodes: 2, gpu: card, network: {kind: single_switch, bandwidth: 1 GB/s}}
topology: ring
sparsifier: dense
scheduler: sequential
"""
SIZES = {"n_embd": 64, "n_layer": 1, "n_head": 4, "vocab_size": 99}
FILES = {
    "model.yaml": "{name: model, batch_size: 8, layers: layers.csv}\n",
    "layers.csv": "name,numel,forward_s,backward_s\na,1000,0.1,0.2\n",
    "card.yaml": "{name: card, kernels: {elementwise: {curve: affine, slope: 1e-9 s}}}\n",
}


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def read(folder: Path, batch_size=8):
    path = folder / "scenario.yaml"
    path.write_text(SCENARIO % batch_size)
    return load(path)


def test_parts_of_the_same_files_are_the_same_objects(folder):
    first, again, larger = read(folder), read(folder), read(folder, batch_size=16)
    assert again.workload is first.workload
    assert again.cluster.gpu is first.cluster.gpu is larger.cluster.gpu
    assert larger.workload.forward_time == 2 * first.workload.forward_time == pytest.approx(0.2)


def test_a_file_that_was_written_again_is_read_again(folder):
    """Also where neither its size nor, for the clock of the file system, its time has changed."""
    for slope in range(1, 9):
        (folder / "card.yaml").write_text(FILES["card.yaml"].replace("1e-9", f"{slope}e-9"))
        assert read(folder).cluster.gpu.kernels["elementwise"].slope == pytest.approx(slope * 1e-9)
    (folder / "layers.csv").write_text(FILES["layers.csv"] + "b,3000,0.3,0.4\n")
    assert read(folder).workload.numel == 4000
    (folder / "model.yaml").write_text(FILES["model.yaml"].replace("8", "4"))
    assert read(folder).workload.forward_time == pytest.approx(0.8)


def test_what_is_stated_beside_a_name_is_part_of_it(folder):
    plain, stated = read(folder), {}
    for change in ("workload.compute_time=0.9 s", "workload.optimiser=adam", "workload.precision=bf16"):
        stated[change] = load(folder / "scenario.yaml", (change,)).workload
    assert len({plain.workload.fingerprint, *(item.fingerprint for item in stated.values())}) == 4
    assert stated["workload.compute_time=0.9 s"].compute_time == pytest.approx(0.9)
    assert stated["workload.optimiser=adam"].optimiser.kind == "adam"


CONFIG = """{"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
"num_hidden_layers": 2, "num_key_value_heads": 2, "vocab_size": 100, "torch_dtype": "bfloat16",
"max_position_embeddings": 32}"""
ONE = """
name: one
workload: %s
cluster: {nodes: 2, gpu: gpus/a100, network: {kind: single_switch, bandwidth: 1 GB/s}}
topology: ring
sparsifier: dense
scheduler: wfbp
"""


@pytest.mark.parametrize("name", ["config.json", "tiny", "tiny/config.json", "other.json"])
def test_a_model_is_named_by_its_config_json_as_any_workload_is(tmp_path, name):
    path = tmp_path / (f"{name}/config.json" if name == "tiny" else name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(CONFIG)

    def workload(written, *overrides):
        (tmp_path / "mine.yaml").write_text(ONE % written)
        return load(tmp_path / "mine.yaml", overrides).workload

    plain, more = workload(name), workload(f"{{trace: {name}, batch_size: 4, sequence: 16}}")
    assert (plain.batch_size, plain.origin.architecture.sequence, plain.precision.gradients) == (1, 32, "bf16")
    assert plain.numel == 2 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 96 + 2 * 64) + 2 * 100 * 64 + 64
    assert plain.name == {"config.json": "llama", "other.json": "other"}.get(name, "tiny")
    assert (more.batch_size, more.origin.architecture.sequence, more.numel) == (4, 16, plain.numel)
    changed = workload(name, "workload.batch_size=4", "workload.sequence=16")
    assert changed.model_copy(update={"source": ""}) == more.model_copy(update={"source": ""})


def test_a_part_is_found_by_its_path_or_its_name_with_or_without_its_folder(folder):
    assert read_gpu("v100") == read_gpu("gpus/v100") == named_parts.shipped_gpus()["v100"]
    assert read_gpu(str(folder / "card.yaml")).name == "card" and read_runtime("ideal").name == "ideal"
    for asked, where, said in (("v10", "", "gpu: no GPU named 'gpus/v10'"), ("gpus/v10", "--gpu", "^--gpu: no GPU")):
        with pytest.raises(InputError, match=rf"{said}.*: did you mean 'gpus/v100'"):
            read_part(asked, "gpus", where)


def test_a_scenario_without_randomness_or_with_other_software_is_the_same_besides():
    scenario, software = load("mixed_gpus", ("cluster.stragglers.jitter=2 %",)), "runtimes/byteps-0.2"
    steady = without_randomness(scenario).cluster
    gpus = [steady.gpu, *(item.gpu for item in steady.other_gpus)]
    assert len(gpus) > 1 and not any(curve.spread for gpu in gpus for curve in gpu.kernels.values())
    assert (steady.stragglers.jitter, steady.nodes) == (0, scenario.cluster.nodes)
    assert without_randomness(quiet := with_value(scenario, "cluster", steady)) is quiet
    runtime = with_runtime(scenario, software).cluster.runtime
    assert runtime == load("mixed_gpus", (f"cluster.runtime={software}",)).cluster.runtime != read_runtime(software)
    assert runtime.name == "BytePS 0.2"
    model = "workload={model: gpt2, layers: 2, hidden: 64, heads: 2, sequence: 8, vocabulary: 99, batch_size: 3}"
    assert load("mixed_gpus", (model, "parallelism={tensor: 2}")).samples == 3 * scenario.cluster.workers / 2


def test_a_workload_is_read_at_another_batch_size_and_with_overrides(folder):
    model = str(folder / "model.yaml")
    named, doubled = read_workload(model), read_workload(model, batch_size=16)
    assert (named.batch_size, doubled.batch_size, doubled.forward_time) == (8, 16, 2 * named.forward_time)
    assert read_workload(model, ("input_time=3 s",)).input_time == 3
    described = read_workload("gpt2", ("layers=2",))
    assert read_workload("workloads/gpt2").numel > described.numel
    assert (described.batch_size, read_workload("gpt2", ("layers=2",), 3).batch_size) == (8, 3)
    assert named_parts.with_overrides(described, ("layers=1",)).numel < described.numel
    assert named_parts.with_overrides(described, ()) is described
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", **SIZES}))
    for path in (folder, folder / "config.json"):
        assert (read_workload(str(path)).batch_size, read_workload(str(path), (), 5).batch_size) == (1, 5)
    for asked in ("gpt3", "workloads/gpt3"):
        with pytest.raises(InputError, match=r"^MODEL: no workload named 'workloads/gpt3'"):
            read_workload(asked)


def test_a_recorded_trace_says_its_model_and_batch_and_needs_no_times(folder):
    read(folder)
    (folder / "own").mkdir()
    (folder / "own" / "trace.yaml").write_text("{format: 1, model: recorded, batch_size: 4, device: card}\n")
    (folder / "own" / "layers.csv").write_text("name,numel\na,1000\n")
    changes = ("workload={trace: own}", "workload.compute_time=9 ms")
    made = load(folder / "scenario.yaml", changes).workload
    assert (made.name, made.batch_size, made.compute_time, made.device) == ("recorded", 4, pytest.approx(9e-3), "card")
    assert made.gradients == str(folder / "own")
    with pytest.raises(InputError, match=r"expected a compute_time, got none: the layers of .* have no times"):
        load(folder / "scenario.yaml", changes[:1])


@pytest.mark.parametrize(
    ("spec", "name", "least", "most"),
    [
        (Cluster, "nodes", 1, 2**17), (Cluster, "gpus_per_node", 1, 1024), (OtherJob, "gpus_per_node", 1, 1024),
        (Mixture, "core", 0, 1), (Mixture, "silent", 0, 1), (Scenario, "iterations", 1, 10**5),
        (Scenario, "warmup", 0, 10**5), (WorkloadSource, "compute_width", 1, 100),
    ],
)  # fmt: skip
def test_a_number_of_a_scenario_has_two_ends(spec, name, least, most):
    (number,) = (each for of, each, _ in numbers(spec) if of == name)
    assert (number.smallest, number.largest) == (least, most)
