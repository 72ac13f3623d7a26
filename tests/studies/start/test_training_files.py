# ruff: noqa: E501
"""Training configurations of other programs, small ones in their public formats."""

import json
import re
from pathlib import Path

import pytest
import yaml

from simulator.errors import InputError
from simulator.prediction.run import run
from simulator.scenario.named_parts import read_gpu, read_workload
from simulator.scenario.reading import load
from simulator.scenario.scenario import Scenario
from simulator.schedulers.streaming_diloco import StreamingDiLoCo
from simulator.studies.start.answers import Machines, NamedPart
from simulator.studies.start.draft import draft_from
from simulator.studies.start.questions import parse_network
from simulator.studies.start.training_files import read_blocks

ZERO = {"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": True}}
MEGATRON = """#!/bin/bash
GPUS_PER_NODE=8
NODES=${NODES:-2}
PARALLEL=(
    --tensor-model-parallel-size 2    # inside of nodes
    --pipeline-model-parallel-size=2
    --sequence-parallel
)
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NODES pretrain_gpt.py ${PARALLEL[@]} \\
    --num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 256 --max-position-embeddings 256 \\
    --micro-batch-size 1 --global-batch-size $((4 * $GPUS_PER_NODE)) --vocab-size 1000 --bf16 --lr 1e-4 \\
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
"""
TITAN = """[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 2
seq_len = 1024
[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = 8
[activation_checkpoint]
mode = "full"
"""
REGISTRY = """
def llama3_8b():
    raise SystemExit("this is never run")
    return Trainer.Config(
        model_spec=model_registry("8B"),
        optimizer=OptimizersContainer.Config(lr=3e-4),
        training=TrainingConfig(local_batch_size=2, seq_len=1024),
        parallelism=ParallelismConfig(data_parallel_replicate_degree=2, data_parallel_shard_degree=8),
        activation_checkpoint=ActivationCheckpointConfig(mode="full"),
    )
def llama3_8b_float8():
    config = llama3_8b()
    config.training.seq_len = 512
    config.model_converters = ModelConvertersContainer.Config(
        converters=[Float8LinearConverter.Config(enable_fsdp_float8_all_gather=True)])
    return config
"""
ACCELERATE = """compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: bf16
num_machines: 2
num_processes: 16
fsdp_config: {fsdp_sharding_strategy: HYBRID_SHARD, fsdp_offload_params: false}
"""
MAXTEXT = """base_emb_dim: 512
base_num_decoder_layers: 8
base_num_query_heads: 8
base_num_kv_heads: 8
base_mlp_dim: 2048
vocab_size: 1000
max_target_length: 256
per_device_batch_size: 2.0
ici_fsdp_parallelism: 8
dcn_data_parallelism: -1
"""
DILOCO = '[fault_tolerance]\nenable = true\nsemi_sync_method = "diloco"\n'
MAX_DILOCO = "enable_diloco: true\nenable_streaming_diloco: true\nsteps: 1000\n"
TORCHFT = "DiLoCo(manager, [a, b], inner, outer, sync_every=20, fragment_sync_delay=5, fragment_update_alpha=0.5)"
BASE = {
    "name": "base", "versus": "none", "topology": "nccl", "sparsifier": "dense", "scheduler": "bucketed",
    "workload": {
        "model": "transformer", "layers": 8, "hidden": 512, "heads": 8, "vocabulary": 1000, "sequence": 256, "batch_size": 4
    },
    "cluster": {
        "nodes": 2, "gpus_per_node": 8, "gpu": "gpus/h100", "network": "networks/h100-10-nodes", "runtime": "runtimes/pytorch-fsdp"
    },
}  # fmt: skip


@pytest.fixture
def read(tmp_path):
    def of(text, gpus=None, name="config.txt"):
        path = tmp_path / name
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return read_blocks(path, gpus)

    return of


def values(blocks):
    return {key: value for key, (value, _) in blocks.lines.items()}


def zero(**keys):
    return ZERO | {"zero_optimization": keys}


PROGRAMS = [
    (ZERO, "DeepSpeed"),
    (MEGATRON, "Megatron-LM"),
    ("tensor_model_parallel_size: 2\nmodel: {num_layers: 8}\n", "Megatron-LM"),
    (TITAN, "torchtitan"),
    (REGISTRY.partition("def llama3_8b_float8")[0], "torchtitan"),
    (f"with {TORCHFT} as d:\n    pass\n", "torchft"),
    (ACCELERATE, "Accelerate"),
    (MAXTEXT, "MaxText"),
]


@pytest.mark.parametrize(("text", "program"), PROGRAMS)
@pytest.mark.parametrize("name", ["config.txt", "train.json", "train.toml", "train.yml", "train.py", "train.sh"])
def test_a_file_is_recognised_by_what_stands_in_it(read, text, program, name):
    assert read(text, name=name).program == program


def merged(base, more):
    if not (isinstance(base, dict) and isinstance(more, dict)):
        return more
    return base | {key: merged(base.get(key), value) for key, value in more.items()}


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        (ZERO, 16),
        (zero(stage=3, zero_quantized_gradients=True, zero_quantized_weights=True, zero_hpz_partition_size=8), 16),
        (zero(stage=0) | {"optimizer": {"type": "OneBitAdam", "params": {"freeze_step": 9}}}, 16),
        (MEGATRON, None),
        (TITAN, None),
        (ACCELERATE, None),
        (MAXTEXT, 16),
        (ACCELERATE.replace("FSDP", "DEEPSPEED") + "deepspeed_config: {zero_stage: 1}\n", None),
    ],
    ids=["zero-2", "zero++", "1-bit", "megatron", "torchtitan", "accelerate", "maxtext", "accelerate-deepspeed"],
)
def test_what_is_printed_runs_in_a_scenario(read, text, gpus):
    blocks = read(text, gpus)
    asked = merged(BASE, yaml.safe_load(blocks.text()))
    assert run(Scenario.model_validate(asked), intervals=False).result.iteration_time > 0
    stated = {key: value for key, value in values(blocks).items() if key.startswith("scheduler.")}
    assert stated.items() <= {f"scheduler.{key}": each for key, each in asked["scheduler"].items()}.items()
    gpu, model = NamedPart("gpus/h200", read_gpu("gpus/h200")), NamedPart("gpt2", read_workload("gpt2"))
    machines = Machines(gpu, 8, parse_network("--network", "8 x 400 Gbit/s"))
    whole = yaml.safe_load(draft_from(blocks, Path("mine.yaml"), machines, gpus or 16, model).files[Path("mine.yaml")])
    assert {key: whole[key] for key in blocks.parts} == {key: asked[key] for key in blocks.parts}
    assert whole["workload"].items() >= yaml.safe_load(blocks.text()).get("workload", {}).items()
    made = load(whole)
    assert made.cluster.workers == 16 and made.cluster.gpu == gpu.read and made.cluster.network.nics_per_node == 8
    assert (made.cluster.runtime.element_wise == "compiled") == ("element_wise: compiled" in blocks.text())


