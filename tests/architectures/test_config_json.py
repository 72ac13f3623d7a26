"""Sizes of models from a local config.json."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from architectures.published import CONFIGS, COUNTS

from simulator.architectures.config_json import REFUSED, TYPES, read_config
from simulator.architectures.describing import description_of
from simulator.errors import InputError
from simulator.scenario.named_parts import read_workload

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
MIXTRAL = MISTRAL | {
    "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None,
}  # fmt: skip
QWEN3 = {
    "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 32, "head_dim": 128,
    "num_hidden_layers": 36, "num_key_value_heads": 8, "vocab_size": 151936, "attention_bias": False,
}  # fmt: skip
EXPERTS = {"num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408, "decoder_sparse_step": 1}
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
NEOX = {
    "model_type": "gpt_neox", "hidden_size": 4096, "intermediate_size": 16384, "num_attention_heads": 32,
    "num_hidden_layers": 32, "vocab_size": 50432, "max_position_embeddings": 2048, "use_parallel_residual": True,
    "tie_word_embeddings": False,
}  # fmt: skip

FULL, SLIDING = "full_attention", "sliding_attention"


def write(folder: Path, document: Any) -> Path:
    """A folder with this config.json."""
    (folder / "config.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", COUNTS)
def test_models_have_the_published_number_of_parameters(tmp_path: Path, name: str) -> None:
    made = read_workload(str(write(tmp_path, CONFIGS[name])))
    assert made.numel == COUNTS[name].parameters
    active = description_of(made.origin.architecture, 1, made.precision).active
    assert active == (COUNTS[name].active or COUNTS[name].parameters)
    names = [layer.name for layer in made.layers]
    assert len(set(names)) == len(names)
    assert read_workload(str(tmp_path / "config.json"), (), 3).batch_size == 3


def test_every_type_that_is_read_has_a_model_of_known_size() -> None:
    of_another = {"ministral": "mistral", "camembert": "roberta"}
    tried = {config["model_type"] for config in CONFIGS.values()}
    assert set(TYPES) - tried == of_another.keys()
    assert CONFIGS.keys() == COUNTS.keys()


@pytest.mark.parametrize(("more", "blocks"), [({"mlp_only_layers": [0, 1]}, 2), ({"decoder_sparse_step": 2}, 24)])
def test_blocks_without_experts_have_one_network(tmp_path: Path, more: Any, blocks: int) -> None:
    dense, experts = 3 * 2048 * 6144, 128 * (3 * 2048 * 768 + 2048)
    made = read_workload(str(write(tmp_path, QWEN3_MOE | more)), ("sequence=64",))
    assert made.numel == 30_532_122_624 + blocks * (dense - experts)


def test_a_sliding_window_is_kept_only_where_it_is_used(tmp_path: Path) -> None:
    assert read_config(str(write(tmp_path, MISTRAL)), None).sizes["window"] == 4096
    assert "window" not in read_config(str(write(tmp_path, QWEN)), None).sizes


def test_the_class_says_which_head_is_built_or_that_another_is(tmp_path: Path) -> None:
    bert = {"model_type": "bert", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
    of = {
        name: read_config(str(write(tmp_path, document | {"architectures": [name]})), None)
        for document, names in (
            (LLAMA, ("LlamaForCausalLM", "LlamaForSequenceClassification")),
            (bert, ("BertForPreTraining", "BertForMaskedLM", "BertForSequenceClassification")),
        )
        for name in names
    }
    assert {name for name, config in of.items() if "head" in config.notes} == {
        name for name in of if name.endswith("SequenceClassification")
    }
    assert "...ForCausalLM" in of["LlamaForSequenceClassification"].notes["head"]
    assert of["BertForMaskedLM"].sizes["head"] == "masked" and "head" not in of["BertForPreTraining"].sizes


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (LLAMA | {"model_type": "llamma"}, "expected one of llama, mistral"),
        ({"hidden_size": 3}, "no `model_type`"),
        (LLAMA | {"hidden_size": "4096"}, "hidden_size: expected a whole number from 1 up, got '4096'"),
        ({"model_type": "gpt2", "n_layer": 2}, "n_head: expected a whole number from 1 up, got nothing"),
        (LLAMA | {"attention_bias": 1}, "attention_bias: expected true or false, got 1"),
        ([1], "expected a mapping, as transformers writes it"),
        (LLAMA | {"model_type": ["llama"]}, "expected one of llama"),
        (LLAMA | {"model_type": "deberta-v2"}, "deberta-v2, which has attention to distances of tokens apart"),
        (LLAMA | {"model_type": "deepseek_v3"}, "kv_lora_rank: expected a whole number from 1 up, got nothing"),
        (QWEN3_MOE | {"mlp_only_layers": [3]}, "mlp_only_layers: expected blocks without experts at"),
        (QWEN3_MOE | {"mlp_only_layers": 3}, "mlp_only_layers: expected blocks without experts at"),
        (QWEN3_MOE | {"decoder_sparse_step": 0}, "decoder_sparse_step: expected a whole number from 1 up, got 0"),
        (MIXTRAL | {"num_experts_per_tok": 9}, "expected at most 8 `experts_per_token`, got 9"),
        (LLAMA | {"num_attention_heads": 33}, "expected a number of heads that divides 4096"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, document: Any, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        read_workload(str(write(tmp_path, document)), ("sequence=8",))


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


@pytest.mark.parametrize("kind", [*REFUSED, "qwen33"])
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
    work = []
    for made in (read_workload(folder, (f"full_every={every}",)) for every in (0, 2, 1)):
        forward = made.origin.architecture.describe(1, made.precision).forward
        work.append(sum(item.batch * item.m * item.n * item.k for item in forward))
    assert work[0] < work[1] < work[2]
    # A query meets (s + 1) / 2 keys on average, or those of its window; every second block has the one or the other.
    assert work[2] - work[1] == pytest.approx(work[1] - work[0])


def test_keys_that_nobody_reads_are_named_unless_they_change_no_number(tmp_path: Path) -> None:
    changes_nothing = {"attention_dropout": 0.1, "rms_norm_eps": 1e-6, "sliding_window": None}
    more = {"num_nextn_predict_layers": 1, "odd_width": 7, **changes_nothing}
    made = read_config(str(write(tmp_path, LLAMA | more)), None)
    assert made.notes["keys"] == "keys that are not read: num_nextn_predict_layers 1, odd_width 7"
    for document in (LLAMA, QWEN, MISTRAL, MIXTRAL, QWEN3_MOE, GEMMA2, GEMMA3, NEOX):
        assert "keys" not in read_config(str(write(tmp_path, document)), None).notes
    many = read_config(str(write(tmp_path, LLAMA | {f"odd{n}": n for n in range(1, 12)})), None)
    assert many.notes["keys"].endswith("odd8 8 and 3 more")


UNCOUNTED: dict[str, dict[Any, list[str]]] = {
    "rotary": {
        0: ["Falcon RW 1B", "BLOOM 560M", "BLOOM", "MPT 7B"], 0.4: ["Phi-2"],
        0.25: ["StableLM 3B", "StableLM 2 1.6B", "GPT-J 6B", "GPT-NeoX 20B", "Pythia 6.9B"],
        0.5: ["Phi-1.5", "Nemotron 4 Minitron 4B", "GLM-4 9B", "GLM-4 9B 0414", "GLM-4.5 Air", "CodeGen 350M"],
        0.75: ["SmolLM3 3B", "Llama 4 Scout, text", "Llama 4 Maverick, text", "Command R7B"],
    },
    "window": {
        128: ["gpt-oss 20B", "gpt-oss 120B", "ModernBERT base"], 256: ["GPT-Neo 125M"], 512: ["Gemma 3 1B"],
        2047: ["Phi-3 mini"], 4096: ["Mistral 7B", "Gemma 2 2B", "OLMo 3 7B", "Command R7B"],
        131072: ["Phi-3.5 MoE"],
    },
    "full_every": {
        2: ["Gemma 2 2B", "gpt-oss 20B", "gpt-oss 120B", "GPT-Neo 125M"], 3: ["ModernBERT base"],
        4: ["OLMo 3 7B", "Command R7B"], 6: ["Gemma 3 1B"],
    },
    "full_first": {True: ["GPT-Neo 125M", "ModernBERT base"]},
    "attention": {"separate": ["T5 base", "T5 1.1 base", "mT5 small"]},
    "source_sequence": {1500: ["Whisper tiny", "Whisper large v3"]}, "chunk": {256: ["Mamba 2 2.7B"]},
}  # fmt: skip
"""Of all models what their number of parameters does not show."""


def test_what_no_count_of_parameters_shows(tmp_path: Path) -> None:
    found: dict[str, dict[Any, list[str]]] = {key: {} for key in UNCOUNTED}
    for name, config in CONFIGS.items():
        sizes = read_config(str(write(tmp_path, config)), None).sizes
        for key in found.keys() & sizes.keys():
            found[key].setdefault(sizes[key], []).append(name)
    assert found == UNCOUNTED


@pytest.mark.parametrize(
    ("name", "more", "key", "value"),
    [
        ("Mistral 7B", {"attention_dropout": 0.1}, "dropout", None),
        ("OPT 125M", {"dropout": 0.1}, "dropout", True),
        ("OPT 125M", {"dropout": 0}, "dropout", False),
        ("BERT base", {"hidden_dropout_prob": 0.0}, "dropout", False),
        ("Qwen3 8B", {"use_sliding_window": True, "sliding_window": 64}, "window", 64),
        ("Qwen3 8B", {"use_sliding_window": False, "sliding_window": 64}, "window", None),
        ("Gemma 3 1B", {"sliding_window": None}, "full_every", None),
        ("Kimi K2", {"num_key_value_heads": 128}, "kv_heads", None),
        ("ViT B/16", {"id2label": None}, "classes", 2),
        ("Falcon 40B", {"num_ln_in_parallel_attn": 1}, "norms", "shared"),
        ("Pythia 6.9B", {"rotary_pct": 1.0}, "rotary", None),
        ("SmolLM3 3B", {"no_rope_layers": [1, 1, 0] * 12}, "rotary", 2 / 3),
        ("DeepSeek-V3", {}, "head_width", 192),
        ("ModernBERT base", {"layer_types": [FULL, *[SLIDING] * 10] * 2}, "full_every", 11),
        ("ModernBERT base", {"layer_types": [FULL] * 22}, "full_every", 1),
        ("T5 base", {"dropout_rate": 0}, "dropout", False),
        ("BART large", {"decoder_layers": 6}, "decoder_layers", 6),
        ("BART large", {"decoder_ffn_dim": 2048}, "decoder_mlp", 2048),
        ("Qwen1.5 MoE A2.7B", {"qkv_bias": False}, "biases", "none"),
    ],
)
def test_what_a_type_does_with_its_keys(tmp_path: Path, name: str, more: Any, key: str, value: Any) -> None:
    assert read_config(str(write(tmp_path, CONFIGS[name] | more)), None).sizes.get(key) == value


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        ("BERT base", {"tie_word_embeddings": False}, "tie_word_embeddings: expected true, got false"),
        ("MPT 7B", {"attn_config": {"qk_ln": True}}, "attn_config: expected attention without qk_ln"),
        ("StableLM 3B", {"qk_layernorm": True}, "qk_layernorm: expected false, got true"),
        ("Phi-2", {"partial_rotary_factor": 3}, "partial_rotary_factor: expected a share from 0 to 1, got 3"),
        ("Mamba 2 2.7B", {"head_dim": 3}, "head_dim: expected 64, got 3"),
        ("ALBERT base", {"num_hidden_groups": 2}, "num_hidden_groups: expected 1, got 2"),
        ("BART large", {"decoder_attention_heads": 8}, "decoder_attention_heads: expected 16, got 8"),
        ("Llama 4 Scout, text", {"intermediate_size": None}, "intermediate_size: expected a whole number from 1 up"),
        ("DeepSeek-V3", {"moe_intermediate_size": None}, "moe_intermediate_size: expected a whole number from 1 up"),
        (
            "SmolLM3 3B",
            {"no_rope_layer_interval": 0},
            "no_rope_layer_interval: expected a whole number from 1 up, got 0",
        ),
        ("gpt-oss 20B", {"num_hidden_layers": 10**18}, "layer_types: expected attention without a window in one block"),
        ("gpt-oss 20B", {"layer_types": 7}, "layer_types: expected attention without a window in one block"),
        (
            "GPT-Neo 125M",
            {"attention_types": [[["global"], 12]]},
            'attention_types: expected [[["global", "local"], 6]]',
        ),
        ("DeepSeek-V3", {"moe_layer_freq": 2}, "moe_layer_freq: expected 1, got 2"),
    ],
)
def test_what_a_type_has_not_is_refused_by_its_key(tmp_path: Path, name: str, more: Any, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        read_config(str(write(tmp_path, CONFIGS[name] | more)), None)


def test_windows_of_later_blocks_only_are_told(tmp_path: Path) -> None:
    more = {"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 28}
    made = read_config(str(write(tmp_path, CONFIGS["Qwen3 8B"] | more)), None)
    assert "although the first 28 have none" in made.notes["window"]
