"""Parts that are named in scenarios: read once as long as their files are the same, and again when they are not."""

from pathlib import Path

import pytest

from simulator.scenario.reading import load

SCENARIO = """
name: one
workload: {trace: model, batch_size: %d}
cluster: {nodes: 2, gpu: card, network: {kind: single_switch, bandwidth: 1 GB/s}}
topology: ring
sparsifier: dense
scheduler: sequential
"""
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
