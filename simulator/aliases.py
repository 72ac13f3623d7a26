"""Words of other programs: names of what has another name here, which resolve, or the error says which keys are meant;
what is not modelled, by the keys that people write for it, and what comes closest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

Written = Mapping[str, str | int]
"""A member of a family as a scenario writes it."""


def _all(meant: Written, *names: str) -> dict[str, Written]:
    return {name: meant for name in names}


_ONE_BIT: Written = {
    "kind": "quantised_all_reduce",
    "format": "sign",
    "exchange_by": "all_to_all",
    "error_feedback": True,
}
"""Signs with error feedback: 1-bit Adam and LAMB send those of the momentum, which are as many bytes."""
_FULLY_SHARDED: Written = {"kind": "fsdp"}
KINDS: Mapping[str, Mapping[str, Written]] = {
    "sparsifier": {
        **_all({"kind": "dense"}, "none", "no_compression", "allreduce"),
        **_all({"kind": "topk"}, "top_k", "topk_sgd"),
        **_all({"kind": "randomk"}, "random_k", "rand_k"),
        "deep_gradient_compression": {"kind": "dgc"},
        **_all({"kind": "powersgd"}, "powersgd_ddp", "powersgd_hook", "power_sgd"),
        "sign_sgd": {"kind": "signsgd"},
        **_all({"kind": "efsignsgd"}, "ef_sign_sgd", "ef_signsgd"),
        **_all({"kind": "onebit"}, "1bit", "1_bit_sgd", "1bit_sgd", "onebit_sgd"),
        **_all(_ONE_BIT, "1_bit_adam", "1bit_adam", "onebit_adam", "1_bit_lamb", "1bit_lamb", "onebit_lamb"),
    },
    "scheduler": {
        **_all({"kind": "bucketed"}, "ddp", "pytorch_ddp", "distributed_data_parallel"),
        "horovod": {"kind": "bucketed", "rule": "horovod"},
        **_all(_FULLY_SHARDED, "fsdp2", "zero3", "zero_3", "fully_sharded_data_parallel"),
        **{name: {"kind": "zero", "stage": stage} for stage in (1, 2) for name in (f"zero{stage}", f"zero_{stage}")},
        "p3": {"kind": "priority"},
        "qgz": {**_FULLY_SHARDED, "reduce_wire": "qgz"},
        "qwz": {**_FULLY_SHARDED, "gather_wire": "int8"},
        "hpz": {**_FULLY_SHARDED, "keep": "node"},
        **_all({**_FULLY_SHARDED, "keep": "node", "gather_wire": "int8", "reduce_wire": "qgz"}, "zero++", "zeropp"),
    },
}
"""By family, names of other programs and papers, and what is meant here."""

FILES: Mapping[str, Mapping[str, str]] = {
    "gpus": {
        **dict.fromkeys(("a100_40gb", "a100_pcie"), "a100"),
        **dict.fromkeys(("a100_sxm_80gb", "a100_sxm4_80gb"), "a100-80gb"),
        **dict.fromkeys(("h100_sxm", "h100_sxm5", "h100_80gb"), "h100"),
        "h200_sxm": "h200",
        **dict.fromkeys(("v100_sxm2", "tesla_v100"), "v100"),
        **dict.fromkeys(("rtx_2080_ti", "2080ti"), "rtx2080ti"),
        **{name: f"rtx{model}" for model in ("3080", "3090", "4090") for name in (f"rtx_{model}", model)},
    },
    "runtimes": {
        **dict.fromkeys(("ddp", "pytorch", "megatron", "megatron_lm", "nemo"), "pytorch-ddp"),
        **dict.fromkeys(("fsdp", "fsdp2", "torchtitan", "deepspeed", "llm_foundry"), "pytorch-fsdp"),
        "horovod": "horovod-0.19",
    },
}
"""By folder of configs, what files are called elsewhere."""

_TRAVELS = "16-bit travel is `precision: {{travels: {}}}` of the workload"
EXPLAINED: Mapping[str, str] = {
    **{
        name: _TRAVELS.format(form)
        for form in ("fp16", "bf16")
        for name in (form, f"{form}_hook", f"{form}_compress_hook", f"{form}_compression")
    },
    **dict.fromkeys(
        ("zero_one_adam", "01adam", "01_adam", "0/1_adam"),
        "it skips exchanges, which is no kind here; what comes closest is `1bit_adam`, with fewer exchanges",
    ),
    "bucket_cap_mb": "25 of it are `scheduler: {kind: bucketed, bucket_size: 25 MiB}`; `sparsim advise` finds the best",
}
"""Names that no one kind stands for, and the keys that are meant."""


class Alias(NamedTuple):
    """A name that people use: `what` it stands in for, and what it `means`."""

    name: str
    what: str
    means: str


def kind_of(family: str, name: str) -> Written | None:
    """What is meant by a name where a member of a family is wanted; None for a name that is not known.

    >>> kind_of("scheduler", "ZeRO-2")
    {'kind': 'zero', 'stage': 2}
    """
    return KINDS.get(family, {}).get(plain(name))


def file_of(folder: str, name: str) -> str:
    """The name of a config by what it is called elsewhere, with its folder or without; the name itself otherwise.

    >>> file_of("gpus", "H100-SXM"), file_of("gpus", "gpus/A100"), file_of("gpus", "mine.yaml")
    ('gpus/h100', 'gpus/a100', 'gpus/mine.yaml')
    """
    bare = name.removeprefix(f"{folder}/").lower()
    return f"{folder}/{FILES.get(folder, {}).get(plain(bare), bare)}"


def explain(name: str) -> str:
    """Which keys are meant by a name that stands in a wrong place, or that no one kind stands for; else empty.

    >>> explain("fp16_hook")
    '16-bit travel is `precision: {travels: fp16}` of the workload'
    """
    known = ((family, names.get(plain(name))) for family, names in KINDS.items())
    return EXPLAINED.get(plain(name)) or next((f"write `{family}: {_shown(it)}`" for family, it in known if it), "")


def all_aliases() -> Iterator[Alias]:
    """Every name with what it means."""
    for family, names in KINDS.items():
        yield from (Alias(name, family, f"{family}: {_shown(meant)}") for name, meant in names.items())
    for folder, files in FILES.items():
        yield from (Alias(name, folder.removesuffix("s"), f"{folder}/{meant}") for name, meant in files.items())
    yield from (Alias(name, "", meant) for name, meant in EXPLAINED.items())


def _shown(written: Written) -> str:
    return "{" + ", ".join(f"{key}: {'true' if value is True else value}" for key, value in written.items()) + "}"


def plain(name: str) -> str:
    """A word without capitals, hyphens and spaces, as words of other programs are compared."""
    return name.strip().lower().replace("-", "_").replace(" ", "_")


class NotModelled(NamedTuple):
    """A setting of other programs that has no key here: what it is, the model's answer, and the keys for it."""

    what: str
    closest: str
    keys: tuple[str, ...]


