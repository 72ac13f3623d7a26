"""Sizes of models from a local config.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.architectures.config_json import read_config
from simulator.errors import InputError
from simulator.scenario.workload_reading import read_workload

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": False,
    "attention_bias": False, "torch_dtype": "bfloat16", "auto_map": {"AutoModel": "evil.py--Evil"},
}  # fmt: skip
QWEN = {
    "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_attention_heads": 14,
    "num_hidden_layers": 24, "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True,
    "use_sliding_window": False, "sliding_window": 32768,
}  # fmt: skip
MISTRAL = LLAMA | {"model_type": "mistral", "vocab_size": 32000, "sliding_window": 4096}
GPT2 = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257, "n_positions": 1024}
BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
BERT = BASE | {"model_type": "bert", "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2}
MIXTRAL = MISTRAL | {
    "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None,
}  # fmt: skip
QWEN3 = {
    "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 32, "head_dim": 128,
    "num_hidden_layers": 36, "num_key_value_heads": 8, "vocab_size": 151936, "attention_bias": False,
}  # fmt: skip
EXPERTS = {"num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408, "decoder_sparse_step": 1}
QWEN2_MOE = QWEN | EXPERTS | {
    "model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632, "num_attention_heads": 16,
    "num_key_value_heads": 16, "tie_word_embeddings": False, "shared_expert_intermediate_size": 5632,
}  # fmt: skip
QWEN3_MOE = QWEN3 | EXPERTS | {
    "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 48,
    "num_key_value_heads": 4, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
    "mlp_only_layers": [], "norm_topk_prob": True,
}  # fmt: skip
GEMMA = {
    "model_type": "gemma", "hidden_size": 2048, "intermediate_size": 16384, "num_attention_heads": 8,
    "num_key_value_heads": 1, "head_dim": 256, "num_hidden_layers": 18, "vocab_size": 256000,
    "max_position_embeddings": 8192,
}  # fmt: skip
GEMMA2 = GEMMA | {
    "model_type": "gemma2", "hidden_size": 2304, "intermediate_size": 9216, "num_key_value_heads": 4,
    "num_hidden_layers": 26, "sliding_window": 4096,
}  # fmt: skip
GEMMA3 = GEMMA | {
    "model_type": "gemma3_text", "hidden_size": 1152, "intermediate_size": 6912, "num_attention_heads": 4,
    "num_hidden_layers": 26, "vocab_size": 262144, "sliding_window": 512, "sliding_window_pattern": 6,
}  # fmt: skip
PHI3 = LLAMA | {
    "model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192, "num_key_value_heads": 32,
    "vocab_size": 32064, "sliding_window": 2047,
}  # fmt: skip
OLMO2 = LLAMA | {
    "model_type": "olmo2", "intermediate_size": 11008, "num_key_value_heads": 32, "vocab_size": 100352,
}  # fmt: skip
NEOX = {
    "model_type": "gpt_neox", "hidden_size": 4096, "intermediate_size": 16384, "num_attention_heads": 32,
    "num_hidden_layers": 32, "vocab_size": 50432, "max_position_embeddings": 2048, "use_parallel_residual": True,
    "tie_word_embeddings": False,
}  # fmt: skip
OPT = {
    "model_type": "opt", "hidden_size": 768, "ffn_dim": 3072, "num_attention_heads": 12, "num_hidden_layers": 12,
    "vocab_size": 50272, "max_position_embeddings": 2048, "word_embed_proj_dim": 768, "do_layer_norm_before": True,
}  # fmt: skip
ROBERTA = BERT | {"model_type": "roberta", "vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1}
DISTILBERT = {
    "model_type": "distilbert", "dim": 768, "hidden_dim": 3072, "n_layers": 6, "n_heads": 12, "vocab_size": 30522,
    "max_position_embeddings": 512,
}  # fmt: skip
VIT = BASE | {"model_type": "vit", "image_size": 224, "patch_size": 16, "id2label": {str(n): "x" for n in range(1000)}}


def write(folder: Path, document: Any) -> Path:
    """A folder with this config.json."""
    (folder / "config.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("document", "parameters"),
    [
        (LLAMA, 8_030_261_248),
        (QWEN, 494_032_768),
        (MISTRAL, 7_241_732_096),
        (GPT2, 124_439_808),
        (BERT, 110_106_428),
        (VIT, 86_567_656),
        (MIXTRAL, 46_702_792_704),
        (QWEN3, 8_190_735_360),
        (QWEN2_MOE, 14_315_784_192),
        (QWEN3_MOE, 30_532_122_624),
        (GEMMA, 2_506_172_416),
        (GEMMA2, 2_614_341_888),
        (GEMMA3, 999_885_952),
        (PHI3, 3_821_079_552),
        (OLMO2, 7_298_617_344),
        (NEOX, 6_857_302_016),
        (OPT, 125_239_296),
        (ROBERTA, 124_697_433),
        (DISTILBERT, 66_985_530),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)
def test_models_have_the_published_number_of_parameters(tmp_path: Path, document: Any, parameters: int) -> None:
    more = ("sequence=512",) if "num_key_value_heads" in document else ()
    assert read_workload(str(write(tmp_path, document)), more).numel == parameters
    assert read_workload(str(tmp_path / "config.json"), more, 3).batch_size == 3


def test_blocks_without_experts_at_the_beginning_have_one_network(tmp_path: Path) -> None:
    folder = str(write(tmp_path, QWEN3_MOE | {"mlp_only_layers": [0, 1]}))
    dense, experts = 3 * 2048 * 6144, 128 * (3 * 2048 * 768 + 2048)
    assert read_workload(folder, ("sequence=64",)).numel == 30_532_122_624 + 2 * (dense - experts)


def test_a_sliding_window_is_kept_only_where_it_is_used(tmp_path: Path) -> None:
    assert read_config(str(write(tmp_path, MISTRAL)), None).sizes["window"] == 4096
    assert "window" not in read_config(str(write(tmp_path, QWEN)), None).sizes


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (LLAMA | {"model_type": "llamma"}, "expected one of llama, mistral"),
        ({"hidden_size": 3}, "no `model_type`"),
        (LLAMA | {"hidden_size": "4096"}, "hidden_size: expected a whole number from 1 up, got '4096'"),
        ({"model_type": "gpt2", "n_layer": 2}, "n_head: expected a whole number from 1 up, got nothing"),
        (LLAMA | {"attention_bias": True}, "expected both attention_bias and mlp_bias, or neither"),
        ([1], "expected a mapping, as transformers writes it"),
        (LLAMA | {"model_type": ["llama"]}, "expected one of llama"),
        (LLAMA | {"model_type": "deepseek_v3"}, "deepseek_v3, which has attention with latent keys and values (MLA)"),
        (
            QWEN3_MOE | {"mlp_only_layers": [3]},
            "mlp_only_layers: expected blocks without experts at",
        ),
        (QWEN3_MOE | {"decoder_sparse_step": 2}, "decoder_sparse_step: expected blocks without experts"),
        (MIXTRAL | {"num_experts_per_tok": 9}, "expected at most 8 `experts_per_token`, got 9"),
        (LLAMA | {"num_attention_heads": 33}, "expected a number of heads that divides 4096"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, document: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_workload(str(write(tmp_path, document)), ("sequence=8",))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("document", "sequence", "words"),
    [
        (LLAMA, 4096, "the file states no length"),
        (LLAMA | {"max_position_embeddings": 131072}, 4096, "max_position_embeddings is 131,072"),
        (NEOX, 2048, "max_position_embeddings is 2,048"),
    ],
)
def test_what_the_file_leaves_open_or_states_of_a_run_is_noted(
    tmp_path: Path, document: Any, sequence: int, words: str
) -> None:
    folder = str(write(tmp_path, document))
    made = read_workload(folder)
    assert made.origin.architecture.sequence == sequence
    assert words in made.source
    other = read_workload(folder, ("sequence=64", "precision=fp32"))
    assert other.origin.architecture.sequence == 64
    assert "sequence" not in other.source


def test_the_type_of_its_numbers_is_the_precision_and_quantisation_is_named(tmp_path: Path) -> None:
    made = read_workload(str(write(tmp_path, LLAMA | {"quantization_config": {"quant_method": "gptq"}})))
    assert made.precision.gradients == "bf16"
    assert "precision bf16, since its dtype is bfloat16" in made.source
    assert "quantised (gptq)" in made.source
    newer = {key: value for key, value in LLAMA.items() if key != "torch_dtype"} | {"dtype": "float16"}
    assert read_workload(str(write(tmp_path, newer))).precision.gradients == "fp16"
    assert read_workload(str(write(tmp_path, newer)), ("precision=bf16",)).precision.gradients == "bf16"
    odd = read_workload(str(write(tmp_path, newer | {"dtype": "float8_e4m3fn"})))
    assert odd.precision.gradients == "fp32"
    assert "count as fp32" in odd.source


@pytest.mark.parametrize("kind", ["deepseek_v3", "gpt_oss", "t5", "whisper", "mamba", "gemma3", "falcon", "qwen33"])
def test_other_families_are_refused_by_what_they_have_and_never_taken_for_another(tmp_path: Path, kind: str) -> None:
    with pytest.raises(InputError) as caught:
        read_workload(str(write(tmp_path, LLAMA | {"model_type": kind})))
    assert kind in str(caught.value)
    assert "did you mean" not in str(caught.value)


def test_windows_of_some_blocks_are_read_from_the_pattern_or_the_list(tmp_path: Path) -> None:
    assert read_config(str(write(tmp_path, GEMMA3)), None).sizes["full_every"] == 6
    listed = (["sliding_attention"] * 2 + ["full_attention"]) * 9
    assert read_config(str(write(tmp_path, GEMMA2 | {"layer_types": listed[:26]})), None).sizes["full_every"] == 3
    with pytest.raises(InputError, match="layer_types: expected attention without a window in one block of so many"):
        read_config(str(write(tmp_path, GEMMA2 | {"layer_types": listed[::-1][:26]})), None)
    folder = str(write(tmp_path, GEMMA2 | {"sliding_window": 64}))
    work = [
        sum(
            item.batch * item.m * item.n * item.k
            for item in made.origin.architecture.describe(1, made.precision).forward
        )
        for made in (read_workload(folder, (f"full_every={every}",)) for every in (0, 2, 1))
    ]
    assert work[0] < work[1] < work[2]
    # A query meets (s + 1) / 2 keys on average, or those of its window; every second block has the one or the other.
    assert work[2] - work[1] == pytest.approx(work[1] - work[0])
