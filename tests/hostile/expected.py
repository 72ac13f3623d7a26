# ruff: noqa: E501
"""Small inputs of the kinds that people bring, each with what has to come of it, worked out by hand.

`figures` of a case are those that `FIGURES` takes from what was read, or words of the refusal.
"""

import csv
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from architectures.published import CONFIGS
from readers import Reader
from synthetic_logs import kineto_trace, nccl_log

from simulator.architectures.summary import summarise
from simulator.scenario.named_parts import read_workload
from simulator.studies.start.training_files import read_blocks
from simulator.traces.readers.imports import import_file
from simulator.traces.readers.kineto.reader import read_kineto
from simulator.traces.readers.nccl_log import read_nccl_log
from simulator.traces.readers.nccl_tuning_log import TuningCell, TuningChoice, read_nccl_tuning
from simulator.traces.readers.osu import read_osu


class Case(NamedTuple):
    """An input of a kind, and its figures or the words of its refusal."""

    kind: str
    data: bytes
    expected: Any


FILES = {
    "nccl": "log.txt", "osu": "osu.txt", "tuning": "tuning.txt", "chakra": "et.json", "kineto": "trace.json",
    "config": "config.json", "training": "training.txt",
}  # fmt: skip
TOOLS = {"nccl": "nccl-tests", "osu": "osu", "tuning": "nccl-tuning", "chakra": "chakra", "kineto": "kineto"}


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 3)


def _nccl(path: Path) -> Any:
    log = read_nccl_log(path)
    found = [(t.collective, t.ranks, t.nodes, len(t.rows), _us(t.rows[-1].out_of_place or 0)) for t in log.parts]
    return found, len(log.problems)


def _osu(path: Path) -> Any:
    file = read_osu(path)
    return [(t.primitive, len(t.rows), _us(t.rows[-1].seconds)) for t in file.parts], len(file.problems)


def _tuning(path: Path) -> Any:
    log = read_nccl_tuning(path)
    cells, choices = ([part for part in log.parts if isinstance(part, kind)] for kind in (TuningCell, TuningChoice))
    return len(cells), [(c.nbytes, c.algorithm, c.protocol) for c in choices], len(log.problems)


def _chakra(path: Path) -> Any:
    import_file("chakra", [path], path.parent / "out", 4, 8)
    with (path.parent / "out" / "collectives.csv").open() as file:
        return [(row["collective"], int(row["nbytes"]), int(row["workers"])) for row in csv.DictReader(file)]


def _kineto(path: Path) -> Any:
    trace = read_kineto(path)
    first = [item.numel for item in trace.passes[0]]
    kernels = {(item.collective, item.nbytes) for item in trace.collectives}
    return sum(first), trace.gradients_in, sorted(kernels), len(trace.problems)


def _config(path: Path) -> Any:
    made = summarise(read_workload(str(path)), None)
    return made["parameters"], made["active_parameters"], made["precision"]


def _training(path: Path) -> Any:
    blocks = read_blocks(path, 16)
    return blocks.program, {key: value for key, (value, _) in blocks.lines.items()}


FIGURES: dict[str, Callable[[Path], Any]] = {
    "nccl": _nccl, "osu": _osu, "tuning": _tuning, "chakra": _chakra, "kineto": _kineto, "config": _config,
    "training": _training,
}  # fmt: skip


def whole(kind: str, path: Path) -> Any:
    """All that the package makes of a file. Raises ValueError for a number without a unit or name in it."""
    if kind == "config":
        made = summarise(read_workload(str(path)), None)
        json.dumps(made, allow_nan=False)
        if any(key != key.strip() or not key for key in made):
            raise ValueError(f"keys {list(made)}")
        return None
    if kind == "training":
        for line in read_blocks(path, 16).text().splitlines():
            if line and not line[0].isspace() and ":" not in line and "#" not in line:
                raise ValueError(f"a line without a name: {line[:200]!r}")
        return None
    out = path.parent / "out"
    made = import_file(TOOLS[kind], [path], out, 4, 8)
    for table in out.glob("*.csv"):
        with table.open(encoding="utf-8", newline="") as file:
            heading, *rows = csv.reader(file)
        if not all(heading) or len(set(heading)) < len(heading):
            raise ValueError(f"{table.name}: {heading}")
        odd = [
            row for row in rows if len(row) != len(heading) or {"nan", "inf", "-inf"} & {cell.lower() for cell in row}
        ]
        if odd:
            raise ValueError(f"{table.name}: {odd[0]}")
    return made


