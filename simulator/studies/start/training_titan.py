"""Configurations of torchtitan, in TOML and in Python, of torchft and of MaxText."""

from __future__ import annotations

import math
import re

from simulator.studies.start.training_keys import FORMATS_OF, Format, Stated

_P, _T, _FT, _AC = "parallelism.", "training.", "fault_tolerance.", "activation_checkpoint."
_LLAMA3 = {"8B": (32, 4096, 32, 14336), "70B": (80, 8192, 64, 28672), "405B": (126, 16384, 128, 53248)}
"""Layers, hidden units, heads and hidden units of the network (torchtitan/models/llama3, 2025)."""
_DDP_BUCKET = 100 * 2**20
"""Bytes of a bucket (`bucket_cap_mb` in torchtitan/models/llama3/infra/parallelize.py, 2025)."""


def _of_torchtitan(stated: Stated) -> None:
    """Sections of torchtitan/config/job_config.py (at 000204a4, 2025), also in Python, with their defaults."""
    older = [key for key in stated.keys if re.fullmatch(r"(training|experimental)\.\w+_parallel(_\w+)?", key)]
    stated.rename({key: f"{_P}{key.partition('.')[2]}" for key in older})
    stated.refuse_not_modelled({f"{_T}enable_cpu_offload": "cpu_offload"})
    axes = {"tensor": "tensor", "context": "context", "pipeline.stages": "pipeline"}
    rows = axes | {"expert": "expert"}
    stated.apply({f"parallelism.{to}": f"{axis}_parallel_degree" for to, axis in rows.items()}, _P)
    tensor, context, stages = (stated.get(f"{_P}{axis}_parallel_degree", 1) for axis in axes.values())
    sequence = stated.get(f"{_P}enable_sequence_parallel", True)
    stated.write("parallelism.sequence_parallel", sequence if tensor > 1 else None)
    overlaps = stated.get(f"{_P}enable_async_tensor_parallel", False) and tensor > 1
    stated.write("parallelism.overlap", overlaps or None)
    stated.assume(dict.fromkeys((f"{_P}disable_loss_parallel", "optimizer.early_step_in_backward"), False))
    copies = stated.count_copies(tensor, context, stages)
    replicas = stated.get(f"{_P}data_parallel_replicate_degree", 1)
    shard = stated.get(f"{_P}data_parallel_shard_degree", -1, least=-1)
    if shard < 1 and replicas > 1:
        if copies is None or copies % replicas:
            stated.refuse(f"{_P}data_parallel_replicate_degree", "a part of the copies", "state the GPUs: --gpus")
        shard = copies // replicas
    if shard > 0 and copies not in (None, shard * replicas):
        stated.refuse(f"{_P}data_parallel_shard_degree", f"{copies} copies with replicas, as --gpus has it")
    copies = shard * replicas if shard > 0 else copies
    _write_model(stated)
    micro = stated.get(f"{_T}local_batch_size", stated.get(f"{_T}batch_size", 8))
    total, passes = max(0, stated.get(f"{_T}global_batch_size", -1, least=-1)) or None, None
    if stages > 1:
        key = f"{_P}pipeline_parallel_schedule"
        schedules = {"1f1b": "1f1b", "interleaved1f1b": "1f1b", "gpipe": "gpipe", "zbvzerobubble": "zb_v"}
        stated.write("parallelism.pipeline.schedule", stated.word(key, "1F1B", schedules))
        stated.write("parallelism.pipeline.chunks", 1 + stated.get(key, "").lower().startswith(("interleaved", "zbv")))
        micro, passes = _write_runs(stated, micro, stages if older else 0, total, copies)
    stated.read(f"{_P}pipeline_parallel_schedule", f"{_P}pipeline_parallel_microbatch")
    stated.write_batch(micro, passes, total, copies, f"{_T}local_batch_size")
    to = "scheduler.inside." if _write_fault_tolerance(stated) else "scheduler."
    _write_data_parallel(stated, shard * context, stages, to)


