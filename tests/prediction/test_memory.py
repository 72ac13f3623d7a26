"""The memory of a worker: closed forms part by part, what fits and what is refused."""

import json
import re

import pandas as pd
import pytest
from command_line import invoke, printed, refused
from hypothesis import given
from hypothesis import strategies as st
from long_examples import few_first
from places import ROOT
from small_scenarios import small_scenario

from examples import mapping
from simulator.component import discover
from simulator.errors import InputError
from simulator.models.optimisers import UNKNOWN_OPTIMISER
from simulator.prediction.memory import memory_of
from simulator.prediction.memory_parts import CONTEXT, LEAST_CONTEXT, PART_LABELS
from simulator.prediction.run import plan_of, run
from simulator.scenario.reading import load
from simulator.sparsifiers.base import Sparsifier

GIB = 2.0**30
D = 1_000_000 + 500
LAYERS = [{"name": "a", "numel": 1_000_000, "forward": 1.0, "backward": 1.0}, {"name": "b", "numel": 500}]


def scenario(sparsifier="dense", nodes=4, capacity=None, gpu=None, **parts):
    """Two tensors of 1,000,500 elements in all, on four workers."""
    workload = {"batch_size": 8, "layers": LAYERS, "optimiser": "sgd", **parts.pop("workload", {})}
    card = {"name": "card", "memory_bandwidth": 1e12, **({"memory_size": capacity} if capacity else {}), **(gpu or {})}
    return small_scenario(workload, card, {"bandwidth": 1e9}, nodes, sparsifier=sparsifier, **parts)


def memory(*args, **parts):
    made = scenario(*args, **parts)
    return memory_of(made, plan_of(made))


def sizes(*args, **parts):
    return {part.name: part.nbytes for part in memory(*args, **parts).details}


def test_mixed_precision_with_adam_takes_16_bytes_per_parameter():
    """Rajbhandari et al. 2020: 2 + 2 + 4 + 4 + 4."""
    made = sizes(nodes=1, workload={"precision": "fp16", "optimiser": {"kind": "adam", "implementation": "fused"}})
    assert [made[name] / D for name in ("parameters", "gradients", "master_weights", "optimiser")] == [2, 2, 4, 8]


@pytest.mark.parametrize(("kind", "values"), [("sgd", 0), ("momentum", 1), ("adam", 2), ("adamw", 2), ("lamb", 2)])
@pytest.mark.parametrize(
    ("precision", "width"), [("fp32", 4), ("bf16", 4), ({"gradients": "bf16", "master_weights": False}, 2)]
)
def test_states_of_every_optimiser(kind, values, precision, width):
    workload = {"precision": precision, "optimiser": {"kind": kind, "implementation": "fused"}}
    assert sizes(nodes=1, workload=workload)["optimiser"] == values * width * D


def test_an_optimiser_that_is_not_stated_is_a_range():
    made = scenario()
    workload = made.workload.model_copy()
    workload.model_fields_set.discard("optimiser")
    changed = made.model_copy(update={"workload": workload})
    part = next(part for part in memory_of(changed, plan_of(changed)).details if part.name == "optimiser")
    assert [item.kind for item in UNKNOWN_OPTIMISER] == ["sgd", "adamw"]
    assert (part.least, part.most) == (0, 8 * D)


def test_activations_are_those_of_one_pass():
    for passes, samples in ((1, 8), (2, 4), (8, 1)):
        assert sizes(workload={"activation_bytes": 1e6, "micro_batches": passes})["activations"] == samples * 1e6


def described(recompute="none", **parts):
    """Memory of a decoder of four blocks, 64 tokens in a pass and 1,000 words."""
    sizes = {"layers": 4, "hidden": 64, "heads": 4, "vocabulary": 1000, "sequence": 32, "gated": True}
    workload = {"model": "transformer", "batch_size": 2, "recompute": recompute, **sizes, **parts.pop("workload", {})}
    card = {"name": "card", "memory_bandwidth": 1e12, "fp32_rate": 1e13, "memory_size": parts.pop("capacity", GIB)}
    made = small_scenario(workload, card, {"bandwidth": 1e9}, 1, ignore_memory=True, **parts)
    return memory_of(made, plan_of(made))


