"""Parameters, arithmetic and activations of described models, against published totals and closed forms."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.architectures.building import Architecture
from simulator.component import discover
from simulator.hardware.operator_times import OperatorClock
from simulator.models.operators import Description, flops_of
from simulator.models.precision import Precision
from simulator.scenario.named_parts import read_workload
from simulator.scenario.reading import load

PUBLISHED = {
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama2-13b": 13_015_864_320,
    "llama2-7b": 6_738_415_616,
    "vit-b16": 86_567_656,
    "alexnet": 61_100_840,
    "resnet50": 25_557_032,
    "vgg16": 138_357_544,
    "bert-large": 336_226_108,
    "lstm-ptb": 66_034_000,
    "dlrm-kaggle": 540_677_217,
    "ncf": 31_832_577,
}
SMALL: dict[str, Any] = {"layers": 3, "hidden": 64, "heads": 4, "vocabulary": 500, "sequence": 32}


def describe(kind: str, samples: int = 2, precision: str = "fp32", **sizes: Any) -> Description:
    """The description of a model."""
    return discover(Architecture)[kind].model_validate(sizes).describe(samples, Precision(gradients=precision))


@pytest.mark.parametrize("name", PUBLISHED)
def test_shipped_models_have_the_published_number_of_parameters(name: str) -> None:
    workload = read_workload(name)
    assert workload.numel == PUBLISHED[name]
    assert f"{PUBLISHED[name]:,}" in workload.source
    names = [layer.name for layer in workload.layers]
    assert len(set(names)) == len(names)


def test_recommenders_look_up_a_row_of_each_table_for_each_sample() -> None:
    dlrm, ncf = read_workload("dlrm-kaggle"), read_workload("ncf")
    tables = [layer for layer in dlrm.layers if layer.rows is not None]
    assert len(tables) == 26
    assert sum(layer.numel for layer in tables) == 16 * 33_762_577
    assert {(layer.rows.count, layer.rows.width) for layer in tables if layer.rows} == {(2048.0, 16)}
    looked_up = [(each.numel, each.rows.width) for each in ncf.layers if each.rows is not None]
    assert looked_up == [(rows * width, width) for width in (64, 128) for rows in (138_493, 26_744)]
    # the top network reads 16 values and one product for each pair of 27 vectors
    assert next(layer.numel for layer in dlrm.layers if layer.name == "top_l.0.weight") == (16 + 27 * 26 // 2) * 512


@pytest.mark.parametrize(
    ("kind", "sizes", "parameters", "multiplications"),
    [
        ("resnet", {"depth": 18}, 11_689_512, 1.81),
        ("resnet", {"depth": 34}, 21_797_672, 3.66),
        ("resnet", {}, 25_557_032, 4.09),
        ("resnet", {"depth": 101}, 44_549_160, 7.80),
        ("resnet", {"depth": 152}, 60_192_808, 11.51),
        ("vgg", {"depth": 11}, 132_863_336, 7.61),
        ("vgg", {"depth": 13}, 133_047_848, 11.31),
        ("vgg", {}, 138_357_544, 15.47),
        ("vgg", {"depth": 19}, 143_667_240, 19.63),
        ("alexnet", {}, 61_100_840, 0.71),
        ("vit", {"layers": 12, "hidden": 768, "heads": 12}, 86_567_656, 17.56),
    ],
)
def test_parameters_and_arithmetic_are_those_of_torchvision(
    kind: str, sizes: dict[str, int], parameters: int, multiplications: float
) -> None:
    """GFLOPS in torchvision's tables of weights, which count a multiplication and an addition as one."""
    made = describe(kind, samples=1, **sizes)
    assert made.numel == parameters
    assert round(flops_of(made.forward) / 2e9, 2) == multiplications
    assert len({tensor.name for tensor in made.tensors}) == len(made.tensors)


