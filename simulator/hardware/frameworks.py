"""What a training framework offers to a dense run: the schedules and topologies that its users can choose.

Plain data: a schedule is written as in a scenario. Only settings that the framework's documentation, its own tuner or
its authors' measurements name are listed, since every one of them is run when an opponent is looked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

FrameworkName = Literal["none", "pytorch-ddp", "pytorch-fsdp", "horovod", "bytescheduler", "byteps", "gtopk-sgd"]

_MIB = 2.0**20


class Offer(NamedTuple):
    """A schedule of dense gradients in words, and as a scenario writes it."""

    words: str
    scheduler: Mapping[str, Any]


class Framework(NamedTuple):
    """What a framework is called, its schedules (its default first), its topologies, and the sources of both.

    `pays`: costs of a runtime that it pays wherever it runs; a runtime that states none of them did not measure them.
    """

    label: str
    schedules: tuple[Offer, ...]
    topologies: tuple[str, ...]
    source: str
    pays: tuple[str, ...] = ()


def _buckets(mebibytes: int) -> Offer:
    sized = {} if mebibytes == 25 else {"bucket_size": mebibytes * _MIB}
    return Offer(f"buckets of {mebibytes} MiB", {"kind": "bucketed", **sized})


def _fused(mebibytes: int, milliseconds: int) -> Offer:
    words = f"tensor fusion of {mebibytes} MiB, a cycle of {milliseconds} ms"
    sizes = {"bucket_size": mebibytes * _MIB, "cycle_time": milliseconds / 1e3}
    return Offer(words, {"kind": "bucketed", "rule": "horovod", **sizes})


def _slices(megabytes: int, credit: int) -> Offer:
    words = f"slices of {megabytes} MB by priority, a credit of {credit} MB"
    return Offer(words, {"kind": "priority", "partition": megabytes * 1e6, "credit": credit * 1e6})


FRAMEWORKS: dict[FrameworkName, Framework] = {
    "none": Framework(
        "any framework",
        (_buckets(25),),
        (),
        "the default of PyTorch DDP, the most common one, for runtimes that do not say which framework they are of",
    ),
    "pytorch-ddp": Framework(
        "PyTorch DDP",
        tuple(_buckets(size) for size in (25, 5, 10, 50, 100, 200)),
        ("nccl",),
        "bucket_cap_mb: 25 by default, the first bucket 1 MiB (torch.nn.parallel.DistributedDataParallel and "
        "reducer.cpp); 5 to 50 as measured by Li et al. (VLDB 2020); 100 and 200, since users have to increase it for "
        "large models (pytorch/pytorch issue 118421)",
        ("gather_overhead",),
    ),
    "pytorch-fsdp": Framework(
        "PyTorch FSDP",
        (Offer("all parameters sharded", {"kind": "fsdp"}),),
        ("nccl",),
        "fully_shard (torch/distributed/fsdp/_fully_shard/_fully_shard.py, 2.6); the schedule states its settings",
    ),
    "horovod": Framework(
        "Horovod",
        (
            _fused(64, 5),
            _fused(4, 5),
            _fused(8, 10),
            _fused(16, 25),
            _fused(32, 50),
            Offer("tensor fusion off", {"kind": "wfbp"}),
        ),
        ("nccl", "hierarchical"),
        "HOROVOD_FUSION_THRESHOLD 64 MB and HOROVOD_CYCLE_TIME 5 ms by default up to 0.20, 0 turns fusion off "
        "(docs/tensor-fusion.rst); the other pairs are the first four of its own tuner, which also chooses between "
        "NCCL and hierarchical all-reduce (horovod/common/parameter_manager.cc)",
        ("negotiation",),
    ),
    "bytescheduler": Framework(
        "ByteScheduler",
        (_slices(4, 16), _slices(4, 4)),
        ("nccl",),
        "a partition of 1,000,000 and a credit of 4,000,000 elements by default, which its own tuner changes "
        "(bytedance/byteps, bytescheduler/bytescheduler/common/bytecore.py); the smallest credit is one slice",
        ("forward_hook",),
    ),
    "byteps": Framework(
        "BytePS",
        (Offer("slices of 4.096 MB", {"kind": "wfbp", "partition": 4096000.0}),),
        ("parameter_server",),
        "BYTEPS_PARTITION_BYTES 4,096,000 by default (docs/env.md); no credit by default (scheduled_queue.cc)",
    ),
    "gtopk-sgd": Framework(
        "gTopk-SGD",
        (Offer("one merged tensor after the backward pass", {"kind": "sequential"}),),
        ("ring",),
        "all gradients merged up to 640 Mi elements, one MPI_Allreduce (hclhkbu/gtopkssgd, allreducer.py, 2019)",
        ("exchange_element",),
    ),
}
"""By the name that `framework` of a runtime gives."""
