"""The training framework: the time that it adds to kernels and communication, and the schedules that it offers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from simulator.bounds import Count
from simulator.component import Spec, expected
from simulator.errors import suggest_nearest
from simulator.hardware.slowdown import estimate_slowdown
from simulator.models.operators import ElementWise
from simulator.models.precision import FP32_BYTES
from simulator.units import BytesPerSecond, Fraction, Period, Ratio, Seconds, SecondsPerItem

FrameworkName = Literal["none", "pytorch-ddp", "pytorch-fsdp", "horovod", "bytescheduler", "byteps", "gtopk-sgd"]

_MIB = 2.0**20


class Offer(NamedTuple):
    """A schedule of dense gradients in words, and as a scenario writes it."""

    words: str
    scheduler: Mapping[str, Any]


class Framework(NamedTuple):
    """What a framework is called, its schedules (its default first), its topologies, and the sources of both.

    `pays`: costs of a runtime that it pays wherever it runs; a runtime that states none of them did not measure them.
    `gathers_rows`: whether it gathers gradients of embeddings as rows unless it is told not to.
    """

    label: str
    schedules: tuple[Offer, ...]
    topologies: tuple[str, ...]
    source: str
    pays: tuple[str, ...] = ()
    gathers_rows: bool = False


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
        "NCCL and hierarchical all-reduce (horovod/common/parameter_manager.cc); IndexedSlices of TensorFlow are "
        "gathered without sparse_as_dense (horovod/tensorflow/__init__.py)",
        ("negotiation",),
        gathers_rows=True,
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
"""By the name that `framework` of a runtime gives. Only settings that the framework's documentation, its own tuner or
its authors' measurements name are listed, since every one of them is run when an opponent is looked for."""


TransportKind = Literal["tcp", "rdma", "mpi", "gloo"]
"""How messages between nodes travel (`simulator.fabrics.transport`)."""


class RuntimeCost(NamedTuple):
    """A cost of a runtime in words: its unit, its name, and whether a call pays it."""

    unit: str
    label: str
    per_call: bool = False


RUNTIME_COSTS = {
    "kernel_launch": RuntimeCost("s", "launch time of a kernel"),
    "host_read": RuntimeCost("s", "time of a read of a GPU value by the host", per_call=True),
    "negotiation": RuntimeCost("s", "negotiation time", per_call=True),
    "cycle_time": RuntimeCost("s", "cycle time", per_call=True),
    "collective_launch": RuntimeCost("s", "launch time of a collective", per_call=True),
    "gather_overhead": RuntimeCost("s", "overhead of a gather", per_call=True),
    "compute_slowdown": RuntimeCost("", "slowdown of compute by communication"),
    "endpoint_bandwidth": RuntimeCost("B/s", "endpoint bandwidth"),
    "server_bandwidth": RuntimeCost("B/s", "bandwidth of a server"),
    "message_overhead": RuntimeCost("s", "overhead of a message", per_call=True),
    "host_element": RuntimeCost("s", "host time per element"),
    "exchange_element": RuntimeCost("s", "host time per element of an exchanged gradient"),
    "forward_hook": RuntimeCost("s", "time of a hook before a module's forward pass", per_call=True),
    "update_launch": RuntimeCost("s", "launch time of a call of the optimiser"),
}
"""The costs of a runtime: fields of `Runtime` that `explain`, `advise` and `calibrate runtime` read from here."""


_FASTER = 1.5
"""Times what the network of a fit carried, from which on a network is another class of NICs than that."""


class Way(NamedTuple):
    """How messages between nodes travel: the transport, and the bytes/s and direction that it leaves of a NIC; None:
    not stated."""

    transport: TransportKind | None = None
    carried: float | None = None


class FittedFor(Spec):
    """Where the costs of a runtime were fitted; over another transport they are priors.

    - `transport`: over which they were fitted.
    - `width`: factor by which they may be wrong over another one, either way, in nine of ten cases.
    - `carried`: what the transport carried there per NIC and direction. An endpoint that was fitted behind this NIC may
      move more behind a faster one; none: it is the software's own limit over this transport.
    """

    transport: TransportKind
    width: float = Field(default=2.0, ge=1, le=100)
    carried: BytesPerSecond | None = None


