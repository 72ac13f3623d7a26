"""A `config.json` as Hugging Face's transformers writes it: the sizes of a model; nothing in it is executed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from simulator.errors import InputError, Problem, format_value
from simulator.loading.documents import Document, read_document
from simulator.loading.finding import find_in_folder
from simulator.models.precision import format_named
from simulator.records import Record

NAME = "config.json"
_LAYERS = {"layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads"}


_SEQUENCE = 4096
"""Tokens of a sample where nothing states them: as Llama 2 was trained (Touvron et al. 2023, 2307.09288)."""


class Config(Record):
    """The described model in a config.json: its `model` and sizes, and in words where they come from, by key."""

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
    data = document.data
    if not isinstance(data, dict):
        raise InputError(Problem(document.where(()), "a mapping, as transformers writes it", format_value(data)))
    kind = data.get("model_type")
    where = f"{document.where(('model_type',))}: model_type"
    if isinstance(kind, str) and kind in _REFUSED:
        got = f"{kind}, which has {_REFUSED[kind]}"
        raise InputError(Problem(where, "a model all of whose parts are modelled", got, _OTHERWISE))
    if not isinstance(kind, str) or kind not in _TYPES:
        text = format_value(kind) if kind else "no `model_type`"
        raise InputError(Problem(where, f"one of {', '.join(_TYPES)}", text, _OTHERWISE))
    sizes = _Sizes(document, data)
    made = _TYPES[kind](sizes)
    notes = dict[str, str]()
    if made["model"] == "transformer":
        most = sizes.optional({"most": "max_position_embeddings"}).get("most")
        made["sequence"] = min(most or _SEQUENCE, _SEQUENCE)
        stated = f"max_position_embeddings is {most:,}" if most else "the file states no length"
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
    return Config(made, notes)


def _find(name: str, near: Path | None) -> Path:
    for folder in (near, None) if near else (None,):
        for candidate in (name, f"{name}/{NAME}"):
            found = find_in_folder(candidate, folder)
            if found is not None:
                return found
    places = "next to this file or in the current folder" if near else "in the current folder"
    raise InputError(Problem("", "", f"no file {format_value(name)} {places}", "give the path of a config.json"))


class _Sizes:
    """The keys of the file, each checked where it is read."""

    def __init__(self, document: Document, data: dict[str, Any]) -> None:
        self.document, self.data = document, data

    def numbers(self, keys: dict[str, str]) -> dict[str, Any]:
        """Whole numbers by our names from the file's. Raises InputError with all that are missing or no numbers."""
        problems = []
        for key in keys.values():
            value = self.data.get(key)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                got = "nothing" if value is None else format_value(value)
                problems.append(Problem(f"{self.document.where((key,))}: {key}", "a whole number from 1 up", got))
        if problems:
            raise InputError(problems)
        return {ours: self.data[key] for ours, key in keys.items()}

    def optional(self, keys: dict[str, str]) -> dict[str, Any]:
        """Whole numbers by our names, without those that the file leaves out. Raises InputError for anything else."""
        return self.numbers({ours: key for ours, key in keys.items() if self.data.get(key) is not None})

    def is_set(self, key: str, default: bool = False) -> bool:
        """A switch of the file, or its default where it is left out."""
        return self.data.get(key, default) is True

    def refuse(self, key: str, what: str) -> NoReturn:
        """Raise InputError for the value of a key."""
        got = format_value(self.data.get(key))
        raise InputError(Problem(f"{self.document.where((key,))}: {key}", what, got, _OTHERWISE))


def _decoder(sizes: _Sizes, *, tied: bool = False) -> dict[str, Any]:
    made = sizes.numbers(_LAYERS | {"mlp": "intermediate_size", "vocabulary": "vocab_size"})
    made |= sizes.optional({"kv_heads": "num_key_value_heads", "head_width": "head_dim"})
    made |= {"model": "transformer", "gated": True, "tied": sizes.is_set("tie_word_embeddings", tied)}
    attention, network = sizes.is_set("attention_bias"), sizes.is_set("mlp_bias")
    if attention != network:
        where = sizes.document.where(("attention_bias" if attention else "mlp_bias",))
        hint = "describe it with `model: transformer`, whose `biases` are none, qkv or all"
        raise InputError(Problem(where, "both attention_bias and mlp_bias, or neither", "one of them", hint))
    made["biases"] = "all" if attention else "none"
    return made