_SHARDED_WORDS = (
    r"(fully_)?shard(ed|ing|ing_strategy|ed_data_parallel)?|fsdp2?|hsdp|deepspeed|distributed_optimizer"
    r"|zero(_?[123]|_stage|_optimization)?"
)
"""Words of other programs for parameters, gradients or states that are sharded over the workers."""
_SHARDED = (
    "write `scheduler: {kind: fsdp}` (FSDP, ZeRO-3; with `shard: 8` and replicas HSDP) or "
    "`scheduler: {kind: zero, stage: 1}` (ZeRO-1, distributed optimisers) or `stage: 2`, which "
    "reduces after each micro-batch, as `scheduler: {kind: bucketed, accumulate: all}` (DDP without `no_sync`) does"
)
_DIVIDED = {
    "tensor: 8": r"tensor(_model)?_parallel(_size)?|model_parallel|tp(_size)?",
    "pipeline: {stages: 4}": r"pipeline(_model)?_parallel(_size)?|pipeline(_stages)?|pp(_size)?",
    "sequence_parallel: true": r"sequence_parallel(_size)?",
    "expert: 8": r"expert(_model)?_parallel(_size|_degree)?|ep(_size)?|moe",
    "context: 2": r"context_parallel(_size)?|ring_attention|cp(_size)?",
}
"""Words of other programs for GPUs that compute one copy of a model together, by what says so here."""
NOT_MODELLED = (
    NotModelled(
        "states, gradients or activations in the memory of the host (offloading)",
        "`ignore_memory: true`, with the copies to and from the host in `update_time` or in `compute_time`",
        (
            "cpu_offload",
            "offload",
            "offload_optimizer",
            "offload_param",
            "optimizer_offload",
            "zero_offload",
            "activation_offload",
        ),
    ),
    NotModelled(
        "activations that are computed again in the backward pass, of layers that are stated",
        "`recompute: full` of a described transformer as the workload; else `activation_bytes` of what is kept, and "
        "times of layers with a forward pass more: about a third more compute "
        "(Chen et al. 2016)",
        (
            "activation_checkpointing",
            "gradient_checkpointing",
            "checkpoint_activations",
            "recompute",
            "recompute_activations",
            "remat",
        ),
    ),
    NotModelled(
        "weights in 4 bits that are not trained (QLoRA), and layers that are frozen by name",
        "`lora: {rank: 16}` of a transformer, or `layers` of the trained tensors alone, as few as they are, "
        "each with the time of the layers that it belongs to; and `frozen_bytes` of all others",
        (
            "qlora",
            "dora",
            "frozen",
            "freeze",
            "trainable",
        ),
    ),
)
"""What is not modelled, in the order of the documentation. Keys are compared without hyphens and capitals."""

