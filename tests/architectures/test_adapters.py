"""LoRA: what is trained, what it costs, and what is not modelled of it."""

import pytest
from sharded_scenarios import predicted

from simulator.architectures.describing import description_of, price
from simulator.engine.refusals import as_input_error
from simulator.errors import InputError
from simulator.models.operators import flops_of
from simulator.prediction.run import run
from simulator.scenario.named_parts import read_gpu, read_workload
from simulator.scenario.reading import load

LLAMA2 = {  # layers, hidden, heads, mlp (Touvron et al. 2023, 2307.09288)
    "7b": (32, 4096, 32, 11008),
    "13b": (40, 5120, 40, 13824),
}


def workload(tmp_path, size="7b", more=""):
    layers, hidden, heads, mlp = LLAMA2[size]
    path = tmp_path / "model.yaml"
    path.write_text(
        f"model: transformer\nlayers: {layers}\nhidden: {hidden}\nheads: {heads}\nmlp: {mlp}\ngated: true\n"
        f"vocabulary: 32000\nsequence: 2048\nbatch_size: 4\nprecision: bf16\noptimiser: adamw\n{more}"
    )
    return str(path)


@pytest.mark.parametrize(
    ("size", "lora", "trained", "whole"),
    [
        ("7b", "{}", 4_194_304, 6_738_415_616),
        ("7b", "{rank: 16, targets: attention}", 16_777_216, 6_738_415_616),
        ("13b", "{rank: 16, targets: linear}", 62_586_880, 13_015_864_320),
    ],
)
def test_as_many_weights_are_trained_as_peft_counts(tmp_path, size, lora, trained, whole):
    """2 r (in + out) / 2 of each layer: 32 blocks x 2 layers x 8 x 8,192 = 4,194,304, PEFT's line for Llama-2-7B."""
    made = read_workload(workload(tmp_path, size, f"lora: {lora}\n"))
    assert (made.numel, made.frozen_bytes) == (trained, 2 * whole)
    assert all("lora_" in layer.name for layer in made.layers)


@pytest.mark.parametrize(
    ("model", "trained"),
    [
        ("gpt2", 12 * 8 * (768 + 3 * 768)),  # 294,912, PEFT's count for GPT-2: one layer makes queries, keys and values
        ("bert", 12 * 2 * 8 * (768 + 768)),
        ("vit", 12 * 2 * 8 * (768 + 768)),
    ],
)
def test_other_transformers_have_adapters_where_peft_puts_them(tmp_path, model, trained):
    path = tmp_path / "model.yaml"
    path.write_text(described := f"model: {model}\nlayers: 12\nhidden: 768\nheads: 12\nbatch_size: 4\n")
    whole = read_workload(str(path)).numel
    path.write_text(f"{described}lora: {{}}\n")
    made = read_workload(str(path))
    assert (made.numel, made.frozen_bytes) == (trained, 4 * whole)


def test_gradients_of_frozen_weights_are_not_computed(tmp_path):
    """Adapters add 2 operations per trained weight and token forward, and 4 backward; frozen weights save 2."""
    tokens = 4 * 2048
    plain, adapted = (read_workload(workload(tmp_path, more=more)) for more in ("", "lora: {rank: 16}\n"))
    whole, part = (
        description_of(item.origin.architecture, item.batch_size, item.precision) for item in (plain, adapted)
    )
    own = 2 * tokens * adapted.numel
    assert flops_of(part.forward) == pytest.approx(flops_of(whole.forward) + own, rel=1e-9)
    weights = 2 * tokens * (plain.numel - 32000 * 4096 - 65 * 4096)  # of the products: all but embedding and norms
    weights += 2 * tokens * 4096**2  # the input of the first projection needs no gradient
    assert flops_of(part.backward) == pytest.approx(flops_of(whole.backward) - weights + 2 * own, rel=1e-9)
    # Below the first adapter nothing needs a gradient, and no weight is cast or added to.
    assert not {"embedding", "cast of weights"} & {item.name for item in part.backward}


def test_adapters_of_attention_leave_experts_as_they_are(tmp_path):
    """Two of eight experts work on a token; what they would keep for the gradients of their weights is not kept."""
    sizes = "layers: 4\nhidden: 1024\nheads: 8\nmlp: 2048\nexperts: 8\ngated: true\nvocabulary: 1000\nsequence: 512\n"
    path, tokens, made = tmp_path / "model.yaml", 2 * 512, []
    for more in ("", "lora: {targets: attention}\n"):
        path.write_text(f"model: transformer\n{sizes}batch_size: 2\nprecision: bf16\n{more}")
        made.append(read_workload(str(path)))
    plain, adapted = made
    whole, part = (description_of(item.origin.architecture, item.batch_size, item.precision) for item in made)
    each = 4 * 1024**2 + 8 * 1024 + 2 * 3 * 2048 * 1024  # weights that a token meets in a block
    saved = 2 * tokens * (4 * each + 1000 * 1024 + 1024**2)  # the input of the first projection needs no gradient
    assert adapted.numel == 4 * 4 * 8 * 2 * 1024
    assert flops_of(part.backward) == pytest.approx(flops_of(whole.backward) - saved + 4 * tokens * adapted.numel)
    kept = 4 * (2 * (1024 + 2048) + 1024 - 4 * 8) + 1024  # inputs of experts, router and decoder, but those of B
    assert plain.activation_bytes - adapted.activation_bytes == 2 * 512 * kept