@cache
def case_readers() -> dict[str, Reader]:
    """Each case as a reader with one seed: `case_` and its name."""

    def reader(case: Case) -> Reader:
        return Reader(FILES[case.kind], [case.data], lambda path: whole(case.kind, path))

    return {f"case_{name}": reader(case) for name, case in CASES.items()}


def _lines(text: str, each: Callable[[int, str], str]) -> bytes:
    return "".join(f"{each(i, line)}\n" for i, line in enumerate(text.splitlines())).encode()


def _json(document: Any) -> bytes:
    return json.dumps(document).encode()


# Rows of 1, 4 and 16 KiB in 20, 25 and 40 us; on 8 ranks the bandwidth of an all-reduce counts 1.75 times.
ROWS = [(1024, 20e-6, 21e-6), (4096, 25e-6, 26e-6), (16384, 40e-6, 41e-6)]
ONE = nccl_log(ROWS, each=8)
TWO_NODES = nccl_log(ROWS, hosts=("a", "b"), each=4, program="all_gather")
READ, GATHERED = ([("all_reduce", 8, 1, 3, 40.0)], 0), ([("all_gather", 8, 2, 3, 40.0)], 0)
NCCL: dict[str, tuple[bytes, Any]] = {
    "plain": (ONE.encode(), READ),
    "two_nodes": (TWO_NODES.encode(), GATHERED),
    "srun_label": (_lines(TWO_NODES, lambda i, line: f"{i % 8}: {line}"), GATHERED),
    "open_mpi_tag": (_lines(ONE, lambda i, line: f"[1,{i % 8}]<stdout>:{line}"), READ),
    "intel_mpi_rank": (_lines(ONE, lambda i, line: f"[{i % 8}] {line}"), READ),
    "kubectl": (_lines(ONE, lambda i, line: f"[pod/nccl-0/main] {line}"), READ),
    "journald": (_lines(ONE, lambda i, line: f"Nov 27 09:15:{i % 60:02d} gpu7 bench.sh[991]: {line}"), READ),
    "iso_times": (_lines(TWO_NODES, lambda i, line: f"2026-11-27T09:15:{i % 60:02d}.5Z {line}"), GATHERED),
    "colours": (_lines(ONE, lambda i, line: f"\x1b[33m{line}\x1b[0m"), READ),
    "crlf": (_lines(ONE, lambda i, line: f"{line}\r"), READ),
    "utf_16": (ONE.encode("utf-16"), READ),
    "lost_signs": (ONE.replace("#", "").encode(), READ),
    "docker": (_lines(ONE, lambda i, line: json.dumps({"log": f"{line}\n", "stream": "stdout"})), READ),
    "two_tests": ((ONE + TWO_NODES).encode(), (READ[0] + GATHERED[0], 0)),
    "name_contradicted": (ONE.replace("starting: all_reduce", "starting: all_gather").encode(), (READ[0], 1)),
    "cut_short": (ONE[: ONE.index("# Out of bounds")].encode(), (READ[0], 1)),
    "rccl_without_version": (ONE.replace("NCCL version 2.20.5+cuda12.4", "RCCL version 2.18.3+hip6.0").encode(), READ),
    "without_mpi": ((nccl_log(ROWS, each=1, old=True) * 2).encode(), "MPI=1"),
    "unknown_program": (nccl_log(ROWS, program="alltoallv").encode(), "alltoallv_perf"),
    "no_log": (b"make: *** [all] Error 2\n", "none of its tables"),
}  # fmt: skip


def _table(title: str, rows: str = "8 3.50\n64 5.25\n") -> bytes:
    return f"# OSU {title} v7.4\n# Size  Avg Latency(us)\n{rows}".encode()