def test_the_backward_pass_begins_with_two_gradients_of_the_logits():
    """8 B of each, unless the loss is fused or in chunks: whether a GPU that has room for half of them fits is open."""
    found = described()
    (part,) = (part for part in found.details if part.name == "working")
    assert (part.least, part.nbytes) == (0, 8 * 64 * 1000)
    assert described(capacity=found.total).fits is True
    assert described(capacity=found.total - 4 * 64 * 1000).fits is None
    assert "working" not in {part.name for part in described(workload={"activation_bytes": 1e6}).details}


def test_a_block_that_is_recomputed_is_there_when_what_stands_behind_it_is_free():
    """All that it keeps otherwise but its input; behind it are norm and decoder with their inputs, and the logits."""
    kept = [described(each, workload={"vocabulary": 8}).parts["activations"] for each in ("none", "full")]
    found = described("full", workload={"vocabulary": 8})
    (part,) = (part for part in found.details if part.name == "working")
    behind = 64 * (2 * 64 + 8) * 4
    assert part.least == part.nbytes == (kept[0] - kept[1]) / 4 - behind > 0
    assert described("full", workload={"vocabulary": 8}, capacity=found.least - 1).fits is False


LONG = ("workload.batch_size=1", "workload.recompute=full", "workload.arithmetic=fp8")


@pytest.mark.parametrize(
    ("asked", "measured"),
    [(("cluster.nodes=1",), (82.4, 77.0)), (("cluster.nodes=16",), (67.0, 62.0)),
     ((*LONG, "workload.sequence=32768"), (83.9,)),
     ((*LONG, "workload.sequence=131072", "parallelism={context: 4}"), (84.0,))],
    ids=["8 GPUs", "128 GPUs", "long samples", "longer ones on several GPUs"],
)  # fmt: skip
def test_memory_of_torchtitan_is_as_was_published(asked, measured):
    """GiB of Llama 3.1 8B on H100, eager, compiled and in fp8 (benchmarks/llama3_h100_202412_torchtitan.md)."""
    made = load(ROOT / "scenarios/validation/h100-torchtitan-fsdp/template.yaml", asked)
    total = memory_of(made, plan_of(made)).total / GIB
    assert all(abs(total / each - 1) < 0.1 for each in measured)


def test_activations_that_are_not_stated_are_named_and_left_out():
    found = memory(capacity=GIB)
    assert found.not_known == ["activations"] and found.fits is None
    assert found.parts["activations"] is None
    assert found.total == pytest.approx(8 * D + CONTEXT, rel=1e-12)


@pytest.mark.parametrize(("method", "values"), [("dense", 0), ("topk", 1), ("dgc", 2), ("signum", 1), ("qsgd", 0)])
def test_methods_keep_their_state_in_the_format_of_residuals(method, values):
    member, half = mapping(Sparsifier, method), {"precision": {"gradients": "bf16", "residuals": "bf16"}}
    assert sizes(member).get("method", 0) == 4 * values * D
    assert sizes(member, workload=half).get("method", 0) == 2 * values * D
    assert "method" not in sizes(member, nodes=1)


def test_gathered_payloads_of_all_workers_stay_until_they_are_combined():
    """k = 10,000 and 5 pairs of 8 bytes from each of four workers; at least those of the large bucket."""
    part = next(part for part in memory({"kind": "topk", "density": 0.01}).details if part.name == "exchange")
    assert part.nbytes == 4 * 8 * (10_000 + 5) and part.least == 4 * 8 * 10_000


def test_buffers_of_dense_gradients():
    """Tensors by themselves need none; DDP copies all; elsewhere the largest bucket is; a cast needs room to travel."""
    assert not {"buckets", "exchange"} & set(sizes())
    assert sizes(cluster={"runtime": {"framework": "pytorch-ddp"}})["buckets"] == 4 * D
    assert sizes(scheduler="sequential")["buckets"] == 4 * D
    assert sizes(workload={"precision": {"travels": "bf16"}})["exchange"] == 2 * 1_000_000


def test_what_autocast_and_running_averages_add():
    assert sizes(workload={"measured_precision": "fp16"})["cast_weights"] == 2 * D
    average = {"kind": "sgd", "average": {"tensors": 2, "numel": 77}}
    assert sizes(workload={"optimiser": average})["running_average"] == 4 * 77


