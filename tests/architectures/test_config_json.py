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
    assert read_config(str(write(tmp_path, MISTRAL)), None)["window"] == 4096
    assert "window" not in read_config(str(write(tmp_path, QWEN)), None)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (LLAMA | {"model_type": "llamma"}, "did you mean 'llama'?"),
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


def test_a_sequence_is_asked_for_where_the_file_has_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="sequence: expected this key, got nothing"):
        read_workload(str(write(tmp_path, LLAMA)))