def test_layers_have_the_numbers_that_they_have_in_torchvision() -> None:
    def numbers(kind: str, **sizes: Any) -> list[int]:
        return [int(t.name.split(".")[1]) for t in describe(kind, **sizes).tensors if t.name.endswith("weight")]

    assert numbers("alexnet") == [0, 3, 6, 8, 10, 1, 4, 6]
    assert numbers("vgg", depth=11) == [0, 3, 6, 8, 11, 13, 16, 18, 0, 3, 6]
    assert numbers("vgg") == [0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28, 0, 3, 6]


@pytest.mark.parametrize(
    ("kind", "sizes", "tables"),
    [
        ("transformer", SMALL | {"positions": 40}, ["model.embed_tokens.weight"]),
        ("transformer", SMALL | {"positions": 40, "tied": True}, []),
        ("gpt2", SMALL, []),
        ("bert", SMALL, []),
        ("bert", SMALL | {"head": "none"}, ["bert.embeddings.word_embeddings.weight"]),
        ("lstm", {"hidden": 8, "vocabulary": 9}, ["encoder.weight"]),
        ("encoder_decoder", SMALL | {"positions": 40, "distances": 9}, []),
    ],
)
def test_gradients_are_rows_of_tables_of_which_few_are_looked_up(kind: str, sizes: Any, tables: list[str]) -> None:
    assert [tensor.name for tensor in describe(kind, **sizes).tensors if tensor.rows is not None] == tables


def test_profile_and_description_of_a_model_have_the_same_tensors() -> None:
    profile, described = read_workload("workloads/resnet50-v100"), read_workload("workloads/resnet50")
    one, other = ([(layer.name, layer.numel) for layer in each.layers] for each in (profile, described))
    assert one == other


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_parameters_of_a_decoder_in_closed_form(kv_heads: int, gated: bool, tied: bool) -> None:
    made = describe("transformer", **SMALL, kv_heads=kv_heads, gated=gated, tied=tied, mlp=160)
    h, kv = 64, 64 // 4 * kv_heads
    block = 2 * h * h + 2 * h * kv + (3 if gated else 2) * h * 160 + 2 * h
    assert made.numel == 3 * block + h + (1 if tied else 2) * 500 * h


@pytest.mark.parametrize("kind", ["transformer", "gpt2", "bert"])
def test_operations_are_two_for_each_weight_and_token_and_twice_that_backward(kind: str) -> None:
    """6 N D (Kaplan et al. 2020) without embeddings and norms, beside the attention term."""
    made = describe(kind, samples=2, **SMALL | {"tied": True} if kind == "transformer" else SMALL, attention="separate")
    tokens = 2 * 32
    others = ("norm", "embed", "wte", "wpe", ".ln_")
    linear = [t for t in made.tensors if t.name.endswith("weight") and not any(w in t.name.lower() for w in others)]
    weights = float(sum(t.numel for t in linear))
    if kind == "bert":  # the pooler and the next sentence see one token of each sample
        weights -= sum(t.numel for t in linear if "pooler" in t.name or "seq_relationship" in t.name) * 31 / 32
    attention = 3 * 2 * 2 * 2 * 32 * 32 * 64  # layers, products, 2 b s s h
    forward = 2 * tokens * (weights + 500 * 64) + attention
    assert flops_of(made.forward) == pytest.approx(forward, rel=1e-12)
    assert flops_of(made.backward) == pytest.approx(2 * forward, rel=1e-12)


def test_a_causal_kernel_makes_half_of_the_scores_and_a_window_fewer() -> None:
    def attention(**more: Any) -> float:
        made = describe("transformer", **(SMALL | {"sequence": 64} | more))
        return flops_of(operator for operator in made.forward if operator.kind == "attention")

    whole = attention(causal=False)
    assert whole == 3 * 2 * 2 * 2 * 64 * 64 * 64
    assert attention() == pytest.approx(whole * 65 / 128)
    by_hand = sum(min(place + 1, 10) for place in range(64)) / 64
    assert attention(window=10) == pytest.approx(whole * by_hand / 64)