def test_temporaries_of_the_update_use_what_the_activations_leave():
    foreach = {"kind": "adam", "implementation": "foreach"}
    assert sizes(workload={"optimiser": foreach})["update"] == 4 * D
    assert sizes(workload={"optimiser": foreach, "activation_bytes": 1e5})["update"] == 4 * D - 8e5
    assert sizes(workload={"optimiser": {"kind": "adam"}})["update"] == 4 * 1_000_000 and "update" not in sizes()


def test_the_least_counts_gradients_and_activations_once_where_one_backward_pass_turns_one_into_the_other():
    for passes, shared in ((1, 4 * D), (2, 0)):
        found = memory(workload={"activation_bytes": 1e6, "micro_batches": passes})
        assert found.least == pytest.approx(8 * D + 8e6 / passes + LEAST_CONTEXT - shared, rel=1e-12)


def test_the_smallest_gpu_of_a_mixed_cluster_counts():
    other = {"name": "small", "memory_bandwidth": 1e12, "memory_size": GIB}
    cluster = {"other_gpus": [{"nodes": [1], "gpu": other, "factor": 2.0}]}
    assert memory(capacity=8 * GIB, cluster=cluster).gpu == "small" and memory(cluster=cluster).capacity == GIB


SHORT = {"gradients": "bf16", "travels": "fp32"}


@pytest.mark.parametrize(
    ("scheduler", "precision", "gathered", "reduced"),
    [
        ({"kind": "fsdp"}, SHORT, (2 * 500, 2 * 300), (2 * 500, 4 * 300)),
        ({"kind": "fsdp", "prefetch": 2, "flat": True}, SHORT, (2 * 600, 0), (2 * 500, 4 * 300)),
        ({"kind": "fsdp", "keep": "node"}, SHORT, (2 * (500 + 600 / 2), 2 * 300), (2 * 500, 4 * 300)),
        ({"kind": "fsdp", "gather_wire": "int8"}, SHORT, (2 * 500, (1 + 4 / 2048) * 300), (2 * 500, 4 * 300)),
        ({"kind": "fsdp", "reduce_wire": "loco"}, SHORT, (2 * 500, 2 * 300),
            (2 * 500 + (1 + 1 / 2) * 600, (4 + 2 * (0.5 + 4 / 2048)) * 300)),
        ({"kind": "fsdp", "reduce_wire": "bf16"}, SHORT, (2 * 500, 2 * 300), (2 * 500, 2 * 2 * 300)),
        ({"kind": "fsdp", "accumulate": "none"}, SHORT, (2 * 500, 2 * 300), (4 * 600, 4 * 300)),
        ({"kind": "zero", "stage": 1, "bucket": 1}, "fp32", (4 * (600 - 150), 0), (4 * (600 - 150), 4 * 300)),
        ({"kind": "zero", "stage": 2, "bucket": 1}, "fp32", (4 * (600 - 150), 0), (4 * 500, 4 * 300)),
        ({"kind": "zero", "stage": 1, "bucket": 1}, SHORT, (2 * 600, 0), (2 * 600, 4 * 300)),
        ({"kind": "megatron", "bucket": 1}, SHORT, (2 * 600, 0), (4 * (600 - 150), 0)),
    ],
)  # fmt: skip
def test_what_is_whole_for_a_while_and_buffers_of_its_collectives(scheduler, precision, gathered, reduced):
    """Units of 100, 300 and 200 parameters on two nodes of two GPUs, in two passes; none or two buffers, besides."""
    layers = [{"name": f"h.{number}.w", "numel": numel} for number, numel in enumerate((100, 300, 200))]
    workload = {"layers": layers, "precision": precision, "micro_batches": 2}
    found = memory(nodes=2, cluster={"gpus_per_node": 2}, scheduler=scheduler, workload=workload).details
    for name, (whole, buffer) in (("gathered", gathered), ("reduced", reduced)):
        (part,) = (part for part in found if part.name == name)
        assert (part.least, part.nbytes, part.most) == pytest.approx((whole, whole + buffer, whole + 2 * buffer)), name


