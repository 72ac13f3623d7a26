"""A config.json as Hugging Face's transformers writes it: its types and the sizes of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulator.architectures.config_decoders import DECODERS, DROPOUT, INSIDE, LAYERS, Reader, like
from simulator.architectures.config_keys import OTHERWISE, ConfigKeys
from simulator.errors import InputError, Problem, format_value
from simulator.loading.documents import read_document
from simulator.loading.finding import find_file
from simulator.models.precision import format_named
from simulator.records import Record


def _gpt2(keys: ConfigKeys) -> dict[str, Any]:
    made = keys.numbers({"layers": "n_layer", "hidden": "n_embd", "heads": "n_head"})
    made |= keys.optional({"mlp": "n_inner", "vocabulary": "vocab_size", "positions": "n_positions"})
    keys.require(True, "tie_word_embeddings")
    keys.ignore("attn_pdrop embd_pdrop")
    return made | {"model": "gpt2", "dropout": keys.any_above_0("resid_pdrop", default=True)}


def _bert(keys: ConfigKeys, **fixed: Any) -> dict[str, Any]:
    others = {"mlp": "intermediate_size|hidden_dim", "vocabulary": "vocab_size", "positions": "max_position_embeddings"}
    layers = {
        "layers": "num_hidden_layers|n_layers",
        "hidden": "hidden_size|dim",
        "heads": "num_attention_heads|n_heads",
    }
    keys.require(True, "tie_word_embeddings")
    made = keys.numbers(layers) | keys.optional(others | {"token_types": "type_vocab_size"})
    keys.ignore(*INSIDE, "qa_dropout seq_classif_dropout sinusoidal_pos_embds tie_weights_")
    return made | {"model": "bert", "dropout": keys.any_above_0(*DROPOUT, default=True)} | fixed


def _albert(keys: ConfigKeys) -> dict[str, Any]:
    keys.require(1, "num_hidden_groups", "inner_group_num")
    keys.ignore("down_scale_factor gap_size net_structure_type num_memory_blocks")
    return _bert(keys, head="masked", shared=True) | keys.numbers({"embedding_width": "embedding_size"})


def _vit(keys: ConfigKeys) -> dict[str, Any]:
    others = {"mlp": "intermediate_size", "image": "image_size", "patch": "patch_size", "channels": "num_channels"}
    keys.require(True, "qkv_bias")
    labels = keys.get("id2label")
    keys.ignore("attention_probs_dropout_prob encoder_stride")
    made = keys.numbers(LAYERS) | keys.optional(others)
    if not (isinstance(labels, dict) and labels):
        # transformers writes labels unless there are two, its default.
        labels = {0: "", 1: ""}
        keys.said["classes"] = "classes 2, since the file names none; --set classes=... for others"
    return made | {"model": "vit", "classes": len(labels), "dropout": keys.any_above_0("hidden_dropout_prob")}


def _t5(keys: ConfigKeys, *, tied: bool) -> dict[str, Any]:
    made = keys.numbers({"layers": "num_layers", "hidden": "d_model", "heads": "num_heads", "mlp": "d_ff"})
    made |= keys.numbers({"vocabulary": "vocab_size", "head_width": "d_kv"})
    made |= keys.optional({"decoder_layers": "num_decoder_layers"})
    gated = str(keys.get("feed_forward_proj", "relu")).startswith("gated")
    buckets = keys.optional({"distances": "relative_attention_num_buckets"}).get("distances", 32)
    keys.ignore("relative_attention_max_distance n_positions")
    fixed = {"norm": "rms", "biases": "none", "norms": "before", "end_norms": True, "attention": "separate"}
    fixed |= {"dropout": keys.any_above_0("dropout_rate", default=True)}
    tied = keys.is_set("tie_word_embeddings", tied)
    return {"model": "encoder_decoder", "gated": gated, "distances": buckets, "tied": tied} | made | fixed


def _bart(keys: ConfigKeys, *, positions: int | None, **fixed: Any) -> dict[str, Any]:
    """`positions`: rows of the table of learned positions beyond those stated; none: they are sines."""
    names = {"layers": "encoder_layers", "hidden": "d_model", "heads": "encoder_attention_heads"}
    made = keys.numbers(names | {"mlp": "encoder_ffn_dim", "vocabulary": "vocab_size"})
    made |= keys.optional({"decoder_layers": "decoder_layers", "decoder_mlp": "decoder_ffn_dim"})
    keys.require(made["heads"], "decoder_attention_heads")
    if positions is not None:
        made["positions"] = keys.numbers({"most": "max_position_embeddings"})["most"] + positions
    keys.ignore("num_hidden_layers attention_dropout activation_dropout encoder_layerdrop decoder_layerdrop")
    keys.ignore("share_encoder_decoder_embeddings normalize_before normalize_embedding add_final_layer_norm")
    keys.ignore("add_bias_logits static_position_embeddings extra_pos_embeddings decoder_vocab_size")
    tied = keys.is_set("tie_word_embeddings", True)
    made |= {"dropout": keys.any_above_0("dropout", default=True)}
    return made | {"model": "encoder_decoder", "biases": "all", "norm": "layer", "tied": tied} | fixed


def _whisper(keys: ConfigKeys) -> dict[str, Any]:
    made = _bart(keys, positions=None, norms="before", end_norms=True, key_bias=False)
    frames = keys.numbers({"frames": "num_mel_bins", "sequence": "max_target_positions"})
    source = keys.numbers({"source": "max_source_positions"})
    # Positions of the encoder are sines, which are not trained.
    return made | frames | {"positions": frames["sequence"], "source_sequence": source["source"]}


def _mamba(keys: ConfigKeys) -> dict[str, Any]:
    made = keys.numbers({"layers": "num_hidden_layers|n_layer", "hidden": "hidden_size|d_model", "state": "state_size"})
    made |= keys.numbers({"vocabulary": "vocab_size"}) | keys.optional({"kernel": "conv_kernel"})
    made |= keys.optional({"inner_width": "intermediate_size"})
    rank = keys.get("time_step_rank", "auto")
    made |= keys.numbers({"rank": "time_step_rank"}) if rank != "auto" else {}
    if "inner_width" not in made:
        made["inner_width"] = keys.whole("expand", 2) * made["hidden"]
    keys.ignore("expand rms_norm")
    biases = {"biases": keys.is_set("use_bias"), "convolution_bias": keys.is_set("use_conv_bias", True)}
    return made | biases | {"model": "state_space", "tied": keys.is_set("tie_word_embeddings", True)}


def _mamba2(keys: ConfigKeys) -> dict[str, Any]:
    made = _mamba(keys) | keys.numbers({"heads": "num_heads"})
    made |= keys.optional({"groups": "n_groups", "chunk": "chunk_size"})
    keys.require(made["inner_width"] // made["heads"], "head_dim")
    tied = keys.is_set("tie_word_embeddings", False)
    return {key: value for key, value in made.items() if key != "rank"} | {"tied": tied}


_REFUSED = {
    "an encoder of images beside its decoder, whose text_config alone is read": (
        "gemma3 gemma3n llama4 llava llava_next mllama paligemma pixtral qwen2_vl qwen2_5_vl qwen3_vl qwen3_vl_moe "
        "mistral3 idefics3 internvl gemma4 glm4v kimi_k25 smolvlm deepseek_vl qwen3_5"
    ),
    "state spaces or linear attention in some of its blocks": (
        "jamba zamba2 bamba granitemoehybrid falcon_h1 nemotron_h qwen3_next qwen3_5_text minimax recurrent_gemma lfm2 "
        "rwkv"
    ),
    "attention to distances of tokens apart from their contents": "deberta deberta-v2",
    "two encoders, of images and of text, and a loss over pairs of both": "clip siglip align",
    "convolutions over sound": "wav2vec2 hubert wavlm qwen2_audio",
    "attention to some tokens only": "longformer big_bird led",
    "stages of other widths and numbers of tokens": "swin swinv2 convnext",
    "attention in two streams": "xlnet",
    "sizes in parts of their own (attn_config, ffn_config)": "dbrx",
    "attention to some tokens only, which an indexer chooses": "deepseek_v32",
}
REFUSED = {name: part for part, names in _REFUSED.items() for name in names.split()}
"""Types whose models have something that is not modelled, and what that is."""
TYPES: dict[str, Reader] = DECODERS | {
    "gpt2": _gpt2,
    "bert": _bert,
    "roberta": like(_bert, head="masked"),
    "xlm-roberta": like(_bert, head="masked"),
    "camembert": like(_bert, head="masked"),
    "distilbert": like(_bert, head="masked", token_types=0),
    "albert": _albert,
    "electra": lambda keys: _bert(keys, head="replaced") | keys.optional({"embedding_width": "embedding_size"}),
    "vit": _vit,
    "t5": like(_t5, tied=True),
    "mt5": like(_t5, tied=False),
    "bart": like(_bart, positions=2, norms="after", embedding_norms=True),
    "mbart": like(_bart, positions=2, norms="before", embedding_norms=True, end_norms=True),
    "pegasus": like(_bart, positions=None, norms="before", end_norms=True),
    "m2m_100": like(_bart, positions=None, norms="before", end_norms=True),
    "marian": like(_bart, positions=None, norms="after"),
    "whisper": _whisper,
    "mamba": _mamba,
    "falcon_mamba": _mamba,
    "mamba2": _mamba2,
}


_SEQUENCE = 4096
"""Tokens of a sample where nothing states them: as Llama 2 was trained (Touvron et al. 2023, 2307.09288)."""


_DECODERS = "transformer", "encoder_decoder", "state_space"
_LENGTHS = "max_position_embeddings", "n_positions", "max_seq_len", "seq_length"


_CAUSAL = "ForCausalLM", "LMHeadModel"
_CLASSES = {
    "transformer": _CAUSAL,
    "gpt2": _CAUSAL,
    "state_space": _CAUSAL,
    "encoder_decoder": ("ForConditionalGeneration", "MTModel", "LMHeadModel"),
    "vit": ("ForImageClassification",),
    "masked": ("ForMaskedLM",),
    "replaced": ("ForPreTraining",),
    "bert": ("ForPreTraining",),
}
"""How names of classes end that have the head which is built, by the head or the model."""


def _settle_head(keys: ConfigKeys, made: dict[str, Any]) -> dict[str, str]:
    """BERT for masked words alone has their head; a note where the class of the file has another than is built."""
    classes = keys.get("architectures")
    name = classes[0] if isinstance(classes, list) and classes and isinstance(classes[0], str) else ""
    if name == "BertForMaskedLM":
        made["head"] = "masked"
    built = _CLASSES[made.get("head", made["model"])]
    if not name or name.endswith(built):
        return {}
    return {"head": f"the head of a class ...{built[0]}, although the file is of {format_value(name)[:60]}"}


class Config(Record):
    """The described model in a config.json: its `model_type`, its `model` and sizes, and in words where they come from,
    by key."""

    kind: str
    sizes: dict[str, Any]
    notes: dict[str, str]


def read_config(name: str, near: Path | None) -> Config:
    """The described model in a config.json, or in a folder with one.

    Looked for next to the file that names it, and in the current folder. The type of its numbers (`dtype`,
    `torch_dtype`) is the precision; a sample has as many tokens as the model has positions, or 4,096 if these are more.
    Raises InputError for a file that is absent, for a `model_type` that is not supported, and for sizes that are
    missing or no numbers.
    """
    document = read_document(_find(name, near))
    data = document.mapping("a mapping, as transformers writes it")
    kind = data.get("model_type")
    where = f"{document.where(('model_type',))}: model_type"
    if isinstance(kind, str) and kind in REFUSED:
        got = f"{kind}, which has {REFUSED[kind]}"
        raise InputError(Problem(where, "a model all of whose parts are modelled", got, OTHERWISE))
    if not isinstance(kind, str) or kind not in TYPES:
        text = format_value(kind) if kind else "no `model_type`"
        raise InputError(Problem(where, f"one of {', '.join(TYPES)}", text, OTHERWISE))
    keys = ConfigKeys(document, data)
    made = TYPES[kind](keys)
    notes = dict(keys.said) | _settle_head(keys, made)
    if made["model"] in _DECODERS and "sequence" not in made:
        key = next((key for key in _LENGTHS if keys.get(key) is not None), "")
        most = keys.numbers({"most": key})["most"] if key else None
        made["sequence"] = min(most or _SEQUENCE, _SEQUENCE)
        stated = f"{key} is {most:,}" if most else "the file states no length"
        notes["sequence"] = f"sequence {made['sequence']:,} tokens, since {stated}; --set sequence=... for another"
    dtype = str(data.get("dtype") or data.get("torch_dtype") or "")
    if precision := format_named(dtype):
        made["precision"] = precision
        notes["precision"] = f"precision {precision}, since its dtype is {dtype.removeprefix('torch.')}"
    elif dtype:
        notes["precision"] = f"dtype {format_value(dtype)} is no precision of gradients: they count as fp32"
    method = data.get("quantization_config")
    if isinstance(method, dict):
        name = str(method.get("quant_method", "unnamed"))[:40]
        notes["quantisation"] = f"its weights are quantised ({name}), which training does not see: all elements count"
    if unread := keys.unread():
        notes["keys"] = unread
    return Config(kind, made, notes)


def _find(name: str, near: Path | None) -> Path:
    found = find_file(name, near)
    if found is None:
        places = "next to this file or in the current folder" if near else "in the current folder"
        raise InputError(Problem("", "", f"no file {format_value(name)} {places}", "give the path of a config.json"))
    return found