@pytest.mark.parametrize("heads", [2, 8])
@pytest.mark.parametrize("sequence", [16, 128])
def test_activations_of_a_block_are_those_of_korthikanti(heads: int, sequence: int) -> None:
    """s b h (34 + 5 a s / h) bytes in 16 bits with dropout; 34 s b h selectively recomputed, 2 s b h fully."""
    h, more = 64, {"heads": heads, "sequence": sequence, "positions": sequence, "vocabulary": 100}

    def block(recompute: str) -> float:
        parts = {"hidden": h, "attention": "separate", "recompute": recompute, **more}
        deep, flat = (describe("gpt2", 3, "bf16", layers=n, **parts) for n in (5, 4))
        return deep.kept_bytes - flat.kept_bytes

    assert block("none") == pytest.approx(sequence * h * (34 + 5 * heads * sequence / h))
    assert block("selective") == pytest.approx(34 * sequence * h)
    assert block("full") == pytest.approx(2 * sequence * h)


def test_recomputation_runs_the_forward_pass_of_the_blocks_again() -> None:
    once, twice = (describe("gpt2", **SMALL, recompute=recompute) for recompute in ("none", "full"))
    blocks = flops_of(operator for t in once.tensors if ".h." in t.name for operator in t.forward)
    assert flops_of(twice.forward) == flops_of(once.forward)
    assert flops_of(twice.backward) == pytest.approx(flops_of(once.backward) + blocks)


@pytest.mark.parametrize("key", ["layers", "hidden", "heads", "vocabulary", "sequence", "mlp"])
def test_more_of_anything_is_never_less_work(key: str) -> None:
    sizes = SMALL | {"mlp": 256}
    small, large = (describe("transformer", **(sizes | {key: sizes[key] * factor})) for factor in (1, 2))
    assert large.numel >= small.numel
    assert flops_of(large.forward) >= flops_of(small.forward)
    assert large.kept_bytes >= small.kept_bytes
    assert sum(o.calls * o.nbytes for o in large.backward) >= sum(o.calls * o.nbytes for o in small.backward)


@pytest.mark.parametrize(
    ("kind", "sizes"), [("gpt2", SMALL), ("resnet", {"depth": 18}), ("lstm", {"hidden": 8, "vocabulary": 9})]
)
def test_work_is_in_proportion_to_the_samples_and_parameters_are_not(kind: str, sizes: dict[str, Any]) -> None:
    one, four = (describe(kind, samples, **sizes) for samples in (1, 4))
    assert four.numel == one.numel
    assert flops_of(four.forward) == pytest.approx(4 * flops_of(one.forward))
    assert flops_of(four.backward) == pytest.approx(4 * flops_of(one.backward))
    assert four.kept_bytes == pytest.approx(one.kept_bytes)


def test_a_convolution_counts_each_place_channel_and_weight() -> None:
    steps = [{"convolution": 8, "kernel": 3, "stride": 2, "padding": 1, "bias": False}, {"average": 1}, {"linear": 10}]
    made = describe("convolutional", samples=5, image="3x32x32", steps=steps)
    assert flops_of(made.forward) == 2 * 5 * (16 * 16 * 8 * 3 * 9 + 8 * 10)
    assert flops_of(made.backward) == 2 * 5 * (16 * 16 * 8 * 3 * 9 + 2 * 8 * 10)  # no gradient of the image


def test_a_list_of_tensors_and_operators_is_taken_in_proportion() -> None:
    tensors = [{"name": "w", "numel": 6, "forward": [["product", 1, 4, 3, 2, 100]], "backward": []}]
    model = discover(Architecture)["listed"].model_validate({"samples": 4, "tensors": tensors, "kept": 80})
    made = model.describe(8, Precision(gradients="bf16"))
    assert flops_of(made.forward) == 2 * (2 * 4 * 3 * 2)
    assert made.forward[0].nbytes == 2 * 100 / 2  # twice the samples, half the width
    assert made.kept_bytes == 80 / 4 / 2


EXPERTS = {"experts": 8, "experts_per_token": 2, "expert_mlp": 96, "gated": True}