@pytest.mark.parametrize(("nodes", "second"), [(1, 0), (2, 600 / 2)])
def test_a_second_copy_of_a_node_is_there_where_a_group_has_several(nodes, second):
    """Of 600 parameters in bf16 a GPU has its half; a group in one node has its only copy there."""
    layers = [{"name": f"h.{number}.w", "numel": numel} for number, numel in enumerate((100, 300, 200))]
    parts = {"cluster": {"gpus_per_node": 2}, "workload": {"layers": layers, "precision": SHORT}}
    once, kept = (
        next(part for part in memory(nodes=nodes, scheduler=asked, **parts).details if part.name == "gathered")
        for asked in ("fsdp", {"kind": "fsdp", "keep": "node"})
    )
    assert kept.nbytes - once.nbytes == 2 * second


BIG = {"activation_bytes": GIB, "optimiser": {"kind": "adamw", "implementation": "fused"}}


def test_what_does_not_fit_is_refused_with_its_parts_and_what_would_help():
    """8 GiB of activations do not fit into 4 GiB; four micro-batches of two samples leave 2 GiB."""
    with pytest.raises(InputError) as caught:
        run(scenario({"kind": "topk", "density": 0.01}, capacity=4 * GIB, workload=BIG, name="big"))
    first, helps, others, ignored = str(caught.value).splitlines()
    said = "scenario 'big': expected at most 4 GiB of memory on each card, got 8.488 GiB: activations 8 GiB, "
    assert first.startswith(said)
    assert "`workload.micro_batches: 4`: 2.488 GiB, which fits" in helps
    assert "recomputing the activations" in others
    assert "`--ignore-memory`, or `ignore_memory: true` in the scenario, predicts it all the same" in ignored
    assert run(scenario(capacity=4 * GIB, workload={**BIG, "micro_batches": 4})).document["memory"]["fits"] is True


def test_the_remedies_that_are_named_do_what_they_say():
    """24 bytes per parameter: 4 + 4 + 8 of Adam, 4 of residuals, 4 to select from. Activations would come on top."""
    layers = [{**LAYERS[0], "numel": 500_000_000}]
    workload = {"layers": layers, "optimiser": {"kind": "adam", "implementation": "fused"}}
    with pytest.raises(InputError) as caught:
        run(scenario({"kind": "randomk", "density": 1e-6}, capacity=6 * GIB, workload=workload))
    text = str(caught.value)
    bare = 500_000_000 / GIB
    assert f"(`sparsifier: dense`): {16 * bare + CONTEXT / GIB:.4g} GiB" in text
    assert f"(`sgd`): {16 * bare + CONTEXT / GIB:.4g} GiB" in text
    assert f"without fp32 copies: {12 * bare + CONTEXT / GIB:.4g} GiB" in text
    assert f"the first 2 of these together: {8 * bare + CONTEXT / GIB:.4g} GiB, which fits" in text
    assert "micro_batches" not in text and "activations, which are not known" in text


def test_a_model_that_does_not_fit_is_told_what_sharding_leaves():
    """Eight GPUs divide sixteen bytes of each parameter; two of eight units are gathered and reduced at a time."""
    layers = [{**LAYERS[0], "name": f"blocks.{i}.weight", "numel": 500_000_000} for i in range(8)]
    workload = {"layers": layers, "optimiser": {"kind": "adam", "implementation": "fused"}}
    with pytest.raises(InputError) as caught:
        run(scenario({"kind": "topk", "density": 0.01}, capacity=60 * GIB, nodes=8, workload=workload))
    helps = str(caught.value).splitlines()[1]
    assert re.search(r"\(`scheduler: fsdp`, `sparsifier: dense`\): [\d.]+ GiB, which fits", helps)
    assert "together" not in helps


def test_what_is_ignored_goes_on_with_a_warning():
    asked = scenario(capacity=4 * GIB, workload=BIG, ignore_memory=True)
    document = run(asked).document
    assert document["memory"]["fits"] is False
    said = "this training cannot run: a worker needs 8.481 GiB of memory, and card has 4 GiB"
    assert document["warnings"][0].startswith(said)
    assert document["iteration_time_s"] == run(scenario(workload=BIG)).document["iteration_time_s"]
    assert asked.digest != scenario(capacity=4 * GIB, workload=BIG).digest


def test_what_may_not_fit_is_a_warning():
    """The sum of 8 GiB and 0.5 GB is too much, the least of 8 GiB and 0.2 GB is not."""
    document = run(scenario(capacity=8 * GIB + 16 * D + 0.3e9, workload=BIG)).document
    assert document["memory"]["fits"] is None
    assert document["warnings"][0].startswith("this training may not run: a worker needs 8.48")