OTHER_WORDS = {
    "lora": r"lora_(rank|r|alpha|target_modules)|peft(_config)?|adapters",
    "micro_batches": r"gradient_accumulation(_steps)?|accumulation_steps|accumulate_grad_batches"
    r"|backward_passes_per_step|num_microbatches|micro_batch|microbatches",
    "recompute": r"(activation|gradient)_checkpointing|ac_mode|checkpoint_activations|recompute_activations"
    r"|remat(_policy)?",
    "sequence": r"(max_)?seq(uence)?(_?len(gth)?)?|length|context(_length)?|n_ctx|block_size|max_position_embeddings",
    "hidden": r"hidden_(size|dim)|n_embd|d_model|dim|embed_dim",
    "layers": r"(num_|n_)(hidden_)?layers?|depth|blocks",
    "heads": r"(num_|n_)(attention_)?heads?|attention_heads",
    "kv_heads": r"(num_|n_)(key_value|kv)_heads?|num_query_groups",
    "mlp": r"feed_?forward(_size)?|intermediate_(size|dim)|ffn(_hidden_size|_dim)?|mlp_(dim|size)|d_ff|n_inner",
    "vocabulary": r"(padded_)?vocab(_size)?",
}
"""Keys of this program by the words that other programs have for them."""


def describe_not_modelled(word: str) -> tuple[str, str] | None:
    """What is wrong with a key or kind that is not modelled or stands elsewhere, and what to write; None for others.

    >>> describe_not_modelled("TP")
    ("'TP' is stated by `parallelism` of the scenario", 'write `parallelism: {tensor: 8}`')
    >>> describe_not_modelled("ZeRO-Stage")[0]
    "'ZeRO-Stage' is stated by the scheduler"
    """
    if setting := _key_of(word, _DIVIDED):
        return f"'{word}' is stated by `parallelism` of the scenario", f"write `parallelism: {{{setting}}}`"
    if re.fullmatch(_SHARDED_WORDS, plain(word)):
        return f"'{word}' is stated by the scheduler", _SHARDED
    found = ((item.what, item.closest) for item in NOT_MODELLED if plain(word) in item.keys)
    return next(((f"'{word}' is not modelled: {what}", f"what comes closest: {keys}") for what, keys in found), None)


def own_word(word: str) -> str:
    """The key of this program for a word of another one; empty where there is none.

    >>> own_word("gradient_accumulation_steps")
    'micro_batches'
    """
    return _key_of(word, OTHER_WORDS)


def _key_of(word: str, patterns: Mapping[str, str]) -> str:
    return next((key for key, words in patterns.items() if re.fullmatch(words, plain(word))), "")
