"""A `config.json` as Hugging Face's transformers writes it: the sizes of a model; nothing in it is executed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.loading.documents import Document, read_document
from simulator.loading.finding import find_in_folder

NAME = "config.json"
_LAYERS = {"layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads"}


def read_config(name: str, near: Path | None) -> dict[str, Any]:
    """The described model in a config.json, or in a folder with one: its `model` and its sizes.

    Looked for next to the file that names it, and in the current folder. Raises InputError for a file that is absent,
    for a `model_type` that is not supported, and for sizes that are missing or no numbers.
    """
    document = read_document(_find(name, near))
    data = document.data
    if not isinstance(data, dict):
        raise InputError(Problem(document.where(()), "a mapping, as transformers writes it", format_value(data)))
    kind = data.get("model_type")
    if isinstance(kind, str) and kind in _REFUSED:
        what, got = "a model all of whose parts are modelled", f"{kind}, which has {_REFUSED[kind]}"
        hint = "what comes closest: `model: transformer` with its `experts`, `heads` and `head_width`"
        raise InputError(Problem(f"{document.where(('model_type',))}: model_type", what, got, hint))
    if not isinstance(kind, str) or kind not in _TYPES:
        known = ", ".join(_TYPES)
        hint = suggest_nearest(str(kind), _TYPES) if kind else f"supported: {known}"
        text = format_value(kind) if kind else "no `model_type`"
        hint = f"{hint}; describe any other decoder with `model: transformer` (`sparsim workload --help`)"
        raise InputError(Problem(f"{document.where(('model_type',))}: model_type", f"one of {known}", text, hint))
    return _TYPES[kind](_Sizes(document, data))


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

    def is_set(self, key: str) -> bool:
        """A switch of the file, off where it is left out."""
        return self.data.get(key) is True


def _decoder(sizes: _Sizes) -> dict[str, Any]:
    made = sizes.numbers(_LAYERS | {"mlp": "intermediate_size", "vocabulary": "vocab_size"})
    made |= sizes.optional({"kv_heads": "num_key_value_heads", "head_width": "head_dim"})
    made |= {"model": "transformer", "gated": True, "tied": sizes.is_set("tie_word_embeddings")}
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


def _vit(sizes: _Sizes) -> dict[str, Any]:
    others = {"mlp": "intermediate_size", "image": "image_size", "patch": "patch_size", "channels": "num_channels"}
    labels = sizes.data.get("id2label")
    classes = {"classes": len(labels)} if isinstance(labels, dict) and labels else {}
    return sizes.numbers(_LAYERS) | sizes.optional(others) | classes | {"model": "vit"}


_LATENT = "attention with latent keys and values (MLA)"
_REFUSED = {
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "gpt_oss": "attention sinks, and windows in every other block only",
    "llama4": "blocks without positions, and experts in some blocks only",
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
    "gpt2": _gpt2,
    "bert": _bert,
    "vit": _vit,
}