def test_nothing_is_refused_where_the_memory_of_the_gpu_is_not_stated():
    assert run(scenario(workload={"activation_bytes": 1e15})).document["memory"]["fits"] is None


@given(
    kind=st.sampled_from(list(discover(Sparsifier))),
    nodes=st.integers(1, 9),
    precision=st.sampled_from(["fp32", "fp16", {"travels": "bf16"}]),
    optimiser=st.sampled_from(["sgd", "momentum", {"kind": "adamw", "implementation": "foreach"}]),
    activations=st.one_of(st.none(), st.floats(1, 1e9)),
)
def test_every_sum_lies_in_its_range_and_more_passes_never_need_more(kind, nodes, precision, optimiser, activations):
    totals = []
    for passes in (1, 2, 8):
        workload = {"precision": precision, "optimiser": optimiser, "micro_batches": passes}
        workload |= {} if activations is None else {"activation_bytes": activations}
        try:
            found = memory(mapping(Sparsifier, kind), nodes=nodes, workload=workload)
        except InputError:
            return
        assert 0 < found.least <= found.total <= found.most
        assert [part.name for part in found.details] == [n for n in PART_LABELS if n in {p.name for p in found.details}]
        totals.append(found.total)
    assert totals == sorted(totals, reverse=True)


FILE = """name: big
workload: {batch_size: 8, activation_bytes: 1 GiB, optimiser: sgd, layers: [{name: a, numel: 1000, backward: 1 ms}]}
cluster:
  nodes: 2
  gpu: {name: card, memory_bandwidth: 1 TB/s, memory_size: 4 GiB}
  network: {kind: single_switch, bandwidth: 1 Gbit/s}
topology: ring
sparsifier: dense
scheduler: wfbp
"""


@pytest.mark.parametrize("command", few_first(["run", "explain", "advise"], 2))
def test_commands_refuse_it_and_go_on_where_it_is_ignored(command, tmp_path):
    (tmp_path / "big.yaml").write_text(FILE)
    asked = [command, str(tmp_path / "big.yaml")]
    assert "expected at most 4 GiB of memory on each card, got 8.466 GiB: activations 8 GiB" in refused(*asked)
    if command != "advise":
        words = " ".join(printed(*asked, "--ignore-memory", "--full").split())
        assert "It does not fit, even where every part is as small as it may be." in words
        assert "activations 8 GiB" in words and "CUDA and its libraries 476.8 MiB 190.7 MiB 1.118 GiB" in words
    if command == "run":
        first = " ".join(printed(*asked, "--ignore-memory").split())
        assert "memory does not fit: 8.466 GiB of 4 GiB: activations 8 GiB" in first


def test_a_run_that_fits_says_so_in_a_line(tmp_path):
    (tmp_path / "big.yaml").write_text(FILE)
    assert "2.466 GiB of 4 GiB: activations 2 GiB, CUDA and its libraries 476.8 MiB" in " ".join(
        printed("run", tmp_path / "big.yaml", "--set", "workload.micro_batches=4", "--full").split()
    )


def test_a_sweep_has_columns_of_memory_and_fails_where_it_does_not_fit(tmp_path):
    (tmp_path / "big.yaml").write_text(FILE)
    sweep = {"base": str(tmp_path / "big.yaml"), "vary": {"workload.micro_batches": [1, 2, 4]}}
    (tmp_path / "sweep.yaml").write_text(json.dumps(sweep))
    for more, failed in (([], 2), (["--ignore-memory"], 0)):
        out = tmp_path / f"out{failed}"
        result = invoke("sweep", tmp_path / "sweep.yaml", "--out", out, "--workers", "1", *more)
        assert result.exit_code == bool(failed), result.output
        table = pd.read_csv(out / "results.csv")
        assert table["error"].notna().sum() == failed
        fits = table["memory.total_bytes"] <= table["memory.capacity_bytes"]
        assert list(table["memory.parts_bytes.activations"].dropna()) == [8 * GIB, 4 * GIB, 2 * GIB][failed:]
        assert fits.iloc[-1]
        if failed:
            assert table["error"].iloc[0].startswith("scenario 'big': expected at most 4 GiB of memory")


def test_the_page_on_memory_names_every_part():
    page = (ROOT / "docs" / "background" / "memory.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")]
    assert rows[1:] == list(PART_LABELS.values())