def _mistral(sizes: _Sizes) -> dict[str, Any]:
    return _decoder(sizes) | sizes.optional({"window": "sliding_window"})


def _qwen2(sizes: _Sizes) -> dict[str, Any]:
    windows = sizes.optional({"window": "sliding_window"}) if sizes.is_set("use_sliding_window") else {}
    return _decoder(sizes) | {"biases": "qkv"} | windows


def _qwen3(sizes: _Sizes) -> dict[str, Any]:
    return _qwen2(sizes) | {"biases": _decoder(sizes)["biases"], "head_norm": True}


def _gemma(sizes: _Sizes) -> dict[str, Any]:
    return _decoder(sizes, tied=True)


def _windowed(sizes: _Sizes, period: int) -> dict[str, Any]:
    """Windows in all blocks but the last of so many, as `layer_types` lists them or the family has them."""
    made = sizes.optional({"window": "sliding_window", "full_every": "sliding_window_pattern"})
    made.setdefault("full_every", period)
    if (listed := sizes.data.get("layer_types")) is not None:
        layers = sizes.numbers({"layers": "num_hidden_layers"})["layers"]
        full = listed.index("full_attention") + 1 if isinstance(listed, list) and "full_attention" in listed else 0
        kinds = ["sliding_attention"] * (full - 1) + ["full_attention"] if full else ["sliding_attention"]
        if listed != (kinds * layers)[:layers]:
            sizes.refuse("layer_types", "attention without a window in one block of so many, the last of them")
        made["full_every"] = full
    return made


def _gemma2(sizes: _Sizes) -> dict[str, Any]:
    return _gemma(sizes) | _windowed(sizes, 2) | {"norms": "both"}


def _gemma3(sizes: _Sizes) -> dict[str, Any]:
    return _gemma(sizes) | _windowed(sizes, 6) | {"norms": "both", "head_norm": True}


def _olmo2(sizes: _Sizes) -> dict[str, Any]:
    return _decoder(sizes) | {"norms": "branch", "head_norm": "whole"}


def _gpt_neox(sizes: _Sizes) -> dict[str, Any]:
    made = sizes.numbers(_LAYERS | {"mlp": "intermediate_size", "vocabulary": "vocab_size"})
    biases = "all" if sizes.is_set("attention_bias", True) else sizes.refuse("attention_bias", "true")
    tied = sizes.is_set("tie_word_embeddings")
    return made | {"model": "transformer", "norm": "layer", "biases": biases, "tied": tied}


def _opt(sizes: _Sizes) -> dict[str, Any]:
    names = {"mlp": "ffn_dim", "vocabulary": "vocab_size", "positions": "max_position_embeddings"}
    made = sizes.numbers(_LAYERS | names)
    for key in ("do_layer_norm_before", "enable_bias", "layer_norm_elementwise_affine"):
        if not sizes.is_set(key, True):
            sizes.refuse(key, "true")
    if sizes.data.get("word_embed_proj_dim", made["hidden"]) != made["hidden"]:
        sizes.refuse("word_embed_proj_dim", f"the hidden_size of {made['hidden']}")
    tied = sizes.is_set("tie_word_embeddings", True)
    # Two rows of the table of positions stand for padding.
    made["positions"] += 2
    return made | {"model": "transformer", "norm": "layer", "biases": "all", "tied": tied}


def _mixtral(sizes: _Sizes) -> dict[str, Any]:
    made = sizes.numbers({"experts": "num_local_experts", "experts_per_token": "num_experts_per_tok"})
    return _mistral(sizes) | made