class FittedOn(Spec):
    """The machines and models whose iterations the costs of a runtime were fitted to; on others they are carried over.

    - `device`: the GPU.
    - `workloads`: names of the models, which the slowdown of compute depends on.
    """

    device: str
    workloads: tuple[str, ...]


def _no_other_word(value: Any) -> Any:
    if isinstance(value, str) and value.strip().isalpha():
        raise expected("a share such as 0.7 or 70 %, or `auto`", repr(value), suggest_nearest(value, ["auto"]))
    return value


def _cost(value: str) -> str:
    if value not in RUNTIME_COSTS:
        raise expected("a cost of a runtime", repr(value), suggest_nearest(value, RUNTIME_COSTS))
    return value


class Runtime(Spec):
    """The time that the training framework adds to kernels and communication.

    - `kernel_launch`: host seconds per kernel call of the framework's own loops (selection, packing, combine, update).
    - `host_read`: host seconds until a value of the GPU has been read, during which no kernel is launched.
    - `negotiation`: seconds per collective until the workers have agreed on it; the communication stream waits.
    - `cycle_time`: seconds between two checks for tensors that are ready (Horovod).
    - `collective_launch`: host seconds to issue one collective; overlaps with the collective before it.
    - `gather_overhead`: host seconds of one gather call (a list of output tensors is made and filled).
    - `compute_slowdown`: how much slower kernels run while a collective is running (not while hosts push to servers and
      pull, for which the GPU runs no kernels); `auto`: it was not measured, and is estimated from other set-ups
      (`simulator.hardware.slowdown`).
    - `slowdown_width`: share of it by which it may be wrong either way, in nine of ten cases; 0: it was measured.
    - `endpoint_bandwidth`: what the software of one endpoint (a socket library, a server process) moves per second and
      direction while both directions are busy.
    - `server_bandwidth`: the same of a server on a machine of its own, which has no GPU to copy from and to; none: as
      `endpoint_bandwidth`.
    - `message_overhead`: endpoint seconds per pushed or pulled message.
    - `host_element`: host seconds per element that the framework merges, rounds or decodes on the CPU (kernel
      `host_merge`).
    - `exchange_element`: host seconds per element of the gradient in every exchange, whatever part of it is sent:
      copies between GPU and host, and the library's passes over the whole gradient (kernel `host_exchange`).
    - `forward_hook`: host seconds before the forward pass of each module (tensors with one name before the last dot) in
      which a gated scheduler waits for the parameters of that module; the host runs ahead of the GPU.
    - `update_launch`: host seconds per call of the optimiser after an exchange; 0: as `kernel_launch`.
    - `element_wise`: how norms, rotary positions and gates of a described model run: `eager`, as PyTorch's functions
      write them (RMS norms and rotary positions in several kernels, in fp32); `one_kernel`, each in one kernel; or
      `compiled`, fused with what is beside them (torch.compile, or the kernels of Transformer Engine).
    - `fills_buckets`: whether the framework copies every gradient to its bucket as soon as it is ready, divides the
      bucket by the number of workers, and copies every gradient back at the end (PyTorch DDP before
      `gradient_as_bucket_view`; src of torch/csrc/distributed/c10d/reducer.cpp, v1.4, 2020). One worker pays for this,
      too, and a method finds the bucket in one piece.

    `held_out_mape`: mean absolute relative error on whole iterations that were not used in the fit, if the terms were
    fitted to whole iterations.

    `widths`: factor by which a cost may be off, either way, in nine of ten cases; costs without one are assumed to
    differ as they do between set-ups (`simulator.hardware.widths`). `fitted_rows`: measured rows that determined a
    cost.

    - `name`: what results call it.
    - `source`: where the terms come from.
    - `framework`: which training framework it is, and so which dense schedules it offers and which costs arise, stated
      here or not (`FRAMEWORKS`); `none`: not stated.
    - `dense_runtime`: the name of the config with the costs of a dense run in the same framework, where the costs here
      hold for another method only.
    - `fitted_for`: the transport over which they were fitted, and what it carried; none: they hold over all.
    - `fitted_on`: the GPU and the models that the costs were fitted to; none: the slowdown was measured for no model.
    """

    name: str = "ideal"
    source: str = ""
    framework: FrameworkName = "none"
    dense_runtime: str = ""
    fitted_for: FittedFor | None = None
    kernel_launch: Seconds = 0.0
    host_read: Seconds = 0.0
    negotiation: Seconds = 0.0
    cycle_time: Period = 0.0
    collective_launch: Seconds = 0.0
    gather_overhead: Seconds = 0.0
    compute_slowdown: Annotated[
        Ratio, BeforeValidator(_no_other_word, json_schema_input_type=Ratio | Literal["auto"])
    ] = 0.0
    slowdown_width: Ratio = 0.0
    fitted_on: FittedOn | None = None
    endpoint_bandwidth: BytesPerSecond | None = None
    server_bandwidth: BytesPerSecond | None = None
    message_overhead: Seconds = 0.0
    host_element: SecondsPerItem = 0.0
    exchange_element: SecondsPerItem = 0.0
    forward_hook: Seconds = 0.0
    update_launch: Seconds = 0.0
    element_wise: ElementWise = "one_kernel"
    fills_buckets: bool = False
    held_out_mape: Fraction | None = None
    widths: dict[Annotated[str, AfterValidator(_cost)], Annotated[float, Field(ge=1, le=1000)]] = Field(
        default_factory=dict
    )
    fitted_rows: dict[Annotated[str, AfterValidator(_cost)], Count] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _estimate(cls, value: Any) -> Any:
        if not isinstance(value, dict) or value.get("compute_slowdown") != "auto":
            return value
        slowdown, width = estimate_slowdown()
        return {"slowdown_width": width, **value, "compute_slowdown": slowdown}

    def is_prior_over(self, transport: TransportKind | None) -> bool:
        """Whether the costs are used over another transport than they were fitted for; not if either is unknown."""
        return self.fitted_for is not None and transport is not None and transport != self.fitted_for.transport

    def endpoint_width(self, way: Way) -> float:
        """The root of how many times as much as a fitted endpoint moves the network carries; 1 where it was fitted.

        Where it was fitted over another transport, or behind a NIC that carried clearly less, what it moves lies
        between both, since copies of a socket or the NIC may have limited it.
        """
        fitted, rate, carried = self.fitted_for, self.endpoint_bandwidth, way.carried
        if fitted is None or rate is None or carried is None:
            return 1.0
        faster = fitted.carried is not None and carried > _FASTER * fitted.carried
        return math.sqrt(max(1.0, carried / rate)) if faster or self.is_prior_over(way.transport) else 1.0

    def width_over(self, way: Way, name: str) -> float:
        """Factor by which the cost `name` may be wrong over this way, either way; 1 where it was fitted for it."""
        if name == "endpoint_bandwidth" and (width := self.endpoint_width(way)) > 1:
            return width
        return self.fitted_for.width if self.fitted_for is not None and self.is_prior_over(way.transport) else 1.0

    def summing(self, value_bytes: int) -> Runtime:
        """The runtime whose endpoints sum values of so many bytes on their CPUs.

        Servers turn values of 16 bits into ones of 32 to add them (BytePS, byteps/common/cpu_reducer.cc, v0.2, 2019): a
        sum takes as long as one of 32 bits, so that an endpoint moves half of the bytes. With 16 bits VGG-16 on 4 x 8
        V100 gained nothing (bytedance/byteps, issue 293, 2020).
        """
        if self.endpoint_bandwidth is None or value_bytes >= FP32_BYTES:
            return self
        return self.model_copy(update={"endpoint_bandwidth": self.endpoint_bandwidth * value_bytes / FP32_BYTES})

    def over(self, way: Way) -> Runtime:
        """The runtime as it is over this way; launches and negotiation belong to the framework and are kept.

        An endpoint that was fitted elsewhere moves the geometric mean of what it moved there and of what the network
        carries, right within `endpoint_width`.
        """
        width = self.endpoint_width(way)
        if self.endpoint_bandwidth is None or width == 1:
            return self
        return self.model_copy(update={"endpoint_bandwidth": width * self.endpoint_bandwidth, "fitted_for": None})