OSU: dict[str, tuple[bytes, Any]] = {
    "allreduce": (_table("MPI Allreduce Latency Test"), ([("all_reduce", 2, 5.25)], 0)),
    "alltoall": (_table("MPI All-to-All Personalized Exchange Latency Test"), ([("all_to_all", 2, 5.25)], 0)),
    "reduce_scatter": (_table("MPI Reduce_scatter Latency Test"), ([("reduce_scatter", 2, 5.25)], 0)),
    "cuda_broadcast": (_table("MPI-CUDA Broadcast Latency Test"), ([("broadcast", 2, 5.25)], 0)),
    "percentiles": (
        b"# OSU MPI Allgather Latency Test v7.4\n# Size  Avg Latency(us)  Min Latency(us)  Max Latency(us)  Iterations"
        b"  P50 Tail Lat(us)\n8  3.50  3.00  4.00  1000  3.40\n", ([("all_gather", 1, 3.5)], 0)),
    "pair": (b"# OSU MPI Latency Test v7.0\n# Size   Latency (us)\n0  1.10\n8  1.25\n", ([("point_to_point", 2, 1.25)], 0)),
    "two_tables": (
        _table("MPI Reduce Latency Test") + _table("MPI Scatter Latency Test"),
        ([("reduce", 2, 5.25), ("scatter", 2, 5.25)], 0)),
    "damaged_row": (_table("MPI Allreduce Latency Test", "8 3.50\n64 fast\n"), ([("all_reduce", 1, 3.5)], 1)),
    "put": (_table("MPI_Put Latency Test"), "MPI_Put Latency Test"),
    "bandwidth": (b"# OSU MPI Bandwidth Test v5.3\n# Size  Bandwidth (MB/s)\n1  2.0\n", "MPI Bandwidth Test"),
}  # fmt: skip
_CHOICE = "h:1:2 [0] NCCL INFO {}: {} Bytes -> Algo {} proto {} channel{{Lo..Hi}}={{0..7}}\n"
TUNING: dict[str, tuple[bytes, Any]] = {
    "choices": (
        (_CHOICE.format("AllReduce", 4096, "TREE", "LL") + _CHOICE.format("AllGather", 65536, "RING", "SIMPLE")).encode(),
        (0, [(4096, "tree", "ll"), (65536, "ring", "simple")], 0)),
    "table": (
        b"h:1:2 [0] NCCL INFO   Algorithm | Tree | Ring |\nh:1:2 [0] NCCL INFO   Protocol | LL | Simple | LL | Simple |\n"
        b"h:1:2 [0] NCCL INFO   AllReduce | 6.0/ 1.0 | 18.0/ 3.0 | 7.0/ 2.0 | 20.0/ 9.0 |\n", (4, [], 0)),
}  # fmt: skip


def _node(number: int, collective: int, nbytes: int) -> Any:
    attributes = [{"name": "comm_type", "int64Val": str(collective)}, {"name": "comm_size", "int64Val": str(nbytes)}]
    return {"id": str(number), "name": "c", "type": "COMM_COLL_NODE", "attr": attributes}


CHAKRA: dict[str, tuple[bytes, Any]] = {
    "converted": (
        b"\n".join(map(_json, [{"attr": []}, _node(1, 0, 4096), _node(2, 2, 64), _node(3, 7, 640)])),
        [("all_reduce", 4096, 8), ("all_gather", 64, 8), ("reduce_scatter", 640, 8)]),
    "fed": (
        _json({"workload_graph": [{"Id": 1, "Name": "g", "NodeType": 7, "comm_type": 6, "comm_size": 4096, "data_deps": []}]}),
        [("all_to_all", 4096, 8)]),
}  # fmt: skip


def _trace(*kernels: tuple[str, str, int, int, str], kind: str = "float", **more: Any) -> bytes:
    """Three tensors of 100, 2,000 and 30 elements, and kernels of (name, collective, in, out, type)."""
    trace = kineto_trace(sizes=(100, 2000, 30), **more)
    for event in trace["traceEvents"]:
        if event["name"] == "torch::autograd::AccumulateGrad" and event["args"]:
            event["args"]["Input type"] = [kind]
    for place, (name, collective, inside, outside, number) in enumerate(kernels):
        args = {"correlation": 9000 + place, "In msg nelems": inside, "Out msg nelems": outside, "dtype": number}
        args |= {"Group size": 4} | ({"Collective name": collective} if collective else {})
        event = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 9, "args": args}
        trace["traceEvents"].append(event | {"ts": 2e6 + 100 * place, "dur": 30.0})
    return _json(trace)