def test_times_of_all_layers_are_those_of_the_trained_tensors(tmp_path):
    gpu = read_gpu("gpus/a100")
    plain, adapted = (price(read_workload(workload(tmp_path, more=more)), gpu) for more in ("", "lora: {rank: 4}\n"))
    assert 1 < adapted.forward_time / plain.forward_time < 1.1
    assert 0.5 < adapted.backward_time / plain.backward_time < 0.6


def scenario(tmp_path, *changes):
    name = workload(tmp_path, more="recompute: full\nlora: {rank: 16}\n")
    cluster = (
        "{nodes: 2, gpus_per_node: 8, gpu: gpus/a100, runtime: runtimes/pytorch-ddp, network: {kind: single_switch, "
        "bandwidth: 25 Gbit/s, latency: 20 us, intra_node: {bandwidth: 200 GB/s, latency: 3 us}}}"
    )
    first = (f"workload={name}", f"cluster={cluster}", "scheduler=bucketed", "topology=ring")
    return load("hsdp_llama3", (*first, "sparsifier=dense", "versus=null", *changes))


def test_only_adapters_are_exchanged_and_all_weights_are_held(tmp_path):
    made, numel = run(scenario(tmp_path)).result, 32 * 2 * 16 * 2 * 4096
    assert made.traffic.sent_per_worker == pytest.approx(2 * 2 * numel * 15 / 16, rel=0.01)  # a ring of 16
    parameters = next(part for part in made.memory.details if part.name == "parameters")
    assert parameters.nbytes == 2 * numel + 2 * 6_738_415_616
    assert "not trained" in parameters.how
    assert made.memory.fits


WHOLE, ADAPTERS, OUTSIDE = 6_738_415_616, 32 * 2 * 16 * 2 * 4096, 2 * 32000 * 4096 + 4096
BLOCK = (WHOLE - OUTSIDE) // 32


@pytest.mark.parametrize(("shard", "sizes"), [("null", (16, 1)), ("8", (8, 2))])
def test_a_sharded_model_gathers_all_weights_and_reduces_adapters(tmp_path, shard, sizes):
    """All in 2 bytes, forward and backward; the last block, and what is outside of blocks, is gathered once. Copies of
    the model exchange their part of the adapters."""
    (size, copies), once = sizes, BLOCK + OUTSIDE + ADAPTERS // 32
    made = run(scenario(tmp_path, f"scheduler={{kind: fsdp, shard: {shard}, reduce_in: bf16}}")).result
    inside = (size - 1) / size * 2 * (2 * (WHOLE + ADAPTERS) - once + ADAPTERS)
    between = 2 * (copies - 1) / copies * 2 * ADAPTERS / size
    assert made.traffic.sent_per_worker == pytest.approx(inside + between, rel=1e-6)
    parts = {part.name: part.nbytes for part in made.memory.details}
    assert parts["parameters"] == pytest.approx(2 * (WHOLE + ADAPTERS) / size)
    assert (parts["gradients"], parts["optimiser"]) == (2 * ADAPTERS / size, 2 * 4 * ADAPTERS / size)
    gathered = BLOCK + once + ADAPTERS // 32  # the last two units, and a buffer for one gather
    assert parts["gathered"] == pytest.approx(2 * (gathered + once))


def test_parameters_that_are_whole_on_every_gpu_are_gathered_only_if_they_are_trained(tmp_path):
    made = run(scenario(tmp_path, "scheduler={kind: zero, stage: 2, reduce_in: bf16}")).result
    assert made.traffic.sent_per_worker == pytest.approx(15 / 16 * 2 * 3 * ADAPTERS, rel=1e-6)  # and an all-reduce
    parameters = next(part.nbytes for part in made.memory.details if part.name == "parameters")
    assert parameters == 2 * ADAPTERS / 16 + 2 * WHOLE


def test_layers_may_say_what_is_gathered_with_them_and_not_trained():
    """Four blocks of 100 trained and 300 other elements in bf16; without `frozen` of layers nobody knows when."""
    layers = [{"name": f"h.{number}.w", "numel": 100, "frozen": 300} for number in range(4)]
    made = predicted({"kind": "fsdp"}, workload={"layers": layers}).result
    assert made.traffic.sent_per_worker == pytest.approx(15 / 16 * (2 * (2 * 4 - 1) * 400 + 4 * 4 * 100))
    parameters = next(part.nbytes for part in made.memory.details if part.name == "parameters")
    assert parameters == 4 * 4 * 7 + 2 * 1200 / 16  # what is trained in fp32, a part of 100 has 7 elements
    kept = predicted({"kind": "zero", "stage": 2}, workload={"layers": layers}).result
    parameters = next(part.nbytes for part in kept.memory.details if part.name == "parameters")
    assert parameters == 4 * 4 * 7 + 2 * 1200  # whole on every GPU, in bf16 as before
    with pytest.raises(InputError, match="`frozen` elements for the layers"):
        predicted({"kind": "fsdp"}, workload={"frozen_bytes": 1e9})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            ("workload.experts=8", "workload.lora={targets: linear}"),
            "`query_value` or `attention` as the targets of `lora`, where a model has experts, got linear",
        ),
        (("workload.lora_rank=8",), "the key is `lora`"),
    ],
)
def test_what_is_not_modelled_of_it_is_refused(tmp_path, changes, said):
    with pytest.raises(InputError, match="expected") as refused, as_input_error("x"):
        run(scenario(tmp_path, *changes))
    assert said in str(refused.value)