CASES = {
    "ZeRO-1 has buckets of 5e8 and no overlap": (
        zero(stage=1), {"scheduler.bucket": 500_000_000, "scheduler.overlap_comm": False, "scheduler.stage": 1}),
    "sizes may be floats": (zero(stage=2, reduce_bucket_size=5e7, overlap_comm=True), {
        "scheduler.bucket": 50_000_000, "scheduler.overlap_comm": True}),
    "LoCo is qgZ with error feedback": (
        zero(stage=3, zero_quantized_gradients=True, zeropp_loco_param={"err_beta": 0.8}), {"scheduler.reduce_wire": "loco"}),
    "MiCS is sharded in groups": (zero(stage=3, mics_shard_size=4), {"scheduler.kind": "fsdp", "scheduler.shard": 4}),
    "accumulation follows from the whole batch": (ZERO | {"train_batch_size": 96}, {
        "workload.batch_size": 6, "workload.micro_batches": 3}),
    "gradients travel as stated": (ZERO | {"communication_data_type": "fp32"}, {"workload.precision.travels": "fp32"}),
    "a batch of Megatron is that of a copy": (MEGATRON, {
        "workload.batch_size": 8, "workload.micro_batches": 8, "parallelism.tensor": 2, "parallelism.pipeline.stages": 2,
        "parallelism.sequence_parallel": True, "cluster.nodes": 2, "workload.vocabulary": 1024,
        "workload.precision.travels": "fp32", "scheduler.bucket": None, "workload.positions": 256}),
    "virtual stages are chunks": (MEGATRON + " --num-layers-per-virtual-pipeline-stage 2", {"parallelism.pipeline.chunks": 2}),
    "collectives beside products": (MEGATRON + " --tp-comm-overlap", {"parallelism.overlap": True}),
    "instances are replicas": (MEGATRON + " --num-distributed-optimizer-instances 2", {"scheduler.shard": 2}),
    "kernels of their own add gradients": (MEGATRON + " --no-gradient-accumulation-fusion", {
        "scheduler.fused_accumulation": False}),
    "reductions in bf16": (MEGATRON + " --grad-reduce-in-bf16 --fp8-format hybrid --fp8-param-gather", {
        "workload.precision.gradients": "bf16", "workload.arithmetic": "fp8", "scheduler.gather_wire": "fp8"}),
    "without distributed optimiser states are whole, and nothing overlaps": (
        "--tensor-model-parallel-size 1 --micro-batch-size 2\n",
        {"scheduler.shard": 1, "scheduler.overlap_grad_reduce": False, "scheduler.bucket": None}),
    "HSDP in fp32": (TITAN, {
        "scheduler.kind": "fsdp", "scheduler.shard": 8, "workload.precision.gradients": "bf16", "workload.layers": 32,
        "workload.precision.travels": "fp32", "workload.recompute": "full", "workload.batch_size": 2}),
    "leftover GPUs share the model": (TITAN.replace("shard_degree = 8", "shard_degree = -1"), {"scheduler.shard": 8}),
    "one share is DDP": (TITAN.replace("shard_degree = 8", "shard_degree = 1").replace("= 2\ndata", "= 16\ndata"), {
        "scheduler.kind": "bucketed", "workload.arithmetic": "bf16"}),
    "older files of torchtitan have degrees elsewhere": (
        "[training]\ntensor_parallel_degree = 2\n[experimental]\ncontext_parallel_degree = 4\n",
        {"parallelism.tensor": 2, "parallelism.context": 4, "scheduler.kind": "fsdp"}),
    "asynchronous tensor parallelism": (
        TITAN.replace("replicate_degree = 2", "replicate_degree = 1").replace("[parallelism]", "[parallelism]\ntensor_parallel_degree = 2\nenable_async_tensor_parallel = true"),
        {"parallelism.overlap": True}),
    "a reduction in 16 bits": (TITAN.replace("seq_len", 'mixed_precision_reduce = "bfloat16"\nseq_len'), {
        "workload.precision.travels": "bf16"}),
    "Accelerate's hybrid is a copy in a machine": (ACCELERATE, {
        "scheduler.shard": 8, "scheduler.keep": "none", "scheduler.flat": True, "cluster.nodes": 2}),
    "FSDP 2 of Accelerate": (ACCELERATE.replace(
        "fsdp_sharding_strategy: HYBRID_SHARD", "fsdp_version: 2, fsdp_reshard_after_forward: false"), {
        "scheduler.keep": "forward", "scheduler.flat": False}),
    "DDP of Accelerate": (ACCELERATE.replace("FSDP", "MULTI_GPU").replace("num_machines: 2\n", ""), {
        "scheduler.kind": "bucketed", "workload.arithmetic": "bf16", "cluster.nodes": 1, "cluster.gpus_per_node": 16}),
    "Megatron of Accelerate": (
        "distributed_type: MEGATRON_LM\nmegatron_lm_config: {megatron_lm_tp_degree: 2, megatron_lm_pp_degree: 4}\n",
        {"parallelism.tensor": 2, "parallelism.pipeline.stages": 4, "scheduler.shard": 1}),
    "axes of MaxText multiply": (MAXTEXT + "ici_tensor_parallelism: 2\n", {
        "parallelism.tensor": 2, "scheduler.shard": 8, "workload.batch_size": 4, "workload.arithmetic": "bf16"}),
    "every size of Megatron's model": (MEGATRON.replace("--vocab-size 1000", "--vocab-size 1025") + " --make-vocab-size-divisible-by 8 --num-query-groups 4 --kv-channels 96 --swiglu --normalization RMSNorm --use-rotary-position-embeddings --disable-bias-linear --add-qkv-bias --untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0 --attention-backend flash --recompute-granularity full --ddp-bucket-size 7000000 --num-experts 4 --moe-ffn-hidden-size 64 --moe-shared-expert-intermediate-size 32 --moe-router-topk 3", {
        "workload.layers": 8, "workload.hidden": 512, "workload.heads": 8, "workload.sequence": 256, "workload.vocabulary": 1040, "workload.kv_heads": 4, "workload.head_width": 96, "workload.gated": True, "workload.mlp": 1344, "workload.norm": "rms", "workload.positions": 0, "workload.biases": "qkv", "workload.tied": False, "workload.dropout": False, "workload.attention": "fused", "workload.recompute": "full", "scheduler.bucket": 7_000_000,
        "workload.experts": 4, "workload.expert_mlp": 64, "workload.shared_mlp": 32, "workload.experts_per_token": 3, "scheduler.overlap_param_gather": True, "scheduler.overlap_grad_reduce": True, "scheduler.shard": None, "parallelism.overlap": None}),
    "what Megatron takes where nothing is stated": ("--tensor-model-parallel-size 1 --num-layers 8 --hidden-size 512 --micro-batch-size 2 --vocab-size 1000", {
        "workload.mlp": 2048, "workload.gated": False, "workload.norm": "layer", "workload.biases": "all", "workload.tied": True, "workload.dropout": True, "workload.attention": None, "workload.recompute": "none", "workload.vocabulary": 1024, "workload.precision.gradients": "fp32", "workload.precision.travels": None, "workload.arithmetic": None, "parallelism.sequence_parallel": None, "parallelism.pipeline.chunks": None, "workload.batch_size": 2, "workload.micro_batches": 1, "scheduler.overlap_param_gather": False, "scheduler.fused_accumulation": None, "scheduler.gather_wire": None}),
    "what Megatron is told otherwise": ("--micro-batch-size 1 --overlap-grad-reduce --bf16 --accumulate-allreduce-grads-in-fp32 --recompute-activations --swiglu --hidden-dropout 0 --num-layers 4 --hidden-size 16 --ffn-hidden-size 48 --use-flash-attn --no-rope-fusion", {
        "scheduler.bucket": None, "workload.recompute": "selective", "workload.mlp": 48, "workload.dropout": True, "workload.attention": "fused"}),
    "NeMo states machines and formats otherwise": ("tensor_model_parallel_size: 2\nnum_nodes: 4\ndevices: 4\nprecision: bf16-mixed\nmicro_batch_size: 3\nnum_micro_batches: 5\nnum_virtual_stages_per_pipeline_rank: 3\npipeline_model_parallel_size: 2\nuse_torch_fsdp2: true\n", {
        "cluster.nodes": 4, "cluster.gpus_per_node": 4, "parallelism.pipeline.chunks": 3, "workload.precision.gradients": "bf16", "workload.batch_size": 15, "workload.micro_batches": 5, "scheduler.kind": "fsdp", "parallelism.sequence_parallel": False}),
    "without ZeRO buckets are 5e8 elements of the format": (zero(stage=0), {"scheduler.kind": "sequential", "scheduler.bucket_size": "1000000000 B", "workload.precision.gradients": "bf16"}),
    "fp32 without ZeRO": ({"train_batch_size": 96, "gradient_accumulation_steps": 2}, {"scheduler.bucket_size": "2000000000 B", "workload.precision.gradients": "fp32", "workload.batch_size": 6, "workload.micro_batches": 2, "parallelism.tensor": None}),
    "stages and tensor parallelism of DeepSpeed": (zero(stage=1) | {"pipeline": {"stages": 2}, "tensor_parallel": {"autotp_size": 4}, "train_batch_size": 64}, {
        "parallelism.pipeline.stages": 2, "parallelism.tensor": 4, "workload.batch_size": 32, "workload.micro_batches": 16, "scheduler.kind": "zero"}),
    "hpZ keeps a copy in a node": (zero(stage=3, zero_hpz_partition_size=2, zero_quantized_gradients=True, zero_quantized_weights=True), {"scheduler.keep": "node", "scheduler.reduce_wire": "qgz", "scheduler.gather_wire": "int8", "scheduler.shard": None}),
    "plain ZeRO-3": (zero(stage=3, zero_hpz_partition_size=1), {"scheduler.kind": "fsdp", "scheduler.keep": None, "scheduler.reduce_wire": None, "scheduler.gather_wire": None, "scheduler.stage": None}),
    "the largest Llama 3 of torchtitan": (TITAN.replace("8B", "405B").replace("[model]", "[compile]\nenable = true\n[optimizer]\nname = \"Adam\"\nimplementation = \"foreach\"\n[model]").replace("seq_len", 'global_batch_size = 64\ndtype = "bfloat16"\nseq_len').replace("[activation", 'fsdp_reshard_after_forward = "never"\n[activation'), {
        "workload.layers": 126, "workload.hidden": 16384, "workload.heads": 128, "workload.mlp": 53248, "workload.kv_heads": 8, "workload.vocabulary": 128256, "workload.gated": True, "workload.sequence": 1024, "workload.batch_size": 4, "workload.micro_batches": 2, "workload.optimiser.implementation": "foreach", "workload.precision.master_weights": False, "workload.arithmetic": None, "scheduler.keep": "forward"}),
    "torchtitan shards over what shares tokens, too": (TITAN.replace("shard_degree = 8", "shard_degree = 2\ncontext_parallel_degree = 4"), {"parallelism.context": 4, "scheduler.shard": 8}),
    "what torchtitan takes where nothing is stated": ("[parallelism]\ntensor_parallel_degree = 4\n", {
        "workload.batch_size": 8, "workload.micro_batches": 1, "workload.sequence": 2048, "workload.recompute": "operators", "parallelism.sequence_parallel": True, "parallelism.overlap": None, "parallelism.pipeline.chunks": None, "scheduler.kind": "fsdp", "scheduler.shard": None, "scheduler.keep": "none", "workload.precision.master_weights": None, "workload.optimiser.implementation": "fused"}),
    "micro-batches of stages of torchtitan": ("[training]\nlocal_batch_size = 8\n[parallelism]\npipeline_parallel_degree = 4\npipeline_parallel_microbatch_size = 4\n", {
        "workload.batch_size": 8, "workload.micro_batches": 2, "parallelism.pipeline.runs": None, "parallelism.pipeline.schedule": "1f1b", "parallelism.pipeline.chunks": 1, "parallelism.sequence_parallel": None, "scheduler.keep": "forward"}),
    "stages of torchtitan that fill in each local batch": (TITAN.replace("local_batch_size = 2", "global_batch_size = 48\nlocal_batch_size = 4").replace("replicate_degree = 2", "replicate_degree = 1\npipeline_parallel_degree = 4").replace("shard_degree = 8", "shard_degree = 4"), {
        "workload.batch_size": 12, "workload.micro_batches": 12, "parallelism.pipeline.runs": 3}),
    "older files of torchtitan cut a local batch into as many as there are stages": ("[training]\nbatch_size = 8\n[experimental]\npipeline_parallel_degree = 2\n", {"workload.batch_size": 8, "workload.micro_batches": 2}),
    "or into as many as they say": ("[training]\nbatch_size = 8\n[experimental]\npipeline_parallel_degree = 2\npipeline_parallel_microbatches = 4\n", {"workload.micro_batches": 4}),
    "DDP of torchtitan in fp8": (TITAN.replace("shard_degree = 8", "shard_degree = 1").replace("= 2\ndata", "= 16\ndata").replace("[model]", '[model]\nconverters = ["float8"]'), {"scheduler.bucket_size": "104857600 B", "workload.arithmetic": "fp8", "workload.precision.travels": None}),
    "FSDP of Accelerate in steps": (ACCELERATE.replace("HYBRID_SHARD", "SHARD_GRAD_OP").replace("fsdp_offload", "fsdp_activation_checkpointing: true, fsdp_offload") + "gradient_accumulation_steps: 4\nparallelism_config: {parallelism_config_tp_size: 2, parallelism_config_cp_size: 4, parallelism_config_dp_shard_size: 3, parallelism_config_dp_replicate_size: 2}\n", {
        "scheduler.keep": "forward", "scheduler.accumulate": "none", "workload.micro_batches": 4, "workload.recompute": "full", "parallelism.tensor": 2, "parallelism.context": 4, "scheduler.shard": 12, "cluster.nodes": 2, "cluster.gpus_per_node": 8, "workload.precision.gradients": "bf16"}),
    "FSDP of Accelerate that gathers all": (ACCELERATE.replace("HYBRID_SHARD", "FULL_SHARD").replace("bf16", "fp8"), {"scheduler.keep": "none", "scheduler.shard": None, "scheduler.accumulate": None, "workload.recompute": None, "workload.precision.gradients": "bf16"}),
    "FSDP of Accelerate that shards nothing": (ACCELERATE.replace("HYBRID_SHARD", "NO_SHARD").replace("bf16", "'no'").replace("16", "14"), {"scheduler.kind": "bucketed", "scheduler.keep": None, "workload.precision.gradients": "fp32", "cluster.nodes": None}),
    "FSDP of Accelerate with gradients shared in a machine": (ACCELERATE.replace("HYBRID_SHARD", "HYBRID_SHARD_ZERO2"), {"scheduler.keep": "forward", "scheduler.shard": 8}),
    "every size of MaxText's model": (MAXTEXT.replace("kv_heads: 8", "kv_heads: 2").replace("fsdp_parallelism: 8", "fsdp_parallelism: 2").replace("data_parallelism: -1", "data_parallelism: 2") + "head_dim: 96\nlogits_via_embedding: true\nmlp_activations: [gelu]\nweight_dtype: bfloat16\ndtype: float32\nquantization: fp8\nremat_policy: full\nici_pipeline_parallelism: 2\ndcn_context_parallelism: 2\nnum_pipeline_microbatches: 4\ngradient_accumulation_steps: 3\n", {
        "workload.layers": 8, "workload.hidden": 512, "workload.heads": 8, "workload.kv_heads": 2, "workload.mlp": 2048, "workload.head_width": 96, "workload.vocabulary": 1000, "workload.tied": True, "workload.gated": False, "workload.sequence": 256, "workload.precision.gradients": "bf16", "workload.arithmetic": "fp8", "workload.recompute": "full", "parallelism.pipeline.stages": 2, "parallelism.context": 2, "parallelism.tensor": None, "workload.batch_size": 24, "workload.micro_batches": 12, "parallelism.pipeline.runs": 3, "scheduler.shard": 4, "cluster.nodes": 4, "cluster.gpus_per_node": 4}),
    "MaxText shards what is left in each slice": ("per_device_batch_size: 1\nici_fsdp_parallelism: -1\ndcn_data_parallelism: 2\ndcn_fsdp_parallelism: 2\n", {"scheduler.kind": "fsdp", "scheduler.shard": 16, "workload.precision.gradients": "fp32", "workload.arithmetic": "bf16", "workload.recompute": "full", "workload.micro_batches": 1}),
    "MaxText without shards": ("per_device_batch_size: 1\nici_fsdp_parallelism: 1\n", {"scheduler.kind": "bucketed", "scheduler.shard": None}),
    "DiLoCo of MaxText": (MAX_DILOCO + "num_diloco_fragments: 4\nuse_sequential_layers: true\ncommunication_overlapping_alpha: 0.5\nnum_communication_overlapping_steps: 3\n", {
        "scheduler.kind": "streaming_diloco", "scheduler.inner_steps": 36, "scheduler.fragments": 4, "scheduler.pattern": "sequential", "scheduler.mixing": 0.5, "scheduler.delay": 3, "scheduler.one_program": True}),
    "buckets of torchft": (f"{TORCHFT[:-1]}, use_bucketization=True, bucket_cap_mb=2)", {"scheduler.bucket_size": "2097152 B", "scheduler.kind": "streaming_diloco", "scheduler.pattern": "sequential"}),
    "a size of 0 shares no tensors out, and one stage is none": (zero(stage=2) | {"tensor_parallel": {"autotp_size": 0}, "pipeline": {"stages": 1}}, {
        "parallelism.tensor": None, "parallelism.pipeline.stages": 1, "workload.batch_size": 2}),
    "Megatron in fp16 reduces in fp16 unless it is asked not to": ("--fp16 --micro-batch-size 1 --num-layers 2 --hidden-size 16 --swiglu --position-embedding-type rope --max-position-embeddings 9 --use-megatron-fsdp", {
        "workload.precision.gradients": "fp16", "workload.precision.travels": None, "workload.mlp": 64, "workload.positions": 0, "scheduler.kind": "fsdp", "scheduler.bucket": None}),
    "NeMo in fp16 accumulates in fp32 where it says so": ("micro_batch_size: 1\nprecision: 16-mixed\naccumulate_allreduce_grads_in_fp32: true\nfp8: hybrid\n", {
        "workload.precision.gradients": "fp16", "workload.precision.travels": "fp32", "workload.arithmetic": "fp8"}),
    "DeepSpeed of Accelerate": (ACCELERATE.replace("FSDP", "DEEPSPEED") + "deepspeed_config: {zero_stage: 1, gradient_accumulation_steps: 3, offload_param_device: none}\n", {
        "workload.precision.gradients": "bf16", "scheduler.stage": 1, "workload.micro_batches": 3, "cluster.nodes": 2}),
    "nothing is recomputed where the file says none": (TITAN.replace('"full"', '"none"'), {"workload.recompute": "none"}),
    "operators are recomputed where the file says so": (TITAN.replace('"full"', '"selective"\nselective_ac_option = "op"'), {"workload.recompute": "operators"}),
    "fragments of torchtitan are counted where they are listed": (DILOCO + 'sync_steps = 12\nfragment_sync_delay = 0\nmodule_fqns_per_model_fragment = [["a"], ["b"], ["c"]]\n', {
        "scheduler.kind": "streaming_diloco", "scheduler.fragments": 3, "scheduler.inner_steps": 12}),
    "local SGD of torchtitan": (DILOCO.replace("diloco", "local_sgd") + "sync_steps = 7\n", {"scheduler.kind": "local_sgd", "scheduler.inner_steps": 7}),
    "without fault tolerance its settings say nothing": (DILOCO.replace("true", "false") + "sync_steps = 7\n", {"scheduler.kind": "fsdp", "scheduler.inner_steps": None}),
    "slices of MaxText without shards between them": (MAXTEXT.replace("ici_fsdp_parallelism: 8\ndcn_data_parallelism: -1", "num_slices: 2"), {"scheduler.shard": 8, "scheduler.kind": "fsdp"}),
    "local SGD of torchft": ("LocalSGD(manager, model, optimizer, sync_every=7)", {"scheduler.kind": "local_sgd", "scheduler.inner_steps": 7, "scheduler.fragments": None, "scheduler.bucket_size": None}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_keys_become_those_of_a_scenario(read, case):
    text, expected = CASES[case]
    found = values(read(text, 16))
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (zero(stage=3, stage3_max_live_parameters=1e9, reduce_scatter=False) | {"gradient_clipping": 1.0}, (
            "zero_optimization.stage3_max_live_parameters", "zero_optimization.reduce_scatter", "gradient_clipping")),
        (zero(stage=2, allgather_bucket_size=1e6), ("zero_optimization.allgather_bucket_size",)),
        ("export NCCL_ALGO=Ring\n" + MEGATRON + " --defer-embedding-wgrad-compute --num-layers-at-start 3", (
            "NCCL_ALGO", "defer_embedding_wgrad_compute", "num_layers_at_start")),
        (TITAN + '[compile]\nbackend = "x"\n[parallelism.unheard_of]\na = 1\n', ("compile.backend", "parallelism.unheard_of.a")),
        (ACCELERATE.replace("fsdp_offload_params: false", "fsdp_auto_wrap_policy: SIZE_BASED_WRAP") + "use_cpu: true\n"
         "dynamo_config: {dynamo_backend: INDUCTOR}\n", (
            "fsdp_config.fsdp_auto_wrap_policy", "use_cpu", "dynamo_config.dynamo_backend")),
        (MEGATRON + "--data-parallel-sharding-strategy optim --distributed-backend gloo\n", (
            "data_parallel_sharding_strategy", "distributed_backend")),
        (MAXTEXT + "remat_policy: minimal\nici_sequence_parallelism: 2\n", ("remat_policy", "ici_sequence_parallelism")),
        (f"{TORCHFT[:-1]}, backup_device=gpu)", ("torchft.backup_device",)),
        (TITAN.replace('"full"', '"selective"\nselective_ac_option = "2"'), ("activation_checkpoint.selective_ac_option",)),
        (REGISTRY.partition("def llama3_8b_f")[0].replace("OptimizersContainer", "InBackward"), ("optimizer.class",)),
    ],
    ids=range(10),
)  # fmt: skip
def test_what_is_not_read_is_named(read, text, keys):
    (note,) = [note for note in read(text).notes if note.startswith("Not read")]
    assert set(keys) <= set(note.removesuffix(".").partition(": ")[2].split(", "))