def test_a_token_pays_for_the_experts_that_it_uses() -> None:
    """Two operations for each weight that it uses and token, and twice that backward, besides attention."""
    made, dense = describe("transformer", **SMALL, **EXPERTS), describe("transformer", **SMALL, gated=True, mlp=2 * 96)
    router, expert = 8 * 64, 3 * 64 * 96
    assert made.numel - dense.numel == 3 * (8 * expert + router - 2 * expert)
    assert made.active - dense.numel == 3 * router
    assert dense.active == dense.numel
    tokens = 2 * 32
    assert flops_of(made.forward) - flops_of(dense.forward) == 2 * tokens * 3 * router
    assert flops_of(made.backward) - flops_of(dense.backward) == 4 * tokens * 3 * router


def test_products_of_experts_have_their_part_of_the_rows_and_weights_of_all() -> None:
    up = next(each for each in describe("transformer", **SMALL, **EXPERTS).forward if each.name == "experts")
    assert (up.batch, up.m, up.n, up.k) == (8, 2 * 32 * 2 / 8, 96, 64)
    assert up.nbytes == 4 * 8 * (16 * 64 + 64 * 96 + 16 * 96)
    few = describe("transformer", 1, **SMALL | {"sequence": 2}, **EXPERTS)
    assert next((each.batch, each.m) for each in few.forward if each.name == "experts") == (4, 1)  # tokens x 2


def test_shared_experts_are_a_network_for_all_tokens() -> None:
    without, made = (describe("transformer", **SMALL, **EXPERTS, shared_mlp=mlp) for mlp in (0, 192))
    gate = describe("transformer", **SMALL, **EXPERTS, shared_mlp=192, shared_gate=True)
    assert made.numel - without.numel == made.active - without.active == 3 * 3 * 64 * 192
    assert gate.numel - made.numel == 3 * 64


@pytest.mark.parametrize("more", [{"dense_layers": 1}, {"shared_mlp": 8}, {"experts": 4, "shared_gate": True}])
def test_keys_of_experts_without_them_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"`experts`, where|a `shared_mlp`"):
        describe("transformer", **SMALL, **more)


LATENT = {"kv_rank": 24, "rope_width": 8, "head_width": 24, "value_width": 16}


@pytest.mark.parametrize("rank", [None, 40])
def test_latent_attention_pays_for_narrow_products_and_for_heads_of_two_widths(rank: int | None) -> None:
    """Besides two operations for each weight and token: scores over 24 columns, values over 16, half of them (causal);
    backward, three products over 24 and two over 16."""
    made = describe("transformer", **SMALL, **LATENT, query_rank=rank, mlp=160)
    queries = 64 * 4 * 24 if rank is None else 64 * 40 + 40 + 40 * 4 * 24
    block = queries + (64 * (24 + 8) + 24 + 24 * 4 * (16 + 16)) + 4 * 16 * 64 + 2 * 64 * 160 + 2 * 64
    assert made.numel == 3 * block + 64 + 2 * 500 * 64
    norms, tokens, pairs = 3 * (2 * 64 + 24 + (rank or 0)) + 64, 2 * 32, 2 * 4 * 32 * 33 / 2
    linear = 2 * tokens * (made.numel - norms - 500 * 64)
    assert flops_of(made.forward) == pytest.approx(linear + 3 * 2 * pairs * (24 + 16))
    assert flops_of(made.backward) == pytest.approx(2 * linear + 3 * 2 * pairs * (3 * 24 + 2 * 16))