def _with_experts(dense: Callable[[_Sizes], dict[str, Any]]) -> Callable[[_Sizes], dict[str, Any]]:
    """A reader of Qwen's models with experts, whose other keys are those of `dense`."""

    def read(sizes: _Sizes) -> dict[str, Any]:
        each = {"experts_per_token": "num_experts_per_tok", "expert_mlp": "moe_intermediate_size"}
        made = dense(sizes) | sizes.numbers({"experts": "num_experts"} | each)
        shared = sizes.optional({"shared_mlp": "shared_expert_intermediate_size"})
        others = sizes.data.get("mlp_only_layers") or []
        if sizes.data.get("decoder_sparse_step", 1) != 1 or others != [*range(len(others))]:
            key = "mlp_only_layers" if others else "decoder_sparse_step"
            what, got = "blocks without experts at the beginning only", format_value(sizes.data[key])
            raise InputError(Problem(f"{sizes.document.where((key,))}: {key}", what, got))
        return made | shared | {"shared_gate": bool(shared), "dense_layers": len(others)}

    return read


def _gpt2(sizes: _Sizes) -> dict[str, Any]:
    made = sizes.numbers({"layers": "n_layer", "hidden": "n_embd", "heads": "n_head"})
    return (
        made
        | sizes.optional({"mlp": "n_inner", "vocabulary": "vocab_size", "positions": "n_positions"})
        | {"model": "gpt2"}
    )


def _bert(sizes: _Sizes) -> dict[str, Any]:
    others = {"mlp": "intermediate_size", "vocabulary": "vocab_size", "positions": "max_position_embeddings"}
    return sizes.numbers(_LAYERS) | sizes.optional(others | {"token_types": "type_vocab_size"}) | {"model": "bert"}


def _roberta(sizes: _Sizes) -> dict[str, Any]:
    return _bert(sizes) | {"head": "masked"}


def _distilbert(sizes: _Sizes) -> dict[str, Any]:
    made = sizes.numbers({"layers": "n_layers", "hidden": "dim", "heads": "n_heads"})
    others = {"mlp": "hidden_dim", "vocabulary": "vocab_size", "positions": "max_position_embeddings"}
    return made | sizes.optional(others) | {"model": "bert", "token_types": 0, "head": "masked"}


def _vit(sizes: _Sizes) -> dict[str, Any]:
    others = {"mlp": "intermediate_size", "image": "image_size", "patch": "patch_size", "channels": "num_channels"}
    labels = sizes.data.get("id2label")
    classes = {"classes": len(labels)} if isinstance(labels, dict) and labels else {}
    return sizes.numbers(_LAYERS) | sizes.optional(others) | classes | {"model": "vit"}


_OTHERWISE = (
    "describe any other decoder with `model: transformer`, or take the sizes from its code: sparsim workload "
    "transformers:NAME --input tokens:512 (`sparsim workload --help`)"
)
_LATENT = "attention with latent keys and values (MLA)"
_REFUSED = {
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "gpt_oss": "attention sinks, and windows in every other block only",
    "llama4": "blocks without positions, and experts in some blocks only",
    "gemma3": "an encoder of images beside its decoder; its text_config alone is read, as gemma3_text",
    "t5": "a decoder that attends to an encoder, and a bias for each distance of tokens",
    "whisper": "convolutions, and a decoder that attends to an encoder",
    "mamba": "state spaces in the place of attention",
    "mamba2": "state spaces in the place of attention",
}
"""Types whose models have something that is not modelled, and what that is."""
_TYPES: dict[str, Callable[[_Sizes], dict[str, Any]]] = {
    "llama": _decoder,
    "mistral": _mistral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "mixtral": _mixtral,
    "qwen2_moe": _with_experts(_qwen2),
    "qwen3_moe": _with_experts(_qwen3),
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "phi3": _mistral,
    "olmo2": _olmo2,
    "gpt_neox": _gpt_neox,
    "opt": _opt,
    "gpt2": _gpt2,
    "bert": _bert,
    "roberta": _roberta,
    "distilbert": _distilbert,
    "vit": _vit,
}