def test_a_setting_that_keeps_its_default_is_not_named(read):
    keys = dict(contiguous_gradients=True, reduce_scatter=True, allgather_bucket_size=5e8, reduce_bucket_size=5e8)
    assert read(zero(stage=2, **keys, zero_quantized_weights=False, round_robin_gradients=False)).notes == ()
    assert read(zero(stage=3, overlap_comm=True, allgather_partitions=True)).notes == ()
    options = " --recompute-method uniform --recompute-num-layers 1 --recompute-modules core_attn --distributed-backend nccl --transformer-impl transformer_engine"
    megatron = read(MEGATRON.rstrip("\n") + options)
    assert megatron.notes == () and "element_wise: compiled" in megatron.text()
    prefetch = "fsdp_backward_prefetch: BACKWARD_PRE, fsdp_forward_prefetch: false, fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP"
    (sizes,) = read(ACCELERATE.replace("fsdp_offload_params: false", prefetch) + "use_cpu: false\ndebug: false\n").notes
    assert "batch_size stands in the training script" in sizes
    assert read(TITAN.replace("[training]", "[optimizer]\nearly_step_in_backward = false\n[training]")).notes == ()


def test_what_a_scenario_cannot_say_is_noted(read):
    for text, part in (
        (zero(stage=3, zero_hpz_partition_size=4), "state nodes of 4 GPUs"),
        (zero(stage=0) | {"optimizer": {"type": "OneBitAdam"}}, "Its first 100000 iterations"),
        (f"{TORCHFT[:-1]}, should_quantize=True)", "should_quantize: 8 bits travel"),
        (
            "LocalSGD(manager, model, optimizer, sync_every=7, should_quantize=True)",
            "should_quantize: not used by local_sgd",
        ),
        (TORCHFT, "Each tensor travels alone."),
        (TITAN.replace("8B", "9B"), "Sizes of the model (llama3 9B)"),
        (TITAN + "[compile]\nenable = true\n", "The model is compiled"),
        (DILOCO + "[training]\nseq_len = 8\n", "A replica of several GPUs runs FSDP within it"),
        (MEGATRON.replace("--vocab-size 1000", ""), "vocabulary: the file leaves it to the tokenizer"),
        (MAXTEXT, "XLA orders the collectives"),
    ):
        assert part in " ".join(read(text, 16).text().replace("\n#  ", "").split()), part