def test_a_decoder_meets_every_token_of_its_encoder() -> None:
    """Cross-attention: queries of 16 tokens, keys and values of 40, all pairs; and as many linear layers once more."""
    sizes = {"layers": 2, "hidden": 64, "heads": 4, "vocabulary": 500, "sequence": 16, "source_sequence": 40}
    made = describe("encoder_decoder", **sizes, dropout=False, attention="separate")
    linear, kv, network = 64 * 64, 2 * 64 * 64, 2 * 64 * 256
    source, tokens = 2 * 40, 2 * 16
    weights = source * 2 * (2 * linear + kv + network) + tokens * 2 * (4 * linear + kv + network) + source * 2 * kv
    forward = 2 * weights + 2 * (2 * 2 * 2 * 64 * (40 * 40 + 16 * 16 + 16 * 40)) + 2 * tokens * 500 * 64
    assert flops_of(made.forward) == pytest.approx(forward)
    assert flops_of(made.backward) == pytest.approx(2 * forward)
    plain = describe("encoder_decoder", **sizes).numel
    block = 4 * (linear + 64) + 2 * 64 * 256 + 5 * 64 + 2 * 128
    assert plain == 500 * 64 + 2 * block + 2 * (block + 4 * (linear + 64) + 128)
    assert plain - describe("encoder_decoder", **sizes, decoder_layers=1).numel == block + 4 * (linear + 64) + 128


def test_blocks_with_the_same_weights_work_as_often_as_others_and_their_gradients_are_ready_last() -> None:
    whole, made = (describe("bert", **SMALL, shared=shared) for shared in (False, True))
    assert whole.numel - made.numel == 2 * sum(tensor.numel for tensor in whole.tensors if ".layer.0." in tensor.name)
    assert flops_of(made.forward) == flops_of(whole.forward)
    assert flops_of(made.backward) == flops_of(whole.backward)
    assert made.kept_bytes == pytest.approx(whole.kept_bytes)
    last = next(tensor for tensor in made.tensors if tensor.name.endswith("layer.0.output.LayerNorm.bias"))
    others = [tensor for tensor in made.tensors if ".layer.0." in tensor.name and tensor is not last]
    assert flops_of(last.backward) == pytest.approx(2 * sum(flops_of(tensor.backward) for tensor in others))


def test_one_norm_for_attention_and_network_is_kept_once() -> None:
    two, one = (describe("transformer", **SMALL, norms=norms) for norms in ("before", "shared"))
    assert two.numel - one.numel == 3 * 64
    assert flops_of(two.forward) == flops_of(one.forward)
    # The input of the second norm and that of the network are none of their own.
    assert two.kept_bytes - one.kept_bytes == 3 * 2 * 32 * 64 * 4


def test_the_time_of_a_scan_is_known_less_well() -> None:
    sizes = {"layers": 2, "hidden": 64, "state": 8, "vocabulary": 500, "sequence": 32}
    gpu = load("quickstart", ("cluster.gpu=gpus/a100",)).cluster.gpu
    for kind, width in (("state_space", True), ("transformer", False)):
        found = OperatorClock(gpu, "bf16").estimated(describe(kind, 2, "bf16", **(sizes if width else SMALL)))
        assert ("scans of state spaces" in found.reason) == width


@pytest.mark.parametrize(
    ("kind", "sizes", "words"),
    [
        ("transformer", SMALL | {"query_rank": 4}, "a `kv_rank`, where query_rank is given"),
        ("transformer", SMALL | {"value_width": 0}, "greater than or equal to 1"),
        ("transformer", SMALL | {"kv_rank": 4}, "a rope_width below the 16 columns of a head"),
        ("transformer", SMALL | LATENT | {"kv_heads": 2}, "4 kv_heads, as heads of queries"),
        ("encoder_decoder", SMALL | {"positions": 31}, "sequences of at most 31 positions"),
        ("encoder_decoder", SMALL | {"positions": 32, "source_sequence": 33}, "at most 32 positions"),
        ("convolutional", {"steps": [{"convolution": 3, "groups": 0}]}, "greater than or equal to 1"),
        ("state_space", {"layers": 1, "hidden": 8, "vocabulary": 9, "sequence": 2, "heads": 3}, "divides 16 channels"),
        ("state_space", {"layers": 1, "hidden": 8, "vocabulary": 9, "sequence": 2, "heads": 2, "groups": 3}, "2 heads"),
        ("state_space", {"layers": 1, "hidden": 8, "vocabulary": 9, "sequence": 2, "heads": 2, "rank": 3}, "no `rank`"),
    ],
)
def test_sizes_that_do_not_fit_are_named(kind: str, sizes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        describe(kind, **sizes)
