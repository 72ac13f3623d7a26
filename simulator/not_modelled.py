"""What people ask for that is not modelled, by the keys that they write: what it is, and what comes closest."""

from __future__ import annotations

from typing import NamedTuple

from simulator.aliases import plain


class NotModelled(NamedTuple):
    """A setting of other programs that has no key here: what it is, the model's answer, and the keys for it."""

    what: str
    closest: str
    keys: tuple[str, ...]


SHARDED = (
    "sharding",
    "sharded",
    "sharding_strategy",
    "shard",
    "fsdp",
    "fsdp2",
    "fully_sharded",
    "fully_sharded_data_parallel",
    "hsdp",
    "zero",
    "zero1",
    "zero2",
    "zero3",
    "zero_1",
    "zero_2",
    "zero_3",
    "zero_stage",
    "zero_optimization",
    "deepspeed",
    "distributed_optimizer",
)
"""Words of other programs for parameters, gradients or states that are sharded over the workers."""
_SHARDED = (
    "write `scheduler: {kind: fsdp}` (FSDP, ZeRO-3; with `shard: 8` and replicas HSDP) or "
    "`scheduler: {kind: zero, stage: 1}` (ZeRO-1, distributed optimisers) or `stage: 2`, which "
    "reduces after each micro-batch, as `scheduler: {kind: bucketed, accumulate: all}` (DDP without `no_sync`) does"
)
DIVIDED = {
    "tensor: 8": (
        "tensor_parallel",
        "tensor_parallel_size",
        "tensor_model_parallel_size",
        "tp",
        "tp_size",
        "model_parallel",
    ),
    "pipeline: {stages: 4}": (
        "pipeline_parallel",
        "pipeline_parallel_size",
        "pipeline_model_parallel_size",
        "pipeline",
        "pipeline_stages",
        "pp",
        "pp_size",
    ),
    "sequence_parallel: true": ("sequence_parallel", "sequence_parallel_size"),
    "expert: 8": (
        "expert_parallel",
        "expert_parallel_size",
        "expert_parallel_degree",
        "expert_model_parallel_size",
        "ep",
        "ep_size",
        "moe",
    ),
    "context: 2": ("context_parallel", "context_parallel_size", "ring_attention", "cp", "cp_size"),
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
        "activations that are computed again in the backward pass",
        "`activation_bytes` of what is kept, and times of layers with a forward pass more: about a third more compute "
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
    "lora": ("lora_rank", "lora_r", "lora_alpha", "lora_target_modules", "peft", "peft_config", "adapters"),
    "micro_batches": (
        "gradient_accumulation",
        "gradient_accumulation_steps",
        "accumulation_steps",
        "accumulate_grad_batches",
        "backward_passes_per_step",
        "num_microbatches",
        "micro_batch",
        "microbatches",
    ),
}
"""Keys of this program by the words that other programs have for them."""


def describe_not_modelled(word: str) -> tuple[str, str] | None:
    """What is wrong with a key or kind that is not modelled or stands elsewhere, and what to write; None for others.

    >>> describe_not_modelled("TP")
    ("'TP' is stated by `parallelism` of the scenario", 'write `parallelism: {tensor: 8}`')
    >>> describe_not_modelled("ZeRO-Stage")[0]
    "'ZeRO-Stage' is stated by the scheduler"
    """
    found = _BY_KEY.get(plain(word))
    for setting, words in DIVIDED.items():
        if plain(word) in words:
            return f"'{word}' is stated by `parallelism` of the scenario", f"write `parallelism: {{{setting}}}`"
    if plain(word) in SHARDED:
        return f"'{word}' is stated by the scheduler", _SHARDED
    return (
        None if found is None else (f"'{word}' is not modelled: {found.what}", f"what comes closest: {found.closest}")
    )


def own_word(word: str) -> str:
    """The key of this program for a word of another one; empty where there is none.

    >>> own_word("gradient_accumulation_steps")
    'micro_batches'
    """
    return next((key for key, others in OTHER_WORDS.items() if plain(word) in others), "")


_BY_KEY = {key: item for item in NOT_MODELLED for key in item.keys}