def test_automatic_values_are_named_and_not_invented(read):
    blocks = read(zero(stage=3) | {"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}})
    assert any("bf16.enabled (auto), train_micro_batch_size_per_gpu (auto)" in note for note in blocks.notes)
    assert not any(key.startswith("workload.batch") or "precision" in key for key in blocks.lines)


@pytest.mark.parametrize(
    ("old", "new", "named", "left_out"),
    [
        ("$((4 * $GPUS_PER_NODE))", "$GBS", "global_batch_size ($GBS)", ("workload.batch_size",)),
        ("--global", "\n--global-batch-size 64\n--global", "global_batch_size", ("workload.batch_size",)),
        ("size 2", "size $TP", "tensor_model_parallel_size ($TP)", ("parallelism.tensor", "workload.vocabulary")),
        ("--bf16", "--recompute-granularity $R", "recompute_granularity ($R)", ("workload.recompute",)),
        ("--bf16", "--ffn-hidden-size $F", "ffn_hidden_size ($F)", ("workload.mlp",)),
    ],
)
def test_what_follows_from_a_value_that_is_not_known_is_left_out(read, old, new, named, left_out):
    assert old in MEGATRON
    blocks = read(MEGATRON.replace(old, new))
    assert any("Known only when the job starts" in note and named in note for note in blocks.notes)
    assert blocks.lines.keys().isdisjoint(left_out)
    batch_is_known = new.startswith("--")
    assert ("workload.micro_batches" in blocks.lines) == ("workload.batch_size" in blocks.lines) == batch_is_known


def test_other_gpus_than_those_of_the_file_fill_machines_of_its_size(read):
    lines = read(ACCELERATE, 32).lines
    assert (lines["cluster.nodes"][0], lines["cluster.gpus_per_node"][0]) == (4, 8)
    with pytest.raises(InputError, match="for copies in nodes, got 16: the 12 of --gpus fill no machines"):
        read(ACCELERATE, 12)
    with pytest.raises(InputError, match="num_processes: expected a multiple of the 3 machines, got 16"):
        read(ACCELERATE.replace("machines: 2", "machines: 3"))


def test_axes_of_maxtext_that_are_all_stated_fix_the_devices(read):
    mesh = MAXTEXT.replace("parallelism: -1", "parallelism: 4")
    lines = read(mesh).lines
    assert (lines["cluster.nodes"][0], lines["cluster.gpus_per_node"][0]) == (4, 8)
    assert read(mesh, 32).lines == lines
    with pytest.raises(InputError, match="dcn_data_parallelism: expected axes of 64 devices, as --gpus has it"):
        read(mesh, 64)


def test_experts_of_maxtext(read):
    moe = read(MAXTEXT + "num_experts: 8\nnum_experts_per_tok: 2\nbase_moe_mlp_dim: 1024\nshared_experts: 2\n", 8)
    kept = {key: value for key, (value, _) in moe.lines.items() if "expert" in key or "shared" in key}
    sizes = {"experts": 8, "experts_per_token": 2, "expert_mlp": 1024, "shared_mlp": 2048}
    assert kept == {f"workload.{key}": size for key, size in sizes.items()}
    (same,) = (each for key, (each, _) in read(MAXTEXT + "num_experts: 8\n", 8).lines.items() if "expert_mlp" in key)
    assert same == 2048  # base_mlp_dim


def test_of_one_option_given_twice_in_a_command_the_last_counts(read):
    twice = read(MEGATRON.replace("--micro-batch-size 1", "--micro-batch-size 2 --micro-batch-size 1"))
    assert twice.lines == read(MEGATRON).lines


def test_the_number_of_gpus_is_asked_for(read):
    blocks = read("--micro-batch-size 1 --global-batch-size 64 --tensor-model-parallel-size 4")
    assert "workload.batch_size" not in blocks.lines and "the number of GPUs (--gpus)" in blocks.text()


def test_values_and_options_in_branches_are_named(read):
    branches = "if [ $X = 1 ]; then\nTP=4\nA='--fp8-format hybrid'\nelse\nTP=8\nfi\n"
    blocks = read(branches + MEGATRON.replace("parallel-size 2", "parallel-size $TP"))
    assert any("tensor_model_parallel_size ($TP)" in note for note in blocks.notes)
    assert any("in branches of the script: fp8_format" in note for note in blocks.notes)


def test_comments_name_the_key_that_each_line_comes_from(read):
    lines = dict(line.split("#") for line in read(zero(stage=2, overlap_comm=True)).text().splitlines() if ": " in line)
    said = {key.strip(): why.strip() for key, why in lines.items()}
    assert said["overlap_comm: true"] == "zero_optimization.overlap_comm"
    assert said["bucket: 500000000"] == "default of zero_optimization.reduce_bucket_size"
    assert read(ACCELERATE).lines["workload.precision.gradients"] == ("bf16", "mixed_precision")


@pytest.mark.parametrize(("beside", "bucket"), [(" --overlap-grad-reduce", 7), ("", None)])
def test_a_bucket_of_megatron_is_one_for_reductions_beside_compute(read, beside, bucket):
    made = values(read("--micro-batch-size 1 --ddp-bucket-size 7" + beside))
    assert made.get("scheduler.bucket") == bucket


def test_one_function_of_several_is_named(read, tmp_path):
    with pytest.raises(InputError, match=r"one of its configurations: llama3_8b, llama3_8b_float8.*write r\.py:NAME"):
        read(REGISTRY, name="r.py")
    found = values(read_blocks(tmp_path / "r.py:llama3_8b_float8"))
    assert found | {"workload.sequence": 512, "workload.arithmetic": "fp8", "scheduler.gather_wire": "fp8"} == found
    assert values(read_blocks(tmp_path / "r.py:llama3_8b")) == values(read(TITAN))


def test_experts_and_their_axis(read):
    """Megatron states the model, torchtitan the axis and a schedule that goes there and back."""
    blocks = read(MEGATRON.rstrip("\n") + " --num-experts 8 --moe-ffn-hidden-size 256 --expert-model-parallel-size 2\n")
    assert blocks.parts["parallelism"].expert == 2
    lines = {key: value for key, (value, _) in blocks.lines.items()}
    assert [lines[f"workload.{key}"] for key in ("experts", "expert_mlp", "experts_per_token")] == [8, 256, 2]
    pipeline = 'pipeline_parallel_degree = 2\npipeline_parallel_schedule = "ZBVZeroBubble"\n[activation'
    parallelism = read(TITAN.replace("[activation", f"expert_parallel_degree = 4\n{pipeline}")).parts["parallelism"]
    assert (parallelism.expert, parallelism.pipeline.schedule, parallelism.pipeline.chunks) == (4, "zb_v", 2)


def test_interleaved_stages_of_torchtitan(read):
    more = 'pipeline_parallel_degree = 2\npipeline_parallel_schedule = "Interleaved1F1B"\n'
    found = values(read(TITAN.replace("[activation", f"{more}[activation"), 32))
    expected = {"schedule": "1f1b", "chunks": 2, "stages": 2}
    assert {key: found[f"parallelism.pipeline.{key}"] for key in expected} == expected
    assert (found["workload.batch_size"], found["workload.micro_batches"], found["scheduler.keep"]) == (2, 2, "forward")


def test_maxtext_rounds_the_steps_between_fragments(read):
    """H = 100 and 37 fragments: one every round(100/37) = 3 steps, so that a tensor waits for 111."""
    blocks = read(MAX_DILOCO + "diloco_sync_period: 100\nnum_diloco_fragments: 37\n")
    assert blocks.parts["scheduler"].period.steps == 111 and "in 111 inner steps, not in 100" in blocks.text()


def test_a_delay_in_one_program_hides_nothing(read):
    blocks = read(MAX_DILOCO + "num_diloco_fragments: 4\nnum_communication_overlapping_steps: 2\n")
    assert blocks.parts["scheduler"].period == StreamingDiLoCo(inner_steps=36, fragments=4).period
    assert "hides nothing" in blocks.text()


def test_torchtitan_starts_an_exchange_before_its_use(read):
    """torchft divides sync_steps by the fragments: 20 and 4 give one every 5 steps; defaults are torchtitan's."""
    told = read(DILOCO + "sync_steps = 20\nnum_fragments = 4\nfragment_sync_delay = 3\n").parts["scheduler"]
    assert (told.inner_steps, told.fragments, told.delay, told.mixing) == (20, 4, 3, 0.0)
    assert yaml.safe_load(read(DILOCO).text())["scheduler"] == {"kind": "diloco", "inner_steps": 5}


def test_the_schedule_inside_of_a_site_is_that_of_the_file(read):
    found = values(read(DILOCO + "[parallelism]\ndata_parallel_shard_degree = 8\n"))
    assert (found["scheduler.kind"], found["scheduler.inside.kind"], found["scheduler.inside.shard"]) == (
        "diloco",
        "fsdp",
        8,
    )


def test_positions_and_buckets_count(read):
    blocks = read("local_sgd.DiLoCo(m, [model], inner, outer, 100, use_bucketization=True, bucket_cap_mb=32)\n")
    made = blocks.parts["scheduler"]
    assert (made.kind, made.inner_steps, made.bucket_size) == ("diloco", 100, 32 * 2**20)
    assert "travels alone" not in blocks.text()
    assert read("LocalSGD(manager, model, optimizer, 7)\n").parts["scheduler"].described()["inner_steps"] == 7


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.yml", "steps: 3\n", "a configuration of Accelerate, DeepSpeed, torchtitan, torchft, MaxText, Megatron-LM, got"),
        ("a.txt", "", "not a configuration of"),
        ("a.json", "[1]", "not a configuration of"),
        ("a.py", "x = 1\n", "not a configuration of"),
        ("a.json", "{", "well-formed JSON"),
        ("a.json", '{"a": ' * 100_000, "a.json: expected"),
        ("a.toml", "[fault_tolerance\n", "well-formed TOML"),
        ("a.toml", "a = " + "[" * 100_000, "a.toml: expected"),
        ("a.yml", "enable_diloco: !!python/name:os.system\n", "without tags"),
        ("none.yml", None, "a readable file"),
        ("a.json", zero(stage=4), "0, 1, 2 or 3, got 4"),
        ("a.json", zero(stage="two"), "zero_optimization.stage: expected a whole number, got 'two'"),
        ("a.json", zero(stage=3, offload_optimizer={"device": "cpu"}), "not modelled: states, gradients or activations"),
        ("a.json", zero(stage=1) | {"optimizer": {"type": "OneBitAdam"}}, "another optimiser with ZeRO"),
        ("a.json", zero(stage=2) | {"pipeline": {"stages": 4}}, "1 with ZeRO-2 and ZeRO-3"),
        ("a.json", ZERO | {"train_batch_size": 3}, "got 3"),
        ("a.json", zero(stage=1, reduce_bucket_size=0), "at least 1, got 0"),
        ("a.json", zero(stage=1, reduce_bucket_size=10**250), "at most 1000000000000"),
        ("a.toml", TITAN + "[training.x]\n[fault_tolerance]\nenable = 3\n", "enable: expected true or false"),
        ("a.toml", TITAN.replace("shard_degree = 8", "shard_degree = 3"), "16 copies with replicas"),
        ("a.toml", TITAN.replace("replicate_degree = 2", 'replicate_degree = 1\npipeline_parallel_degree = 2\n'
            'pipeline_parallel_schedule = "DualPipeV"'), "one of 1f1b, interleaved1f1b, gpipe, zbvzerobubble, got 'DualPipeV'"),
        *(("a.toml", f"[training]\nlocal_batch_size = 3\n[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_microbatch_size = {size}\n",
            f"pipeline_parallel_microbatch_size: expected equal micro-batches of the 3 samples of a local batch, got {size}") for size in (2, 8)),
        ("a.toml", "[training]\nlocal_batch_size = 2\nglobal_batch_size = 24\n[parallelism]\npipeline_parallel_degree = 2\n",
            "a multiple of the local batches of 8 copies, 2 samples each, got 24"),
        ("a.sh", MEGATRON.replace("--overlap-grad-reduce", ""), "overlap_grad_reduce and use_distributed_optimizer"),
        ("a.sh", MEGATRON + "--num-layers-per-virtual-pipeline-stage 8\n", "a part of 8 layers on 2 stages"),
        ("a.sh", MEGATRON + "--context-parallel-size 3\n", "GPUs that 12 divides, as copies have so many, got 16"),
        ("a.yml", ACCELERATE.replace("FSDP", "XLA"), "distributed_type: expected one of fsdp, deepspeed"),
        ("a.yml", "distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: z.json}\n",
            "deepspeed_config.deepspeed_config_file: expected settings in place, got 'z.json': read that file"),
        ("a.yml", ACCELERATE.replace("HYBRID_SHARD", "SOMETHING"), "one of full_shard"),
        ("a.yml", MAXTEXT + "num_slices: 2\nici_fsdp_parallelism: 4\n", "each key once"),
        ("a.toml", DILOCO + "sync_steps = 10\nnum_fragments = 4\n", "a multiple of the 4 fragments, got 10"),
        ("a.toml", DILOCO + "sync_steps = 8\nnum_fragments = 4\nfragment_sync_delay = 2\n", "below 2, H/P, got 2"),
        ("a.toml", DILOCO + 'sync_steps = "8"\n', "fault_tolerance.sync_steps: expected a whole number"),
        ("a.sh", MEGATRON + "--num-distributed-optimizer-instances 3\n", "a part of the copies, got 3"),
        ("a.sh", MEGATRON.replace("--use-distributed-optimizer", ""), "use_distributed_optimizer beside it"),
        ("a.yml", ACCELERATE.replace("num_processes: 16\n", ""), "num_processes: expected the number of GPUs, for copies in nodes"),
        ("a.yml", ACCELERATE.replace("FSDP", "DEEPSPEED") + "deepspeed_config: {offload_optimizer_device: cpu}\n",
            "deepspeed_config.offload_optimizer_device: expected a setting that is modelled"),
        ("a.toml", TITAN.replace("shard_degree = 8", "shard_degree = -1").replace("replicate_degree = 2", "replicate_degree = 3"), "a part of the copies"),
        ("a.yml", MAXTEXT.replace("2.0", "0.5"), "a multiple of 1 samples on 1 devices"),
        ("a.yml", MAXTEXT + "num_pipeline_microbatches: 3\n", "a multiple of 3 samples on 1 devices"),
        ("a.yml", MAXTEXT.replace("ici_fsdp_parallelism: 8\ndcn_data_parallelism: -1", "num_slices: 3"), "the number of devices beside it"),
        ("a.toml", TITAN.replace('"full"', '"banana"'), "activation_checkpoint.mode: expected one of none, full"),
        ("a.yml", MAX_DILOCO, "num_diloco_fragments: expected a number of fragments"),
        ("a.yml", MAX_DILOCO + "diloco_sync_period: 0\n", "a.yml:4:1: diloco_sync_period: expected at least 1"),
        ("a.yml", MAX_DILOCO + "num_diloco_fragments: 2\ndiloco_sync_period: 10000000\n", "inner_steps: expected at most 1000000"),
        ("a.py", "LocalSGD(m, n, o, 3)\nLocalSGD(m, n, o, 4)\n", "got 2 in lines 1, 2"),
        ("a.py", "LocalSGD(m, n, o, steps)\n", "a.py:1:1: torchft.sync_every: expected a whole number, got 'steps'"),
        ("a.py", "DiLoCo(m, list(parts), i, o, 20)\n", "model_fragments: expected a list that is written out"),
        ("a.py", "DiLoCo(m, [a], i, o)\n", "torchft.sync_every: expected this argument in the call, got nothing"),
        ("a.py", "DiLoCo(m, [a, b, c], i, o, 20)\n", "a multiple of the 3 fragments"),
        ("a.py", f"LocalSGD(m, n, o, 0x{'f' * 9000})\n", "expected a whole number, got 'a number of 36000 bits'"),
        ("a.toml", f"{DILOCO}fragment_update_alpha = 0x{'f' * 9000}\n", "fragment_update_alpha: expected a number"),
        ("a.py", "def f(:\n", "a.py:1: expected a script of Python"),
        ("a.py", "LocalSGD(m, n, o, 0)\n", "at least 1"),
        ("a.py", "f(" * 5000 + ")" * 5000, "a.py"),
    ],
    ids=lambda value: None if isinstance(value, str) and len(value) > 60 else str(value)[:40],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_its_place(read, tmp_path, name, text, said):
    with pytest.raises(InputError, match=re.escape(said)):
        read_blocks(tmp_path / name) if text is None else read(text, 16, name)


def test_the_arguments_of_torchft_become_a_scheduler(read):
    made = read(f"raise SystemExit('this is never run')\nwith {TORCHFT} as d:\n    pass\n").parts["scheduler"]
    assert (made.kind, made.fragments, made.between, made.delay, made.mixing) == ("streaming_diloco", 2, 10, 5, 0.5)
