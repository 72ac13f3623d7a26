"""Described models in scenarios: times follow the GPU and the keys, and what is printed can be run again."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import yaml
from number_fields import all_specs, unbounded

from simulator import architectures
from simulator.architectures.describing import describe_again, description_of, price, recompute_fully, written
from simulator.errors import InputError
from simulator.hardware.gpu import Gpu
from simulator.hardware.widths import OTHER_GPU, OTHER_SOFTWARE, compute_width
from simulator.scenario.named_parts import read_workload
from simulator.scenario.reading import load
from simulator.scenario.scenario import Scenario

MODEL: dict[str, Any] = {
    "model": "transformer", "layers": 2, "hidden": 256, "heads": 4, "vocabulary": 1000, "sequence": 64, "batch_size": 4,
}  # fmt: skip


def document(**changes: Any) -> dict[str, Any]:
    """A scenario with a described model; keys of the workload and the scenario replaced."""
    cluster = {"nodes": 2, "gpus_per_node": 2, "gpu": "gpus/a100", "network": "networks/10gbe-tcp"}
    cluster |= {"runtime": "runtimes/pytorch-ddp"}
    made = {"workload": MODEL, "cluster": cluster, "topology": "ring", "sparsifier": "dense"}
    return made | {"scheduler": {"kind": "bucketed"}} | changes


def write(folder: Path, **changes: Any) -> Path:
    """The scenario as a file."""
    path = folder / "scenario.yaml"
    path.write_text(yaml.safe_dump(document(**changes)), encoding="utf-8")
    return path


def message(folder: Path, *overrides: str, **changes: Any) -> str:
    """The error of a scenario."""
    with pytest.raises(InputError) as caught:
        load(write(folder, **changes), overrides)
    return str(caught.value)


def test_a_printed_scenario_is_the_same_scenario(tmp_path: Path) -> None:
    scenario = load(write(tmp_path), ("workload.micro_batches=2", "workload.precision=bf16"))
    printed = tmp_path / "printed.yaml"
    printed.write_text(yaml.safe_dump(scenario.resolved(), sort_keys=False), encoding="utf-8")
    again = load(printed)
    assert (again.resolved(), again.digest) == (scenario.resolved(), scenario.digest)
    assert again.workload == scenario.workload
    assert scenario.resolved()["workload"]["model"] == "transformer"


def test_times_follow_the_gpu_and_the_keys(tmp_path: Path) -> None:
    path = write(tmp_path)
    base = load(path).workload
    assert base.device == "NVIDIA A100-PCIE-40GB"
    other = load(path, ("cluster.gpu=gpus/t4",)).workload
    assert other.device == "Tesla T4"
    assert other.forward_time > 2 * base.forward_time
    assert 1.2 * base.backward_time < load(path, ("workload.layers=4",)).workload.backward_time < 2 * base.backward_time
    large = load(path, ("workload.batch_size=64",)).workload
    assert 4 * base.forward_time < large.forward_time < 16 * base.forward_time
    assert large.activation_bytes == pytest.approx(base.activation_bytes or 0)


def test_a_described_model_is_priced_again_for_another_gpu_and_only_then(tmp_path: Path) -> None:
    scenario = load(write(tmp_path))
    assert Scenario.model_validate(scenario.model_copy(update={"seed": 3}).resolved()).workload == scenario.workload
    cluster = load(write(tmp_path), ("cluster.gpu=gpus/v100",)).cluster
    moved = Scenario(**{**dict(scenario), "cluster": cluster})
    assert moved.workload.device == "Tesla V100-SXM2"
    assert price(moved.workload, cluster.gpu) is moved.workload


def test_how_element_wise_work_runs_is_a_property_of_the_framework(tmp_path: Path) -> None:
    """An RMS norm of n numbers in 16 bits moves 4 n bytes in one kernel; in eager mode 36 n, and 92 n backward."""
    path = write(tmp_path, workload=MODEL | {"sequence": 1024, "precision": "bf16", "gated": True})
    times = {}
    for each in ("eager", "one_kernel", "compiled"):
        scenario = load(path, (f"cluster.runtime.element_wise={each}",))
        assert scenario.workload.estimated is not None and scenario.workload.estimated.element_wise == each
        assert Scenario.model_validate(scenario.resolved()).workload == scenario.workload
        assert written(scenario.workload, scenario.cluster.gpu) is not None
        times[each] = scenario.workload.backward_time
    assert times["eager"] > times["one_kernel"] > times["compiled"]
    assert price(scenario.workload, scenario.cluster.gpu, "eager").backward_time == times["eager"]
    made = description_of(scenario.workload.origin.architecture, 1, scenario.workload.precision)
    norms = (
        [item for item in made.forward if item.name == "norm"],
        [item for item in made.backward if item.name == "norm"],
    )
    assert [sum(item.eager for item in items) / (5 * 1024 * 256) for items in norms] == [36, 92]


def test_operators_that_are_made_again_are_all_but_attention_and_every_other_product(tmp_path: Path) -> None:
    """Of seven products, those of keys, output and up are made again; kept are, in elements of a token and hidden: the
    input, queries, values, the gate (4), the last one (1) and the output of attention."""
    base = MODEL | {"precision": "bf16", "gated": True, "layers": 1, "vocabulary": 8, "mlp": 1024}
    none, some = (load(write(tmp_path, workload=base | {"recompute": each})).workload for each in ("none", "operators"))
    made = [description_of(each.origin.architecture, 1, each.precision) for each in (none, some)]
    before, after = ([item for item in each.backward if item.name in ("linear", "attention")] for each in made)
    hidden, tokens = 256, 64
    again = [item for item in after if item not in before]
    assert [(item.n, item.k) for item in again] == [(hidden, hidden), (hidden, hidden), (1024, hidden)]
    rest = 2 * 2 * tokens * hidden + 8 * tokens * 4  # last norm and decoder, logits in fp32
    assert made[1].kept_bytes - rest == 2 * tokens * hidden * (1 + 1 + 1 + 4 + 1 + 1)
    in_fp8 = description_of(some.origin.architecture.model_copy(update={"arithmetic": "fp8"}), 1, some.precision)
    # In fp8 each product but the last one, whose result the backward pass of the block does not need.
    assert [sum(item.fp8 for item in each) for each in (in_fp8.forward, in_fp8.backward)] == [7, 14 + 6]


def test_fp8_is_for_linear_layers_of_blocks_whose_operands_are_cast(tmp_path: Path) -> None:
    """Seven layers a block, not the decoder, nor attention. Four bytes are moved for each element cast: weights,
    inputs (queries, keys and values have one, gate and up have one), and gradients of outputs."""
    base = MODEL | {"precision": "bf16", "gated": True, "layers": 1, "mlp": 1024, "arithmetic": "fp8"}
    changes: dict[str, Any] = {"workload": base, "cluster": document()["cluster"] | {"gpu": "gpus/h100"}}
    workload = load(write(tmp_path, **changes)).workload
    made, in_bf16 = (
        architecture.describe(1, workload.precision)
        for architecture in (
            workload.origin.architecture,
            workload.origin.architecture.model_copy(update={"arithmetic": "bf16"}),
        )
    )
    assert [sum(item.fp8 for item in each) for each in (made.forward, made.backward)] == [7, 14]
    assert made.kept_bytes == in_bf16.kept_bytes
    weights, tokens = 4 * 256**2 + 3 * 256 * 1024, 64
    casts = [sum(item.nbytes for item in each if "fp8" in item.name) for each in (made.forward, made.backward)]
    assert casts == [4 * (weights + tokens * (256 + 256 + 256 + 1024)), 4 * tokens * (5 * 256 + 2 * 1024)]
    assert made.forward[-3].name == "linear" and not made.forward[-3].fp8
    assert "expected an arithmetic of A100" in message(tmp_path, workload=base)
    assert "linear layers of transformers have it" in message(
        tmp_path, workload={"model": "resnet", "depth": 18, "batch_size": 4, "arithmetic": "fp8"}
    )


def test_a_changed_workload_is_printed_with_its_layers(tmp_path: Path) -> None:
    scenario = load(write(tmp_path))
    workload = scenario.workload
    slower = workload.model_copy(update={"layers": workload.scaled(2.0, 1.0).layers})
    printed = scenario.model_copy(update={"workload": slower}).resolved()["workload"]
    assert "model" not in printed and len(printed["layers"]) == len(workload.layers)
    assert written(workload, scenario.cluster.gpu) is not None
    assert slower.fingerprint != workload.fingerprint


def test_passes_are_priced_at_their_own_size(tmp_path: Path) -> None:
    whole, cut = (load(write(tmp_path), (f"workload.micro_batches={n}",)).workload for n in (1, 4))
    one = load(write(tmp_path), ("workload.batch_size=1",)).workload
    assert cut.forward_time == pytest.approx(4 * one.forward_time)
    assert cut.forward_time > whole.forward_time


def test_a_stated_step_counts_more_than_estimates(tmp_path: Path) -> None:
    scenario = load(write(tmp_path), ("workload.compute_time=100 ms",))
    assert scenario.workload.stretched(0.0).forward_time + scenario.workload.stretched(0.0).backward_time == (
        pytest.approx(0.1)
    )
    assert compute_width(scenario.workload, scenario.cluster.gpu).level == "measured"


def test_estimates_say_so_with_their_width(tmp_path: Path) -> None:
    scenario = load(write(tmp_path))
    known = compute_width(scenario.workload, scenario.cluster.gpu)
    assert known.level == "estimated" and known.width >= OTHER_SOFTWARE and "timed on" in known.source
    elsewhere = compute_width(scenario.workload, load(write(tmp_path), ("cluster.gpu=gpus/t4",)).cluster.gpu)
    assert elsewhere.width >= OTHER_GPU and "estimated for" in elsewhere.source
    in_bf16 = load(write(tmp_path), ("workload.precision=bf16", "cluster.gpu=gpus/l4"))
    assert "published" in compute_width(in_bf16.workload, in_bf16.cluster.gpu).source


def test_a_named_model_at_another_batch_is_described_again() -> None:
    gpt, more = read_workload("gpt2"), read_workload("gpt2", batch_size=16)
    assert more == describe_again(gpt, {"batch_size": 16})
    assert more.batch_size == 16 and more.numel == gpt.numel
    short = read_workload("gpt2", ("sequence=128", "layers=2"))
    assert short.numel < gpt.numel and short.activation_bytes < gpt.activation_bytes / 8


def test_a_named_model_can_be_changed_in_place(tmp_path: Path) -> None:
    changed = {"trace": "workloads/gpt2", "batch_size": 2, "layers": 3, "recompute": "full", "compute_time": "1 s"}
    workload = load(write(tmp_path, workload=changed)).workload
    assert (workload.batch_size, workload.compute_time, len(workload.layers)) == (2, 1.0, 2 + 3 * 12 + 2)
    text = message(tmp_path, workload={"trace": "workloads/gpt2", "layer": 3})
    assert "expected a known key, got 'layer': did you mean 'layers'?" in text


def test_another_job_has_its_own_times(tmp_path: Path) -> None:
    job = {"nodes": [1], "workload": MODEL | {"layers": 4}, "topology": "ring", "sparsifier": "dense"}
    scenario = load(write(tmp_path, other_jobs=[job | {"scheduler": "wfbp"}]))
    assert scenario.other_jobs[0].workload.backward_time > scenario.workload.backward_time
    assert scenario.resolved()["other_jobs"][0]["workload"]["layers"] == 4


def test_workloads_travel_to_other_processes(tmp_path: Path) -> None:
    scenario = load(write(tmp_path))
    again = pickle.loads(pickle.dumps(scenario))
    assert again.resolved() == scenario.resolved() and again.digest == scenario.digest


@pytest.mark.parametrize(
    ("name", "again"),
    [("workloads/resnet50-v100", False), ("workloads/resnet50", False), ("gpt2", True), ("recompute", False)],
)
def test_only_blocks_can_be_made_again(name: str, again: bool) -> None:
    workload = read_workload("gpt2", ("recompute=full",)) if name == "recompute" else read_workload(name)
    made = recompute_fully(workload)
    assert (made is not workload) == again
    assert not again or made.origin.architecture == read_workload("gpt2", ("recompute=full",)).origin.architecture


def test_no_size_of_a_model_is_without_bounds() -> None:
    assert not unbounded(all_specs(architectures))


def test_an_ideal_gpu_takes_no_time(tmp_path: Path) -> None:
    workload = load(write(tmp_path), ("cluster.gpu=gpus/ideal",)).workload
    assert workload.forward_time == workload.backward_time == 0


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("workload.model=transfomer", "did you mean 'transformer'?"),
        ("workload.model=[1]", "expected a kind of model"),
        ("workload.layer=3", "workload.layer: expected a known key, got 'layer': did you mean 'layers'?"),
        ("workload.batchsize=3", "did you mean 'batch_size'?"),
        ("workload.heads=3", "expected a number of heads that divides 256"),
        ("workload.kv_heads=3", "expected kv_heads that divide 4 heads"),
        ("workload.layers=0", "workload.layers: expected at least 1"),
        ("workload.layers=ten", "workload.layers: expected a whole number"),
        ("workload.hidden=1e30", "workload.hidden: expected"),
        ("workload.hidden=.nan", "workload.hidden: expected"),
        ("workload.batch_size=0", "workload.batch_size: expected at least 1"),
        ("workload.micro_batches=3", "expected a number of micro-batches that divides the batch of 4"),
        ("workload.arithmetic=fp9", "expected one of"),
        ("workload.config=config.json", "got both"),
        ("cluster.gpu.fp32_rate=null", "expected the rate of A100 40 GB in fp32"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, override: str, words: str) -> None:
    assert words in message(tmp_path, override)


def test_a_format_that_the_gpu_does_not_have_is_refused(tmp_path: Path) -> None:
    text = message(tmp_path, "workload.precision=bf16", "cluster.gpu=gpus/v100")
    assert "expected an arithmetic of Tesla V100, PyTorch before 1.12: fp32, fp16, got bf16" in text
    assert load(write(tmp_path), ("workload.arithmetic=mixed", "cluster.gpu=gpus/v100")).workload.has_times


def test_a_gpu_without_memory_bandwidth_is_refused() -> None:
    workload = read_workload("gpt2")
    with pytest.raises(Exception, match="a GPU with a memory_bandwidth"):
        price(workload, Gpu(name="bare", fp32_rate=1e12))


HOSTILE = [
    {"model": "transformer", "layers": 1000, "hidden": 100_000, "heads": 1, "vocabulary": 10**7, "sequence": 10**7},
    {"model": "resnet", "image": "3x1x1"},
    {"model": "alexnet", "image": [3, 10, 10]},
    {"model": "convolutional", "steps": []},
    {"model": "convolutional", "steps": [{"pool": 2}]},
    {"model": "convolutional", "steps": [{"linear": 2, "pool": 2}]},
    {"model": "convolutional", "steps": [{"linear": 2}, {"convolution": 3}]},
    {"model": "vit", "layers": 1, "hidden": 8, "heads": 2, "patch": 15},
    {"model": "lstm", "hidden": 8, "vocabulary": 5, "embedding": 4, "tied": True},
    {"model": "dlrm", "tables": [], "embedding": 4, "bottom": [], "top": []},
    {"model": "dlrm", "tables": [10**6, -1], "embedding": 10**6, "bottom": [1], "top": [1]},
    {"model": "dlrm", "tables": [10**6] * 1000, "embedding": 10**6, "bottom": [], "top": []},
    {"model": "ncf", "users": 1, "items": 10**12, "factors": 10**6, "network": [1]},
    {"model": "listed", "samples": 1, "tensors": []},
    {"model": "listed", "samples": 1, "tensors": [{"name": "a", "numel": 1, "forward": [["product", 1]]}]},
    {"model": "transformer"},
    {"config": 3},
    {"config": "\x00"},
    {"config": "no such file"},
]


@pytest.mark.parametrize("given", HOSTILE, ids=lambda value: json.dumps(value)[:60])
def test_hostile_descriptions_are_input_errors_or_finite(tmp_path: Path, given: dict[str, Any]) -> None:
    try:
        scenario = load(write(tmp_path, workload={"batch_size": 4} | given))
    except InputError as error:
        assert "expected" in str(error) or "no file" in str(error)
    else:
        assert scenario.workload.forward_time < float("inf")


def test_a_training_that_does_not_fit_is_told_of_recomputation(tmp_path: Path) -> None:
    from simulator.prediction.memory import describe_remedies, memory_of
    from simulator.prediction.run import plan_of

    scenario = load(write(tmp_path), ("workload.sequence=4096", "workload.batch_size=256", "ignore_memory=true"))
    text = " ".join(describe_remedies(scenario, memory_of(scenario, plan_of(scenario))))
    assert "`workload.recompute: full`: " in text and "recomputing the activations" not in text
    again = load(write(tmp_path), ("workload.sequence=4096", "workload.batch_size=256", "workload.recompute=full"))
    assert again.workload.backward_time > 1.2 * scenario.workload.backward_time


def test_products_make_the_gradients_of_weights_alone():
    """Not those of biases and norms, nor of the table of embeddings; experts have a product for all of them."""
    layers = load(
        "quickstart",
        (
            "workload={model: transformer, layers: 1, hidden: 64, heads: 2, vocabulary: 100, "
            "sequence: 16, experts: 4, biases: all, batch_size: 1, recompute: full}",
        ),
    ).workload.layers
    made = {layer.name for layer in layers if layer.by_product}
    weights = {layer.name for layer in layers if layer.name.endswith("weight") and "norm" not in layer.name}
    assert made == weights - {"model.embed_tokens.weight"} and any("experts" in name for name in made)
