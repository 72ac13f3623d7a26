"""Configurations of DeepSpeed, Megatron-LM and Accelerate, and all programs whose configurations are read."""

from __future__ import annotations

from simulator.aliases import KINDS
from simulator.studies.start.training_keys import FORMATS_OF, Format, Stated
from simulator.studies.start.training_titan import MAXTEXT, TORCHFT, TORCHTITAN

_ZERO, _FSDP, _AXES = "zero_optimization.", "fsdp_config.fsdp_", "parallelism_config.parallelism_config_"
_HALVES = ("bf16", "bfloat16", "fp16")
_BUCKET = 500_000_000
"""Elements of a bucket: defaults of ZeRO, and `MEMORY_OPT_ALLREDUCE_SIZE` without it (deepspeed/runtime/engine.py)."""


def _of_deepspeed(stated: Stated) -> None:
    """Keys of deepspeed/runtime/config.py and zero/config.py (at 03dc2b92, 2025), with their defaults."""
    offloads = {"offload_optimizer.device": "offload_optimizer", "offload_param.device": "offload_param"}
    offloads |= {"cpu_offload": "cpu_offload", "cpu_offload_param": "offload_param"}
    stated.refuse_not_modelled({f"{_ZERO}{key}": word for key, word in offloads.items()})
    enabled = [name for name in _HALVES if stated.get(f"{name}.enabled", False)]
    gradients = FORMATS_OF[enabled[0]] if enabled else "fp32"
    if enabled or not stated.unknown:
        stated.write("workload.precision.gradients", gradients, f"{enabled[0]}.enabled" if enabled else "no bf16, fp16")
    if stated.find("communication_data_type", str):
        stated.write("workload.precision.travels", stated.word("communication_data_type", "", FORMATS_OF))
    stage = stated.get(f"{_ZERO}stage", 0, least=0)
    if str(stated.keys.get("optimizer.type")).lower() in ("onebitadam", "zerooneadam", "onebitlamb"):
        _write_one_bit(stated, stage)
    if "optimizer.type" in stated.keys:
        stated.write_optimiser("optimizer.type")
    if stage not in range(4):
        stated.refuse(f"{_ZERO}stage", "0, 1, 2 or 3")
    kind = ("sequential", "zero", "zero", "fsdp")[stage]
    stated.write("scheduler.kind", kind, f"{_ZERO}stage {stage}")
    if stage == 0:
        stated.write("scheduler.bucket_size", f"{_BUCKET * (2 if enabled else 4)} B", f"{_BUCKET} elements")
    elif stage == 3:
        _write_zero_3(stated)
    else:
        stated.write("scheduler.stage", stage, f"{_ZERO}stage")
        stated.write("scheduler.bucket", stated.get(f"{_ZERO}reduce_bucket_size", _BUCKET))
        stated.assume({f"{_ZERO}allgather_bucket_size": stated.get(f"{_ZERO}reduce_bucket_size", _BUCKET)})
        stated.write("scheduler.overlap_comm", stated.get(f"{_ZERO}overlap_comm", False))
        stated.assume({f"{_ZERO}zero_quantized_{what}": False for what in ("gradients", "weights")})
    on = ("contiguous_gradients", "reduce_scatter", "allgather_partitions", "use_multi_rank_bucket_allreduce")
    stated.assume({f"{_ZERO}{key}": True for key in on} | {f"{_ZERO}round_robin_gradients": False})
    tensor, stages = stated.get("tensor_parallel.autotp_size", 1, 0), stated.find("pipeline.stages", int)
    stated.write("parallelism.pipeline.stages", stages)
    stated.write("parallelism.tensor", tensor if tensor > 1 else None, "tensor_parallel.autotp_size")
    if stage > 1 and (stages or 1) > 1:
        stated.refuse("pipeline.stages", "1 with ZeRO-2 and ZeRO-3", "DeepSpeed refuses it (runtime/pipe/module.py)")
    names = "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size"
    micro, passes, total = (stated.find(name, int) for name in names)
    sizes_known = stated.knows("tensor_parallel.autotp_size", "pipeline.stages")
    copies = stated.count_copies(max(1, tensor), stages or 1) if sizes_known else None
    if micro is None and total is not None and copies is not None and stated.knows(*names):
        micro = max(1, total // (copies * (passes or 1)))
    stated.write_batch(micro, passes, total, copies, *names)


def _write_one_bit(stated: Stated, stage: int) -> None:
    """Signs of the momentum with error feedback, which follow iterations that are dense."""
    if stage:
        stated.refuse("optimizer.type", "another optimiser with ZeRO", "DeepSpeed refuses 1-bit ones there")
    steps = stated.get("optimizer.params.freeze_step", 100_000)
    stated.notes.append(f"Its first {steps} iterations (freeze_step) are dense: predict those with dense, too.")
    stated.find("optimizer.type", str)
    for key, value in KINDS["sparsifier"]["1bit_adam"].items():
        stated.write(f"sparsifier.{key}", value)


def _write_zero_3(stated: Stated) -> None:
    """ZeRO-3 with the collectives of ZeRO++ (qgZ, qwZ, hpZ, LoCo) and the groups of MiCS."""
    stated.assume({f"{_ZERO}overlap_comm": True})
    if stated.get(f"{_ZERO}zero_quantized_gradients", False):
        loco = any(key.startswith(f"{_ZERO}zeropp_loco_param") for key in stated.keys)
        stated.read(f"{_ZERO}zeropp_loco_param")
        stated.write("scheduler.reduce_wire", "loco" if loco else "qgz")
    if stated.get(f"{_ZERO}zero_quantized_weights", False):
        stated.write("scheduler.gather_wire", "int8")
    size = stated.get(f"{_ZERO}zero_hpz_partition_size", 1, least=0)
    if size > 1:
        stated.write("scheduler.keep", "node")
        stated.notes.append(f"zero_hpz_partition_size: the second copy is that of a node; state nodes of {size} GPUs.")
    shard = stated.get(f"{_ZERO}mics_shard_size", -1, least=-1)
    stated.write("scheduler.shard", shard if shard > 0 else None)


_AXES_OF_MEGATRON = {
    "parallelism.tensor": "tensor_model_parallel_size",
    "parallelism.context": "context_parallel_size",
    "parallelism.pipeline.stages": "pipeline_model_parallel_size",
}
_MACHINES = (("nnodes", "num_nodes"), ("nproc_per_node", "devices"))


def _of_megatron(stated: Stated) -> None:
    """Options of megatron/training/arguments.py and of Megatron-Core's DistributedDataParallelConfig, with defaults."""
    stated.refuse_not_modelled({"optimizer_cpu_offload": "offload_optimizer", "cpu_offloading": "activation_offload"})
    sizes = [[key for key in keys if type(stated.keys.get(key)) is int] for keys in _MACHINES]
    if all(sizes):
        nodes, gpus = (stated.get(keys[0], 1) for keys in sizes)
        stated.write_cluster(nodes, gpus, f"{sizes[0][0]}, {sizes[1][0]}")
    stated.apply(_AXES_OF_MEGATRON | {"parallelism.expert": "expert_model_parallel_size"})
    tensor, context, stages = (stated.get(key, 1) for key in _AXES_OF_MEGATRON.values())
    if tensor > 1:
        stated.write("parallelism.sequence_parallel", stated.get("sequence_parallel", False))
        stated.write("parallelism.overlap", stated.get("tp_comm_overlap", False) or None)
    layers = stated.find("num_layers", int)
    each = stated.find("num_layers_per_virtual_pipeline_stage", int)
    if each is not None and layers is not None and stated.knows(*_AXES_OF_MEGATRON.values()):
        if layers % (stages * each):
            stated.refuse("num_layers_per_virtual_pipeline_stage", f"a part of {layers} layers on {stages} stages")
        stated.write("parallelism.pipeline.chunks", layers // (stages * each))
    stated.apply({"parallelism.pipeline.chunks": "num_virtual_stages_per_pipeline_rank"})
    if layers is not None and stated.find("hidden_size", int) is not None:
        _write_sizes(stated, tensor)
    half = next((name for name in ("bf16", "fp16") if stated.get(name, False)), "")
    named = next((key for key in ("precision", "params_dtype") if "16" in str(stated.keys.get(key))), "")
    half = ("bf16" if "bf" in stated.get(named, "") else "fp16") if named else half
    stated.write("workload.precision.gradients", half or "fp32", named or half or "neither bf16 nor fp16")
    in_fp32 = stated.get("accumulate_allreduce_grads_in_fp32", half == "bf16")
    if half and in_fp32 and not stated.get("grad_reduce_in_bf16", False):
        stated.write("workload.precision.travels", "fp32")
    fp8 = next((key for key in ("fp8_format", "fp8") if stated.find(key, str) not in (None, "false")), None)
    stated.write("workload.arithmetic", "fp8" if fp8 else None, fp8 or "")
    selective = "selective" if stated.get("recompute_activations", False) else "none"
    recompute = stated.word("recompute_granularity", selective, {key: key for key in ("none", "selective", "full")})
    stated.write("workload.recompute", recompute)
    stated.assume({"recompute_method": "uniform", "recompute_num_layers": 1, "recompute_modules": "core_attn"})
    stated.assume({"distributed_backend": "nccl", "transformer_impl": "transformer_engine"})
    stated.write_optimiser("optimizer")
    copies = stated.count_copies(tensor, context, stages) if stated.knows(*_AXES_OF_MEGATRON.values()) else None
    _write_distributed_optimiser(stated, copies, context)
    micro, total = stated.find("micro_batch_size", int), stated.find("global_batch_size", int)
    passes = stated.find("num_micro_batches", int)
    keys = "micro_batch_size", "global_batch_size", "num_micro_batches"
    stated.write_batch(micro, passes, total, copies, *keys)
    stated.compiled = "Kernels of Megatron-LM are fused"
    if isinstance(branches := stated.keys.pop("branches", None), list):
        stated.notes.append(f"Taken as given, although they stand in branches of the script: {', '.join(branches)}.")


def _write_sizes(stated: Stated, tensor: int) -> None:
    stated.write("workload.model", "transformer", "num_layers, hidden_size")
    rows = {"layers": "num_layers", "hidden": "hidden_size", "heads": "num_attention_heads", "sequence": "seq_length"}
    rows |= {"kv_heads": "num_query_groups", "head_width": "kv_channels"}
    stated.apply({f"workload.{to}": key for to, key in rows.items()})
    gated, hidden = stated.get("swiglu", False), stated.get("hidden_size", 1)
    stated.write("workload.gated", gated, "swiglu")
    mlp = stated.get("ffn_hidden_size", max(64, hidden * 8 // 3 // 64 * 64) if gated else 4 * hidden)
    stated.write("workload.mlp", mlp)
    if stated.find("num_experts", int):
        rows = {"experts": "num_experts", "expert_mlp": "moe_ffn_hidden_size"}
        rows |= {"shared_mlp": "moe_shared_expert_intermediate_size"}
        stated.apply({f"workload.{to}": key for to, key in rows.items()})
        stated.write("workload.experts_per_token", stated.get("moe_router_topk", 2))
    norms = {"layernorm": "layer", "rmsnorm": "rms"}
    stated.write("workload.norm", stated.word("normalization", "LayerNorm", norms))
    rotary = "rope" if stated.get("use_rotary_position_embeddings", False) else "learned_absolute"
    learned = stated.get("position_embedding_type", rotary) == "learned_absolute"
    positions = stated.find("max_position_embeddings", int)
    stated.write("workload.positions", positions if learned else 0, "position_embedding_type, max_position_embeddings")
    biased = stated.get("add_bias_linear", not stated.get("disable_bias_linear", False))
    stated.write("workload.biases", "all" if biased else "qkv" if stated.get("add_qkv_bias", False) else "none")
    stated.write("workload.tied", not stated.get("untie_embeddings_and_output_weights", False))
    dropout = stated.get("attention_dropout", 0.1) + stated.get("hidden_dropout", 0.1) > 0
    stated.write("workload.dropout", dropout)
    stated.write("workload.attention", "fused" if stated.get("use_flash_attn", False) else None)
    if stated.find("attention_backend", str):
        kernels = {"fused": "flash3", "flash": "fused", "unfused": "separate", "local": "separate"}
        stated.write("workload.attention", stated.word("attention_backend", "", kernels))
    multiple = stated.get("make_vocab_size_divisible_by", 128) * tensor
    vocabulary = stated.find("vocab_size", int)
    if not stated.knows("vocab_size", "tensor_model_parallel_size"):
        stated.notes.append("vocabulary: it is padded to multiples of tensor-parallel ranks; state it.")
    elif vocabulary is None:
        stated.notes.append("vocabulary: the file leaves it to the tokenizer; state it.")
    else:
        stated.write("workload.vocabulary", -(-vocabulary // multiple) * multiple, f"vocab_size, padded to {multiple}s")
    stated.read("group_query_attention")


def _write_distributed_optimiser(stated: Stated, copies: int | None, context: int) -> None:
    """Whether states are shared out, and what is reduced and gathered beside compute; a bucket where one is stated."""
    if stated.get("use_torch_fsdp2", False) or stated.get("use_megatron_fsdp", False):
        stated.write("scheduler.kind", "fsdp")
        return
    instances = stated.get("num_distributed_optimizer_instances", 1)
    gathers, reduces = (stated.get(f"overlap_{what}", False) for what in ("param_gather", "grad_reduce"))
    shards = stated.get("use_distributed_optimizer", False)
    stated.write("scheduler.kind", "megatron", "Megatron-LM")
    stated.write("scheduler.shard", None if shards else 1)
    if gathers and not (shards and reduces):
        stated.refuse("overlap_param_gather", "overlap_grad_reduce and use_distributed_optimizer beside it")
    if instances > 1:
        if copies is None or copies % instances:
            stated.refuse("num_distributed_optimizer_instances", "a part of the copies", "state the GPUs: --gpus")
        why = "copies x context / num_distributed_optimizer_instances"
        stated.write("scheduler.shard", copies * context // instances, why)
    stated.write("scheduler.overlap_grad_reduce", reduces, "overlap_grad_reduce")
    stated.write("scheduler.overlap_param_gather", gathers, "overlap_param_gather")
    if stated.get("no_gradient_accumulation_fusion", False) or not stated.get("gradient_accumulation_fusion", True):
        stated.write("scheduler.fused_accumulation", False, "gradient_accumulation_fusion")
    bucket = stated.find("ddp_bucket_size", int)
    stated.write("scheduler.bucket", bucket if reduces else None)
    if stated.get("fp8_param_gather", False):
        stated.write("scheduler.gather_wire", "fp8")


_STRATEGIES = {
    **dict.fromkeys(("full_shard", "1", "true"), "none"),
    **dict.fromkeys(("shard_grad_op", "2", "false"), "forward"),
    **dict.fromkeys(("no_shard", "3"), "whole"),
    **dict.fromkeys(("hybrid_shard", "4"), "none in nodes"),
    **dict.fromkeys(("hybrid_shard_zero2", "5"), "forward in nodes"),
}
"""What stays gathered, by `fsdp_sharding_strategy` and `fsdp_reshard_after_forward`."""


def _of_accelerate(stated: Stated) -> None:
    """Files of `accelerate config` (huggingface/accelerate, 2025); its other programs by their own translations."""
    machines, processes = stated.get("num_machines", 1), stated.get("num_processes", 1)
    if "num_processes" in stated.keys:
        if processes % machines:
            stated.refuse("num_processes", f"a multiple of the {machines} machines", "it counts those of all machines")
        stated.write_cluster(machines, processes // machines, "num_processes, num_machines")
    stated.assume({"use_cpu": False, "debug": False})
    kinds = ("FSDP", "DEEPSPEED", "MEGATRON_LM", "MULTI_GPU")
    kind = stated.word("distributed_type", "none", {each.lower(): each for each in kinds})
    half = stated.word("mixed_precision", "no", FORMATS_OF | {"false": "fp32", "fp8": "bf16"})
    if kind == "DEEPSPEED":
        if "deepspeed_config.deepspeed_config_file" in stated.keys:
            stated.refuse("deepspeed_config.deepspeed_config_file", "settings in place", "read that file instead")
        names = {"zero_stage": f"{_ZERO}stage", "gradient_accumulation_steps": "gradient_accumulation_steps"}
        names |= {f"offload_{part}_device": f"{_ZERO}offload_{part}.device" for part in ("optimizer", "param")}
        stated.rename({f"deepspeed_config.{old}": new for old, new in names.items()})
        stated.keys |= {f"{half}.enabled": True} if half != "fp32" else {}
        _of_deepspeed(stated)
    elif kind == "MEGATRON_LM":
        names = {"tp_degree": "tensor_model_parallel_size", "pp_degree": "pipeline_model_parallel_size"}
        same = ("num_micro_batches", "recompute_activations", "use_distributed_optimizer")
        names |= {"sequence_parallelism": "sequence_parallel"} | {name: name for name in same}
        stated.rename({f"megatron_lm_config.megatron_lm_{old}": new for old, new in names.items()})
        stated.keys |= {half: True} if half != "fp32" else {}
        _of_megatron(stated)
    else:
        stated.apply({"workload.micro_batches": "gradient_accumulation_steps"})
        stated.notes.append("batch_size stands in the training script: state it.")
    if kind == "MULTI_GPU":
        stated.write("workload.arithmetic", None if half == "fp32" else half, "mixed_precision: autocast")
        stated.write("scheduler.kind", "bucketed", "distributed_type: DDP")
    elif kind == "FSDP":
        _write_fsdp(stated, half)


def _write_fsdp(stated: Stated, half: str) -> None:
    """FSDP of PyTorch, whose parameters lie in one buffer in its first version."""
    stated.refuse_not_modelled({f"{_FSDP}offload_params": "cpu_offload"})
    stated.write("workload.precision.gradients", half, "mixed_precision")
    keys = [key for key in ("sharding_strategy", "reshard_after_forward") if f"{_FSDP}{key}" in stated.keys]
    keep = stated.word(f"{_FSDP}{keys[0] if keys else 'sharding_strategy'}", "full_shard", _STRATEGIES)
    stated.write("scheduler.kind", "bucketed" if keep == "whole" else "fsdp")
    if keep != "whole":
        stated.write("scheduler.keep", keep.partition(" ")[0])
        if keep.endswith("nodes"):
            if "cluster.gpus_per_node" not in stated.lines:
                hint = f"the {stated.gpus} of --gpus fill no machines of its size" if stated.gpus else ""
                stated.refuse("num_processes", "the number of GPUs, for copies in nodes", hint)
            stated.write("scheduler.shard", stated.lines["cluster.gpus_per_node"][0], "a copy in each machine")
        stated.write("scheduler.flat", stated.get(f"{_FSDP}version", 1) == 1)
        if stated.get("gradient_accumulation_steps", 1) > 1:
            stated.write("scheduler.accumulate", "none", "gradient_accumulation_steps: no_sync")
    stated.assume({f"{_FSDP}backward_prefetch": "BACKWARD_PRE", f"{_FSDP}forward_prefetch": False})
    stated.assume({f"{_FSDP}auto_wrap_policy": "TRANSFORMER_BASED_WRAP"})
    if stated.get(f"{_FSDP}activation_checkpointing", False):
        stated.write("workload.recompute", "full")
    stated.apply({"parallelism.tensor": "tp_size", "parallelism.context": "cp_size"}, _AXES)
    shard = stated.find(f"{_AXES}dp_shard_size", int)
    if stated.get(f"{_AXES}dp_replicate_size", 1) > 1 and shard is not None:
        stated.write("scheduler.shard", shard * stated.get(f"{_AXES}cp_size", 1), "dp_shard_size x cp_size")


_LOGS = r"tensorboard.*|wandb.*|.*csv_monitor.*|log_.*|.*_interval|comms_logger.*|.*seed"
FORMATS = (
    Format(
        "Accelerate",
        r"distributed_type|compute_environment",
        _of_accelerate,
        r"compute_environment|machine_rank|main_.*|rdzv_.*|same_network|tpu_.*|enable_cpu_affinity"
        r"|downcast_bf16|.*state_dict_type|.*sync_module_states|.*cpu_ram_efficient_loading|.*use_orig_params"
        r"|.*layer_cls_to_wrap|.*zero3_(init_flag|save_16bit_model)|.*multinode_launcher|gpu_ids",
    ),
    Format(
        "DeepSpeed",
        r"zero_optimization(\..*)?|train_micro_batch_size_per_gpu|train_batch_size",
        _of_deepspeed,
        rf"{_LOGS}|steps_per_print|wall_clock_breakdown|dump_state|scheduler\..*|zero_allow_untested_optimizer"
        r"|optimizer\.params\.(lr|betas?|eps|weight_decay|bias_correction)|(fp16|bf16)\.(loss_|initial_|min_|.*hyst).*"
        r"|.*gather_(16bit|fp16)_weights_on_model_save|.*load_from_fp32_weights|.*ignore_unused_parameters"
        r"|.*offload_(optimizer|param)\..*|.*elastic_checkpoint|flops_profiler\..*",
    ),
    TORCHTITAN,
    TORCHFT,
    MAXTEXT,
    Format(
        "Megatron-LM",
        r"(tensor|pipeline)_model_parallel_size|use_distributed_optimizer|micro_batch_size|ffn_hidden_size",
        _of_megatron,
        rf"{_LOGS}|(save|load|lr|eval|tokenizer|adam|weight_decay|init_method|master|rdzv|exit|ckpt|profile|timing)(_.*)?|split"
        r"|min_lr|decoupled_.*|mock_data|data_.*path|vocab_file|merge_file|train_(iters|samples|data_path)|node_rank"
        r"|distributed_timeout.*"
        r"|no_(save|load|create_attention_mask|mmap).*|dataloader_.*|num_workers|use_mcore_models|rotary_(base|percent)|tiktoken.*"
        r"|norm_epsilon|(initial_)?loss_scale.*|override_.*|NCCL_(DEBUG.*|ASYNC.*|SOCKET_IFNAME|IB_HCA)|standalone",
        short=True,
    ),
)
"""In the order in which they are recognised."""