def _write_runs(
    stated: Stated, local: int, usual: int, total: int | None, copies: int | None
) -> tuple[int, int | None]:
    """Samples of a micro-batch, and micro-batches of an iteration: a pipeline's schedule runs over each local batch.

    Files say how large a micro-batch is; those with older keys (until 2025) into how many a local batch is cut, `usual`
    where they do not. Raises InputError for a rest, as torchtitan does.
    """
    key, size = f"{_P}pipeline_parallel_microbatches", f"{_P}pipeline_parallel_microbatch_size"
    pieces = stated.get(key, usual)
    each, key = (local // pieces, key) if pieces else (stated.get(size, 1), size)
    if local % (pieces or each):
        stated.refuse(key, f"equal micro-batches of the {local} samples of a local batch", f"{_T}local_batch_size")
    if total and not copies:
        return each, None
    runs, rest = divmod(total or local, local * (copies if total and copies else 1))
    if rest or not runs:
        stated.refuse(
            f"{_T}global_batch_size", f"a multiple of the local batches of {copies} copies, {local} samples each"
        )
    stated.write("parallelism.pipeline.runs", runs if runs > 1 else None, f"{_T}global_batch_size: accumulation")
    return each, local // each * runs


def _write_data_parallel(stated: Stated, shard: int, stages: int, to: str) -> None:
    """FSDP2, gathered once where there are stages, or DDP where parameters are whole; and the number formats."""
    half = stated.word(f"{_T}mixed_precision_param", "bfloat16", FORMATS_OF)
    reduced = stated.word(f"{_T}mixed_precision_reduce", "float32", FORMATS_OF)
    converted = "float8" in str(stated.keys.get("model.converters")) or any("Float8Lin" in key for key in stated.keys)
    stated.read("model.converters", *([] if converted else ["float8.", "quantize.linear.float8."]))
    local = to != "scheduler." and not any(key.startswith(f"{_P}data_parallel_") for key in stated.keys)
    if local:
        stated.notes.append("A replica of several GPUs runs FSDP within it: state inside: {kind: fsdp}, and site.")
    if shard == 1:
        stated.write(f"{to}kind", "bucketed", f"{_P}data_parallel_shard_degree 1: DDP")
        stated.write(f"{to}bucket_size", f"{_DDP_BUCKET} B", "DDP of torchtitan")
        stated.write("workload.arithmetic", "fp8" if converted else half, f"{_T}mixed_precision_param: autocast")
        return
    stated.write("workload.precision.gradients", half, f"{_T}mixed_precision_param")
    stated.write("workload.precision.travels", reduced, f"{_T}mixed_precision_reduce")
    if stated.word(f"{_T}dtype", "float32", FORMATS_OF) != "fp32":
        stated.write("workload.precision.master_weights", False)
    stated.write("workload.arithmetic", "fp8" if converted else None, "float8 of torchao")
    if local:
        return
    stated.write(f"{to}kind", "fsdp", f"{_P}data_parallel_shard_degree")
    why = f"{_P}data_parallel_shard_degree x context_parallel_degree"
    stated.write(f"{to}shard", shard if shard > 0 else None, why)
    policies = {"default": "forward" if stages > 1 else "none", "always": "none", "never": "forward"}
    stated.write(f"{to}keep", stated.word(f"{_P}fsdp_reshard_after_forward", "default", policies))
    for key in [each for each in stated.keys if converted and each.endswith("enable_fsdp_float8_all_gather")]:
        stated.write(f"{to}gather_wire", "fp8" if stated.get(key, False) else None)


def _write_model(stated: Stated) -> None:
    """Sizes of Llama 3, sequence, optimiser, recomputation and compiler."""
    flavor = stated.find("model.flavor", str) or stated.find("model_spec", str) or ""
    name = stated.find("model.name", str) or str(stated.keys.get("function", "")).partition("_")[0]
    if name == "llama3" and flavor in _LLAMA3:
        stated.write("workload.model", "transformer", f"{name} {flavor}")
        sizes = dict(zip(("layers", "hidden", "heads", "mlp"), _LLAMA3[flavor], strict=True))
        for key, size in (sizes | {"kv_heads": 8, "vocabulary": 128_256}).items():
            stated.write(f"workload.{key}", size, f"{name} {flavor}")
        stated.write("workload.gated", True, f"{name} {flavor}")
    elif flavor:
        stated.notes.append(f"Sizes of the model ({name} {flavor}) do not stand in the file: describe it in workload.")
    stated.write("workload.sequence", stated.get(f"{_T}seq_len", 2048))
    stated.assume({"optimizer.class": "OptimizersContainer"})
    ways = {"fused": "fused", "foreach": "foreach", "for-loop": "per_tensor"}
    stated.write_optimiser("optimizer.name", stated.word("optimizer.implementation", "fused", ways))
    kept = {"none": "none", "full": "full", "selective": "operators"}
    mode = str(stated.keys.get(f"{_AC}mode", "selective"))
    if mode not in (*kept, "memory_budget"):
        stated.word(f"{_AC}mode", "", kept | {"memory_budget": ""})
    if mode in kept and (mode != "selective" or stated.keys.get(f"{_AC}selective_ac_option", "op") == "op"):
        stated.write("workload.recompute", stated.word(f"{_AC}mode", "selective", kept))
        stated.read(f"{_AC}selective_ac_option")
    if stated.get("compile.enable", stated.get(f"{_T}compile", False)):
        stated.compiled = "The model is compiled"


def _write_fault_tolerance(stated: Stated) -> bool:
    method = stated.get(f"{_FT}semi_sync_method", "").lower()
    if not stated.get(f"{_FT}enable", False):
        stated.read(_FT)
    if not stated.get(f"{_FT}enable", False) or method not in ("diloco", "local_sgd"):
        return False
    named = stated.keys.get(f"{_FT}module_fqns_per_model_fragment")
    stated.read(f"{_FT}module_fqns_per_model_fragment")
    count = stated.get(f"{_FT}num_fragments", 1)
    _write_local_steps(stated, _FT, "sync_steps", method, len(named) if isinstance(named, list) and named else count)
    return True


def _of_torchft(stated: Stated) -> None:
    """Arguments of `DiLoCo` or `LocalSGD`; those that count have to be written out, since the script is not run."""
    diloco, parts = stated.get("torchft.call", "") == "DiLoCo", stated.keys.get("torchft.model_fragments", [])
    if diloco and not isinstance(parts, list | tuple):
        stated.refuse("torchft.model_fragments", "a list that is written out", "one entry per fragment, to be counted")
    if stated.find("torchft.sync_every", int) is None:
        stated.refuse("torchft.sync_every", "this argument in the call")
    count = max(1, len(parts)) if isinstance(parts, list | tuple) else 1
    _write_local_steps(stated, "torchft.", "sync_every", "diloco" if diloco else "local_sgd", count)
    size = stated.get("torchft.bucket_cap_mb", 1024.0) * 2**20
    if stated.get("torchft.use_bucketization", False):
        stated.write("scheduler.bucket_size", f"{size:.12g} B")


def _write_local_steps(stated: Stated, prefix: str, key: str, method: str, count: int) -> None:
    """Local steps of torchft: of P fragments one every H/P steps, its exchange started `delay` steps before.

    Rules of meta-pytorch/torchft, `local_sgd.py`: P divides H, and the delay is below H/P. Raises InputError elsewhere.
    """
    steps, delay = stated.get(f"{prefix}{key}", 5), stated.get(f"{prefix}fragment_sync_delay", 0, least=0)
    mixing, diloco = stated.get(f"{prefix}fragment_update_alpha", 0.0), method == "diloco"
    if diloco and steps % count:
        stated.refuse(f"{prefix}{key}", f"a multiple of the {count} fragments")
    if diloco and delay >= steps // count:
        stated.refuse(f"{prefix}fragment_sync_delay", f"below {steps // count}, H/P")
    several = diloco and (count > 1 or delay > 0)
    stated.write("scheduler.kind", "streaming_diloco" if several else method, f"{method} of torchft")
    stated.write("scheduler.inner_steps", steps, f"{prefix}{key}")
    if several:
        stated.write("scheduler.fragments", count, f"one every {steps // count} steps")
        stated.write("scheduler.pattern", "sequential", "neighbouring blocks")
        stated.write("scheduler.delay", delay, f"{prefix}fragment_sync_delay")
        stated.write("scheduler.mixing", mixing, f"{prefix}fragment_update_alpha")
    alone = "" if stated.get(f"{prefix}use_bucketization", False) else "Each tensor travels alone. "
    stated.notes.append(f"{alone}torchft keeps its copy on the host: state host_bandwidth.")
    if stated.get(f"{prefix}should_quantize", False):
        said = "8 bits travel; state a sparsifier such as quantised_all_reduce" if diloco else "not used by local_sgd"
        stated.notes.append(f"should_quantize: {said}.")


def _of_maxtext(stated: Stated) -> None:
    """Keys of MaxText (AI-Hypercomputer/maxtext, configs/base.yml and `DilocoParams`, 2026), with their defaults."""
    _write_mesh(stated)
    axes = {"tensor": "tensor", "context": "context", "pipeline.stages": "pipeline"}
    sizes = list[int]()
    for to, axis in axes.items():
        size = stated.get(f"dcn_{axis}_parallelism", 1) * stated.get(f"ici_{axis}_parallelism", 1)
        stated.write(f"parallelism.{to}", size if size > 1 else None)
        sizes.append(size)
    copy, (_, context, stages) = math.prod(sizes), sizes
    if stated.find("base_emb_dim", int):
        _write_layers(stated)
    stated.apply({"workload.sequence": "max_target_length"})
    stated.write("workload.precision.gradients", stated.word("weight_dtype", "float32", FORMATS_OF))
    stated.write("workload.arithmetic", stated.word("dtype", "bfloat16", FORMATS_OF))
    if stated.keys.get("quantization") == "fp8":
        stated.write("workload.arithmetic", stated.find("quantization", str))
    if stated.keys.get("remat_policy", "full") == "full":
        stated.write("workload.recompute", stated.get("remat_policy", "full"))
    stated.write_optimiser("opt_type")
    each, pieces = stated.find("per_device_batch_size", float), stated.get("num_pipeline_microbatches", -1, least=-1)
    pieces, passes = pieces if pieces > 0 else stages, stated.get("gradient_accumulation_steps", 1)
    if each is not None:
        if each * copy < 1 or each * copy % pieces:
            stated.refuse("per_device_batch_size", f"a multiple of {pieces} samples on {copy} devices")
        keys = "per_device_batch_size", "gradient_accumulation_steps"
        stated.write_batch(int(each * copy) // pieces, passes * pieces, None, None, *keys)
    if stated.get("enable_diloco", False):
        _write_diloco(stated)
        return
    stated.read("enable_streaming_diloco", "diloco_", "num_diloco_fragments", "num_communication_", "communication_")
    inside, across = stated.get("ici_fsdp_parallelism", -1, least=-1), stated.get("dcn_fsdp_parallelism", 1)
    slices = max(stated.get("num_slices", -1, least=-1), stated.get("dcn_data_parallelism", -1, least=-1))
    stated.get("ici_data_parallelism", 1, least=-1)
    shard, copies = inside * across, stated.count_copies(copy)
    if inside < 0 < slices - 1:
        if copies is None or copies % slices:
            stated.refuse("ici_fsdp_parallelism", "the number of devices beside it", "--gpus")
        shard = copies // slices * across
    shard *= context  # weights are sharded by this axis, too (logical_axis_rules of `embed`)
    stated.write("scheduler.kind", "bucketed" if shard == 1 else "fsdp", "ici_fsdp_parallelism")
    repeats = passes > 1 and stages > 1 and shard != 1
    stated.write("parallelism.pipeline.runs", passes if repeats else None, "gradient_accumulation_steps")
    why = "ici_fsdp_parallelism x dcn_fsdp_parallelism x the context axis"
    stated.write("scheduler.shard", shard if shard > 1 else None, why)
    stated.notes.append("XLA orders the collectives of MaxText; the loops of PyTorch stand for it.")


def _write_layers(stated: Stated) -> None:
    """The sizes of a model of MaxText."""
    stated.write("workload.model", "transformer")
    rows = {"layers": "base_num_decoder_layers", "hidden": "base_emb_dim", "heads": "base_num_query_heads"}
    rows |= {"kv_heads": "base_num_kv_heads", "mlp": "base_mlp_dim", "head_width": "head_dim"}
    stated.apply({f"workload.{to}": key for to, key in rows.items()} | {"workload.vocabulary": "vocab_size"})
    if stated.get("num_experts", 1) > 1:
        _write_experts(stated)
    stated.write("workload.tied", stated.get("logits_via_embedding", False))
    activations = stated.keys.get("mlp_activations", ["silu", "linear"])
    stated.write("workload.gated", isinstance(activations, list) and len(activations) == 2, "mlp_activations")
    stated.read("mlp_activations")


def _write_mesh(stated: Stated) -> None:
    """Devices of a slice, and slices, where none of the axes takes the rest (-1, also the default of these two)."""
    axes = [(key[:3], size) for key, size in stated.keys.items() if re.fullmatch(r"(dcn|ici)_\w+_parallelism", key)]
    sizes = [(kind, size) for kind, size in axes if type(size) is int and size > 0]
    if len(sizes) < len(axes) or not {"dcn_data_parallelism", "ici_fsdp_parallelism"} <= stated.keys.keys():
        return
    nodes, inside = (math.prod(size for kind, size in sizes if kind == wanted) for wanted in ("dcn", "ici"))
    if stated.gpus not in (None, nodes * inside):
        what = f"axes of {stated.gpus} devices, as --gpus has it"
        stated.refuse("dcn_data_parallelism", what, f"all axes together have {nodes * inside}")
    stated.write_cluster(nodes, inside, "dcn and ici axes")


def _write_experts(stated: Stated) -> None:
    """Experts in place of the network, as wide as it where they state no width (-1)."""
    stated.write("workload.experts", stated.get("num_experts", 1), "num_experts")
    stated.write("workload.experts_per_token", stated.get("num_experts_per_tok", 1))
    named = "base_moe_mlp_dim" if stated.get("base_moe_mlp_dim", -1, least=-1) > 0 else "base_mlp_dim"
    each, shared = stated.find(named, int), stated.get("shared_experts", 0, least=0)
    stated.write("workload.expert_mlp", each, named)
    stated.write("workload.shared_mlp", shared * each if shared and each else None, f"shared_experts, {named}")
    stated.write("workload.dense_layers", stated.find("first_num_dense_layers", int, 0) or None)
    stated.apply({"workload.experts_every": "interleave_moe_layer_step"})
    size = stated.get("dcn_expert_parallelism", 1) * stated.get("ici_expert_parallelism", 1)
    stated.write("parallelism.expert", size if size > 1 else None, "expert axes")


def _write_diloco(stated: Stated) -> None:
    """Of P fragments one every max(1, round(H/P)) steps; exchange and compute are one program."""
    steps, streaming = stated.get("diloco_sync_period", 36), stated.get("enable_streaming_diloco", False)
    stated.write("scheduler.kind", "streaming_diloco" if streaming else "diloco", "enable_diloco")
    stated.write("scheduler.inner_steps", steps, "diloco_sync_period")
    count, delay = stated.find("num_diloco_fragments", int, 2), stated.get("num_communication_overlapping_steps", 0, 0)
    if not streaming:
        return
    if count is None:
        stated.refuse("num_diloco_fragments", "a number of fragments beside enable_streaming_diloco")
    stated.write("scheduler.fragments", count, f"one every max(1, round({steps} / {count})) steps")
    stated.write("scheduler.pattern", "sequential" if stated.get("use_sequential_layers", False) else "strided")
    stated.write("scheduler.delay", delay, "num_communication_overlapping_steps")
    stated.write("scheduler.mixing", stated.get("communication_overlapping_alpha", 0.0))
    stated.write("scheduler.one_program", True, "exchange and compute are one program: a delay hides nothing")


TORCHTITAN = Format(
    "torchtitan",
    r"(parallelism|training|experimental)\.(data|tensor|pipeline|context|expert)_parallel_.*|fault_tolerance\..*|activation_checkpoint\..*"
    r"|training\.(local_batch_size|seq_len|mixed_precision_.*)|model\.flavor|model_spec",
    _of_torchtitan,
    r"(job|profiling|profiler|metrics|checkpoint|lr_scheduler|comm|validation|validator|dataloader|tokenizer)\..*"
    r"|hf_assets_path|function|model\.(name|hf_assets_path|tokenizer.*|print_after_conversion)|model_converters\.class"
    r"|training\.(dataset.*|steps|seed|gc_.*)|optimizer\.(lr|beta.|eps|weight_decay)|fault_tolerance\.process_group.*"
    r"|activation_checkpoint\.class|compile\.components|fault_tolerance\.(replica_id|group_size|min_replica_size)",
)
TORCHFT = Format("torchft", r"torchft\..*", _of_torchft, r"torchft\.(manager|model|.*optimizer|call|model_fragments)")
MAXTEXT = Format(
    "MaxText",
    r"(ici|dcn)_\w+_parallelism|enable_diloco|base_emb_dim|per_device_batch_size",
    _of_maxtext,
    r"(eval|load|checkpoint|decode|prefill|inference|tokenizer|dataset|grain|hf|compile|compiled)_.*"
    r"|(?!.*(parallelism|batch|remat|dtype|quanti[sz]|base_|head_dim|attention|mlp_|expert|dropout|scan_|fused_|offload"
    r"|pipeline|shard|clipping|window|moe|capacity|mesh|model_name|scale|hardware|accum)).*",
)
