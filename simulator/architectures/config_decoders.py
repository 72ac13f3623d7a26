"""Types of decoders in a config.json of transformers, and the keys of each that state its sizes.

Each reader gives the keys of a described model. What a type has that its file does not state, such as which of its
linear layers have biases, is that of the class of the same name in transformers (5.x), whose counts of parameters the
tests compare.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulator.architectures.config_keys import ConfigKeys
from simulator.errors import format_value

Reader = Callable[[ConfigKeys], dict[str, Any]]
LAYERS = {
    "layers": "num_hidden_layers|n_layer|n_layers|num_layers",
    "hidden": "hidden_size|n_embd|n_embed|d_model",
    "heads": "num_attention_heads|n_head|n_heads|num_heads",
}
INSIDE = "attention_dropout", "attn_pdrop", "attention_probs_dropout_prob"
"""Dropout of scores, which kernels of fused attention have at no cost."""
DROPOUT = "dropout", "hidden_dropout", "hidden_dropout_prob", "resid_pdrop", "resid_dropout", "residual_dropout"
_BIASES = {(False, False): "none", (True, False): "attention", (False, True): "network", (True, True): "all"}


def _decoder(
    keys: ConfigKeys,
    *,
    tied: bool = False,
    gated: bool = True,
    biases: str | None = None,
    qkv: bool = False,
    rotary: float = 1.0,
    window: bool = False,
    off: str = "",
    **fixed: Any,
) -> dict[str, Any]:
    """A decoder as Llama has it, but for what the type fixes. `tied`, `rotary`: where the file leaves it out.

    `window`: tokens may see few of those before them. `off`: switches that must not be on, between spaces.
    `biases`: of the type; none: as `attention_bias` and `mlp_bias` state, and `qkv`: the former leaves out the output.
    """
    keys.require(False, *off.split())
    made = keys.numbers(LAYERS | {"vocabulary": "vocab_size"})
    others = {"mlp": "intermediate_size|n_inner|ffn_hidden_size", "kv_heads": "num_key_value_heads"}
    windows = {"window": "sliding_window"} if window else {}
    made |= keys.optional(others | {"head_width": "head_dim"} | windows)
    made |= {"model": "transformer", "gated": gated, "tied": keys.is_set("tie_word_embeddings", tied)}
    if biases is None:
        attention, network = keys.is_set("attention_bias"), keys.is_set("mlp_bias")
        biases = "qkv" if qkv and attention and not network else _BIASES[attention, network]
    made["biases"] = biases
    if keys.any_above_0(*DROPOUT):
        made["dropout"] = True
    keys.ignore(*INSIDE)
    if (turned := keys.share("partial_rotary_factor", rotary)) != 1:
        made["rotary"] = turned
    return made | fixed


def like(reader: Callable[..., dict[str, Any]], **fixed: Any) -> Reader:
    """A reader with what a type fixes."""
    return lambda keys: reader(keys, **fixed)


def _qwen2(keys: ConfigKeys, **fixed: Any) -> dict[str, Any]:
    windows = keys.optional({"window": "sliding_window"}) if keys.is_set("use_sliding_window") else {}
    keys.ignore("sliding_window layer_types")
    first = keys.whole("max_window_layers", 0, 0)
    made = _decoder(keys, **({"biases": "qkv"} | fixed))
    if windows and first:
        keys.said["window"] = f"all blocks count with their window, although the first {first} have none"
    return made | windows


def _windowed(keys: ConfigKeys, period: int, **fixed: Any) -> dict[str, Any]:
    """Windows in all blocks but the last of so many, as `layer_types` lists them or the family has them."""
    made = _decoder(keys, window=True, **fixed)
    keys.ignore("sliding_window_pattern layer_types")
    if "window" not in made:
        return made
    made |= {"full_every": period} | keys.optional({"full_every": "sliding_window_pattern"})
    if (listed := keys.get("layer_types")) is not None:
        listed = listed if isinstance(listed, list) else []
        full = listed.index("full_attention") + 1 if "full_attention" in listed else 0
        kinds = ["sliding_attention"] * (full - 1) + ["full_attention"] if full else ["sliding_attention"]
        if len(listed) != made["layers"] or any(each != kinds[i % len(kinds)] for i, each in enumerate(listed)):
            keys.refuse("layer_types", "attention without a window in one block of so many, the last of them")
        made["full_every"] = full
    return made


def _gpt_neox(keys: ConfigKeys) -> dict[str, Any]:
    keys.require(True, "attention_bias")
    keys.ignore("use_parallel_residual")  # it has both norms either way
    rotary = keys.share("rotary_pct", 0.25)
    return _decoder(keys, gated=False, biases="all", norm="layer", rotary=rotary)


def _opt(keys: ConfigKeys) -> dict[str, Any]:
    made = keys.numbers(LAYERS | {"mlp": "ffn_dim", "vocabulary": "vocab_size", "positions": "max_position_embeddings"})
    keys.require(True, "do_layer_norm_before", "enable_bias", "layer_norm_elementwise_affine")
    keys.require(made["hidden"], "word_embed_proj_dim")
    # Two rows of the table of positions stand for padding.
    made["positions"] += 2
    tied = keys.is_set("tie_word_embeddings", True)
    keys.ignore("attention_dropout")
    dropout = keys.any_above_0("dropout")
    return made | {"model": "transformer", "norm": "layer", "biases": "all", "tied": tied, "dropout": dropout}


def _gpt_j(keys: ConfigKeys) -> dict[str, Any]:
    made = _decoder(keys, gated=False, biases="network", norm="layer", norms="shared", head_bias=True)
    made["rotary"] = min(keys.whole("rotary_dim", 64, 0) * made["heads"] / made["hidden"], 1)
    return made


def _gpt_neo(keys: ConfigKeys) -> dict[str, Any]:
    made = _decoder(keys, gated=False, biases="not_qkv", norm="layer", tied=True)
    made |= keys.numbers({"positions": "max_position_embeddings", "window": "window_size"})
    types, half = keys.get("attention_types"), made["layers"] // 2
    if types not in (None, [[["global", "local"], half]]):
        keys.refuse("attention_types", f'[[["global", "local"], {half}]]')
    keys.ignore("attention_layers")
    return made | {"full_every": 2, "full_first": True}


def _bigcode(keys: ConfigKeys) -> dict[str, Any]:
    made = _decoder(keys, gated=False, biases="all", norm="layer", tied=True)
    one = {"kv_heads": 1} if keys.is_set("multi_query", True) else {}
    return made | keys.numbers({"positions": "n_positions"}) | one


def _falcon(keys: ConfigKeys) -> dict[str, Any]:
    keys.ignore("multi_query")
    newer, parallel = keys.is_set("new_decoder_architecture"), keys.is_set("parallel_attn", True)
    made = _decoder(keys, gated=False, tied=True, norm="layer", biases="all" if keys.is_set("bias") else "none")
    if newer:
        made |= keys.optional({"kv_heads": "num_kv_heads"})
    elif keys.is_set("multi_query", True):
        made["kv_heads"] = 1
    norms = keys.whole("num_ln_in_parallel_attn", 2 if newer else 1)
    if (newer or parallel) and norms == 1:
        made["norms"] = "shared"
    keys.ignore("num_kv_heads")
    return made | ({"rotary": 0} if keys.is_set("alibi") else {})


def _mpt(keys: ConfigKeys) -> dict[str, Any]:
    keys.require(True, "no_bias")
    keys.ignore("embedding_fraction learned_pos_emb norm_type")
    attention = keys.get("attn_config", {})
    if not isinstance(attention, dict) or attention.get("qk_ln") or attention.get("kv_n_heads"):
        keys.refuse("attn_config", "attention without qk_ln and kv_n_heads")
    made = _decoder(keys, gated=False, tied=True, biases="none", norm="layer_without_bias", rotary=0)
    return made | {"mlp": keys.whole("expansion_ratio", 4) * made["hidden"]}


def _stablelm(keys: ConfigKeys) -> dict[str, Any]:
    biases = "qkv" if keys.is_set("use_qkv_bias") else "none"
    norms = "shared" if keys.is_set("use_parallel_residual") else "before"
    return _decoder(keys, norm="layer", biases=biases, norms=norms, rotary=0.25, off="qk_layernorm")


def _starcoder2(keys: ConfigKeys) -> dict[str, Any]:
    biases = "all" if keys.is_set("use_bias", True) else "none"
    return _decoder(keys, gated=False, biases=biases, norm="layer", tied=True, window=True)


def _cohere2(keys: ConfigKeys) -> dict[str, Any]:
    # Blocks without a window have no positions.
    made = _windowed(keys, 4, tied=True, norm="layer_without_bias", norms="shared")
    return made | ({"rotary": 1 - 1 / made["full_every"]} if made.get("full_every") else {})


def _smollm3(keys: ConfigKeys) -> dict[str, Any]:
    made = _decoder(keys, tied=True, off="use_sliding_window")
    listed, every = keys.get("no_rope_layers"), keys.whole("no_rope_layer_interval", 4)
    turned = 1 - made["layers"] // every / made["layers"]
    if isinstance(listed, list) and listed:
        turned = sum(map(bool, listed)) / len(listed)
    keys.ignore("layer_types sliding_window")
    return made | {"rotary": turned}


def _modern_bert(keys: ConfigKeys) -> dict[str, Any]:
    keys.require(False, "attention_bias", "mlp_bias", "norm_bias", "classifier_bias")
    keys.require(True, "decoder_bias")
    keys.ignore("embedding_dropout mlp_dropout")
    made = _decoder(keys, tied=True, norm="layer_without_bias", embedding_norm=True, head_layer=True, head_bias=True)
    windows = keys.optional({"window": "local_attention", "full_every": "global_attn_every_n_layers"})
    listed = keys.get("layer_types", [])
    if isinstance(listed, list) and listed.count("full_attention") > 1:
        windows["full_every"] = listed.index("full_attention", 1)
    # The norm of the embedding is also that of the first block's attention.
    return made | windows | {"full_first": True, "causal": False, "first_norm": False}


_EACH = {"experts": "num_local_experts|num_experts|n_routed_experts", "experts_per_token": "num_experts_per_tok"}


def _experts(dense: Reader, **fixed: Any) -> Reader:
    """A reader of a type with experts, whose other keys are those of `dense`."""

    def read(keys: ConfigKeys) -> dict[str, Any]:
        made = dense(keys) | keys.numbers(_EACH)
        made |= keys.optional({"expert_mlp": "moe_intermediate_size", "shared_mlp": "shared_expert_intermediate_size"})
        if shared := keys.optional({"shared": "n_shared_experts"}).get("shared"):
            each = keys.numbers({"mlp": "moe_intermediate_size"})["mlp"]
            made["shared_mlp"] = shared * each
        others = keys.get("mlp_only_layers", [])
        if others != [*range(len(others))] if isinstance(others, list) else True:
            keys.refuse("mlp_only_layers", "blocks without experts at the beginning only")
        first = keys.whole("first_k_dense_replace", len(others), 0)
        keys.require(1, "moe_layer_freq")
        step = keys.optional({"experts_every": "decoder_sparse_step|interleave_moe_layer_step"})
        if first:
            made["dense_layers"] = first
        return made | step | fixed

    return read


def _qwen2_moe(keys: ConfigKeys) -> dict[str, Any]:
    """Its network for all tokens has a gate."""
    made = _experts(like(_qwen2, biases="qkv" if keys.is_set("qkv_bias", True) else "none"))(keys)
    return made | {"shared_gate": bool(made.get("shared_mlp"))}


def _latent(keys: ConfigKeys) -> dict[str, Any]:
    """DeepSeek-V2 and V3."""
    names = {"kv_rank": "kv_lora_rank", "rope_width": "qk_rope_head_dim", "value_width": "v_head_dim"}
    own = keys.numbers(names | {"plain": "qk_nope_head_dim"})
    own["head_width"] = own.pop("plain") + own["rope_width"]
    keys.ignore("head_dim qk_head_dim")
    made = {key: value for key, value in _decoder(keys, qkv=True).items() if key != "kv_heads"}
    # All heads are made from the narrow columns, whatever the file says of heads of keys.
    return made | own | keys.optional({"query_rank": "q_lora_rank"})


def _gpt_oss(keys: ConfigKeys) -> dict[str, Any]:
    keys.ignore("experts_per_token swiglu_limit attention_bias")
    return _windowed(keys, 2, biases="all", sinks=True)


def _llama4(keys: ConfigKeys) -> dict[str, Any]:
    made = _decoder(keys)
    expert = keys.numbers({"mlp": "intermediate_size"})["mlp"]
    whole = keys.optional({"mlp": "intermediate_size_mlp"})
    if "attention_chunk_size" in keys.data:
        chunk = format_value(keys.get("attention_chunk_size"))
        keys.said["attention"] = f"attention counts as whole, although blocks with positions have chunks of {chunk}"
    keys.ignore("layer_types use_qk_norm moe_layers attn_temperature_tuning no_rope_layers no_rope_layer_interval")
    return made | whole | {"expert_mlp": expert, "shared_mlp": expert, "rotary": 0.75}


_MISTRAL = like(_decoder, biases="none", window=True)
_PHI = {"gated": False, "biases": "all", "norm": "layer", "norms": "shared", "rotary": 0.5, "head_bias": True}
_QWEN3 = like(_qwen2, biases=None, head_norm=True)
DECODERS: dict[str, Reader] = {
    "llama": _decoder,
    "mistral": _MISTRAL,
    "ministral": _MISTRAL,
    "qwen2": _qwen2,
    "qwen3": _QWEN3,
    "mixtral": _experts(_MISTRAL),
    "qwen2_moe": _qwen2_moe,
    "qwen3_moe": _experts(_QWEN3),
    "gemma": like(_decoder, tied=True),
    "gemma2": like(_windowed, period=2, tied=True, norms="both"),
    "gemma3_text": like(_windowed, period=6, tied=True, norms="both", head_norm=True),
    "phi": like(_decoder, off="qk_layernorm", **_PHI),
    "phi3": _MISTRAL,
    "phimoe": _experts(lambda keys: _decoder(keys, norm="layer", window=True, head_bias=keys.is_set("lm_head_bias"))),
    "olmo": like(_decoder, norm="layer_without_parameters"),
    "olmo2": like(_decoder, norms="branch", head_norm="whole"),
    "olmo3": like(_windowed, period=4, norms="branch", head_norm="whole"),
    "olmoe": _experts(like(_decoder, head_norm="whole")),
    "granite": like(_decoder, tied=True),
    "granitemoe": _experts(like(_decoder, tied=True)),
    "smollm3": _smollm3,
    "nemotron": like(_decoder, gated=False, norm="layer", rotary=0.5),
    "seed_oss": like(_decoder, qkv=True),
    "exaone4": like(_windowed, period=4, norms="branch", head_norm=True),
    "glm": like(_decoder, qkv=True, rotary=0.5),
    "glm4": like(_decoder, qkv=True, rotary=0.5, norms="both"),
    "glm4_moe": _experts(lambda keys: _decoder(keys, qkv=True, rotary=0.5, head_norm=keys.is_set("use_qk_norm"))),
    "deepseek_v2": _experts(_latent),
    "deepseek_v3": _experts(_latent),
    "kimi_k2": _experts(_latent),
    "gpt_oss": _experts(_gpt_oss),
    "llama4_text": _experts(_llama4),
    "stablelm": _stablelm,
    "starcoder2": _starcoder2,
    "cohere": like(_decoder, off="use_qk_norm", tied=True, norm="layer_without_bias", norms="shared"),
    "cohere2": _cohere2,
    "falcon": _falcon,
    "bloom": like(_decoder, gated=False, tied=True, biases="all", norm="layer", embedding_norm=True, rotary=0),
    "mpt": _mpt,
    "gptj": _gpt_j,
    "codegen": _gpt_j,
    "gpt_bigcode": _bigcode,
    "gpt_neo": _gpt_neo,
    "gpt_neox": _gpt_neox,
    "opt": _opt,
    "modernbert": _modern_bert,
}