GENERIC, RING = (
    "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)",
)
KINETO: dict[str, tuple[bytes, Any]] = {
    "fp32": (_trace(), (2130, "fp32", [], 0)),
    "bf16": (_trace(kind="c10::BFloat16"), (2130, "bf16", [], 0)),
    "fp16": (_trace(kind="c10::Half"), (2130, "fp16", [], 0)),
    "older": (_trace(older=True), (2130, "fp32", [], 0)),
    "bf16_sums": (_trace((RING, "allreduce", 2130, 2130, "BFloat16")), (2130, "fp32", [("all_reduce", 4260)], 0)),
    "fsdp": (
        _trace((GENERIC, "_allgather_base", 533, 2132, "BFloat16"), (GENERIC, "_reduce_scatter_base", 2132, 533, "Float")),
        (2130, "fp32", [("all_gather", 4264), ("reduce_scatter", 8528)], 0)),
    "rccl_generic": (
        _trace(("rcclGenericKernel(ncclDevComm*)", "allreduce_coalesced", 2130, 2130, "Float")),
        (2130, "fp32", [("all_reduce", 8520)], 0)),
    "all_to_all": (
        _trace(("ncclDevKernel_SendRecv(x)", "all_to_allv", 64, 64, "Half")), (2130, "fp32", [("all_to_all", 128)], 0)),
    "unnamed_generic": (_trace((GENERIC, "", 64, 64, "Half")), (2130, "fp32", [("unknown", 128)], 0)),
    "sizes_from_copies": (_trace(shapes=False, ddp=True), (2130, None, [], 0)),
    "malformed_event": (
        _json(json.loads(_trace()) | {"traceEvents": [{"ph": "X", "cat": "kernel"}, *json.loads(_trace())["traceEvents"]]}),
        (2130, "fp32", [], 1)),
    "no_events": (b'{"schemaVersion": 1}', "a trace of torch.profiler"),
}  # fmt: skip
_SMALL = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100}  # fmt: skip
# q and o 64 x 64, k and v 64 x 32, three of 64 x 96, two norms; twice; embedding and decoder of 100 x 64, one norm.
_EACH, _ENDS = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96 + 2 * 64, 2 * 100 * 64 + 64
_EXPERT = 3 * 64 * 32
# Queries of 4 x 24 at once; 8 + 8 narrow ones of keys, with a norm of 8; keys of 4 x 16 and values of 4 x 16 from 8.
_MLA = 64 * 96 + 64 * 16 + 8 + 8 * 4 * (16 + 16) + 4 * 16 * 64 + 3 * 64 * 96 + 2 * 64
CONFIG: dict[str, tuple[bytes, Any]] = {
    "llama": (_json(_SMALL), (2 * _EACH + _ENDS, 2 * _EACH + _ENDS, "fp32")),
    "tied_bf16": (
        _json(_SMALL | {"tie_word_embeddings": True, "torch_dtype": "bfloat16"}),
        (2 * _EACH + _ENDS - 6400, 2 * _EACH + _ENDS - 6400, "bf16")),
    "quantised": (
        _json(_SMALL | {"quantization_config": {"quant_method": "awq"}, "dtype": "float16"}),
        (2 * _EACH + _ENDS, 2 * _EACH + _ENDS, "fp16")),
    "qwen2_biases": (_json(_SMALL | {"model_type": "qwen2"}), (2 * (_EACH + 128) + _ENDS, 2 * (_EACH + 128) + _ENDS, "fp32")),
    "qwen3_norms": (_json(_SMALL | {"model_type": "qwen3"}), (2 * (_EACH + 32) + _ENDS, 2 * (_EACH + 32) + _ENDS, "fp32")),
    "mixtral": (
        _json(_SMALL | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}),
        (2 * (_EACH + 7 * 3 * 64 * 96 + 8 * 64) + _ENDS, 2 * (_EACH + 3 * 64 * 96 + 8 * 64) + _ENDS, "fp32")),
    "deepseek_v3": (
        _json(_SMALL | {"model_type": "deepseek_v3", "num_key_value_heads": 4, "kv_lora_rank": 8, "qk_nope_head_dim": 16,
                        "qk_rope_head_dim": 8, "v_head_dim": 16, "n_routed_experts": 4, "num_experts_per_tok": 2,
                        "moe_intermediate_size": 32, "n_shared_experts": 1, "first_k_dense_replace": 1}),
        (2 * _MLA - 3 * 64 * 96 + 5 * _EXPERT + 4 * 64 + _ENDS, 2 * _MLA - 3 * 64 * 96 + 3 * _EXPERT + 4 * 64 + _ENDS, "fp32")),
    "gpt_oss_20b": (_json(CONFIGS["gpt-oss 20B"]), (20_914_757_184, 4_187_440_704, "fp32")),
    "t5_base": (_json(CONFIGS["T5 base"]), (222_903_552, 222_903_552, "fp32")),
    "mamba_130m": (_json(CONFIGS["Mamba 130M"]), (129_135_360, 129_135_360, "fp32")),
    "deberta": (_json(_SMALL | {"model_type": "deberta-v2"}), "attention to distances of tokens apart"),
    "images": (_json({"model_type": "qwen2_5_vl", "text_config": _SMALL}), "an encoder of images"),
    "unknown": (_json(_SMALL | {"model_type": "llama9"}), "expected one of llama, mistral"),
    "sizes_as_text": (_json(_SMALL | {"hidden_size": "64"}), "hidden_size: expected a whole number from 1 up, got '64'"),
}  # fmt: skip
TRAINING: dict[str, tuple[bytes, Any]] = {
    "deepspeed": (
        _json({"zero_optimization": {"stage": 2, "reduce_bucket_size": 3e8}, "train_micro_batch_size_per_gpu": 4}),
        ("DeepSpeed", {"scheduler.stage": 2, "scheduler.bucket": 300_000_000, "workload.batch_size": 4})),
    "deepspeed_accumulates": (
        _json({"train_micro_batch_size_per_gpu": 2, "train_batch_size": 128, "zero_optimization": {"stage": 1}}),
        ("DeepSpeed", {"workload.batch_size": 8, "workload.micro_batches": 4})),
    "megatron": (
        b"torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2"
        b" --num-layers 8 --hidden-size 64 --micro-batch-size 1 --global-batch-size 8\n",
        ("Megatron-LM", {"parallelism.tensor": 4, "parallelism.pipeline.stages": 2, "workload.batch_size": 4})),
    "torchtitan": (
        b'[training]\nlocal_batch_size = 3\nseq_len = 128\n[parallelism]\ndata_parallel_shard_degree = 16\n',
        ("torchtitan", {"scheduler.kind": "fsdp", "workload.batch_size": 3})),
    "torchtitan_registry": (
        b'def debug():\n    return Trainer.Config(model_spec=model_registry("8B"), training=TrainingConfig(local_batch_size=5,'
        b" seq_len=64), parallelism=ParallelismConfig(data_parallel_shard_degree=16))\n",
        ("torchtitan", {"workload.batch_size": 5, "workload.sequence": 64})),
    "torchtitan_diloco": (
        b'[fault_tolerance]\nenable = true\nsemi_sync_method = "diloco"\nsync_steps = 30\nnum_fragments = 3\n',
        ("torchtitan", {"scheduler.fragments": 3})),
    "torchft": (
        b"manager = Manager()\nwith LocalSGD(manager, model, optimizer, sync_every=12) as s:\n    pass\n",
        ("torchft", {"scheduler.inner_steps": 12})),
    "accelerate": (
        b"compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nnum_machines: 4\nnum_processes: 16\n"
        b"fsdp_config: {fsdp_sharding_strategy: FULL_SHARD}\n",
        ("Accelerate", {"scheduler.kind": "fsdp", "cluster.nodes": 4})),
    "accelerate_ddp": (
        b"compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_machines: 2\nnum_processes: 16\n",
        ("Accelerate", {"scheduler.kind": "bucketed", "cluster.nodes": 2})),
    "maxtext": (
        b"base_emb_dim: 64\nbase_num_decoder_layers: 2\nper_device_batch_size: 3\nici_fsdp_parallelism: 16\nmax_target_length: 32\n",
        ("MaxText", {"scheduler.shard": 16, "workload.batch_size": 3})),
    "other_yaml": (b"defaults: [_self_]\nlr: 0.1\nepochs: 5\n", "not a configuration of"),
    "stage_7": (_json({"zero_optimization": {"stage": 7}}), "0, 1, 2 or 3, got 7"),
}  # fmt: skip
CASES: dict[str, Case] = {
    f"{kind}_{name}": Case(kind, data, expected)
    for kind, table in (
        ("nccl", NCCL), ("osu", OSU), ("tuning", TUNING), ("chakra", CHAKRA), ("kineto", KINETO), ("config", CONFIG),
        ("training", TRAINING),
    )
    for name, (data, expected) in table.items()
}  # fmt: skip
