"""The GPU and its software: the time of a kernel, and the time that the training framework adds."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from simulator.component import Spec
from simulator.models.curves import Affine, Curve, Floats
from simulator.units import BytesPerSecond, Fraction, Ratio, Seconds

KERNEL_TRAFFIC = {
    "elementwise": 12.0,  # two fp32 reads, one write
    "copy": 8.0,  # one read, one write
    "residual_add": 12.0,
    "residual_clear": 8.0,
    "threshold_scan": 16.0,  # read, absolute value and compare to a mask, compaction of the mask
    "random_indices": 8.0,
    "gather": 16.0,  # index, value, scattered read, write
    "scatter_add": 24.0,  # index, value, scattered read and write in 32-byte sectors shared by neighbours
    "unique": 64.0,  # radix sort of int64 keys: four passes of one read and one write
    "update": 20.0,  # SGD with momentum: reads gradient, momentum, weight; writes momentum, weight
    "topk": 16.0,
    "sort": 64.0,
    "host_merge": 0.0,  # on the host, as `HOST_KERNELS` says
    "host_exchange": 0.0,  # on the host
    "norm": 4.0,
    "statistics": 8.0,  # mean and standard deviation: two reductions
    "quantise": 5.0,  # one fp32 read, one byte written
    "dequantise": 9.0,  # one byte read, fp32 read and written
    "matmul": 12.0,
    "hash": 448.0,  # per index, fitted: 214 M elements of which 5.2 % are hashed take 6 ms on a V100 (Zen, OSDI'25)
}
"""Bytes that each kernel moves per element in GPU memory, for kernels without a measured curve."""

HOST_KERNELS = {"host_merge": "host_element", "host_exchange": "exchange_element"}
"""Work of the host, not of the GPU: the field of `Runtime` that gives the seconds of each element."""


class Gpu(Spec):
    """A GPU with its software version: measured curves of kernels; other kernels are estimated from memory traffic.

    A kernel without a curve takes the start-up of the measured `elementwise` kernel, plus its bytes (`KERNEL_TRAFFIC`)
    at the memory bandwidth that `elementwise` reaches (or that of the data sheet, if `elementwise` is not measured
    either). With `ideal`, all kernels take no time.

    - `name`: what results call it.
    - `device`: model of the GPU.
    - `software`: the version whose kernels were measured.
    - `source`: where the curves come from.
    - `memory_bandwidth`: of the data sheet, for kernels without a curve.
    - `kernels`: curves from elements to seconds, by kernel.
    """

    name: str
    device: str = ""
    software: str = ""
    source: str = ""
    memory_bandwidth: BytesPerSecond | None = None
    ideal: bool = False
    kernels: dict[str, Curve] = Field(default_factory=dict)

    def curve(self, kernel: str) -> Curve | None:
        """The measured curve of a kernel, or None."""
        return None if self.ideal else self.kernels.get(kernel)

    def kernel_time(self, kernel: str, elements: npt.ArrayLike) -> Floats:
        """Seconds of one call of `kernel` for each number of elements, same shape; 0 for no elements."""
        sizes = np.asarray(elements, dtype=float)
        if self.ideal:
            return np.zeros_like(sizes)
        curve = self.kernels.get(kernel) or self.floor[kernel]
        return np.where(sizes > 0, curve.time(sizes), 0.0)

    def spread(self, kernel: str) -> float:
        """Relative standard deviation of the kernel's time from worker to worker."""
        curve = self.curve(kernel)
        return curve.spread if curve is not None else 0.0

    @cached_property
    def floor(self) -> dict[str, Affine]:
        """The time of each kernel as estimated from the bytes that it moves."""
        base = self.kernels.get("elementwise")
        if isinstance(base, Affine):
            start, per_byte = base.intercept, base.slope / KERNEL_TRAFFIC["elementwise"]
        else:
            start, per_byte = 0.0, 1 / self.memory_bandwidth if self.memory_bandwidth else 0.0
        return {name: Affine(intercept=start, slope=per_byte * nbytes) for name, nbytes in KERNEL_TRAFFIC.items()}


TransportKind = Literal["tcp", "rdma", "mpi", "gloo"]
"""How messages between nodes travel (`simulator.fabrics.transport`)."""


class RuntimeCost(NamedTuple):
    """A cost of a runtime in words: its unit, its name, whether a call pays it, and whether it can be fitted."""

    unit: str
    label: str
    per_call: bool = False
    fittable: bool = True


RUNTIME_COSTS = {
    "kernel_launch": RuntimeCost("s", "launch time of a kernel"),
    "negotiation": RuntimeCost("s", "negotiation time", per_call=True),
    "cycle_time": RuntimeCost("s", "cycle time", per_call=True),
    "collective_launch": RuntimeCost("s", "launch time of a collective", per_call=True),
    "gather_overhead": RuntimeCost("s", "overhead of a gather", per_call=True),
    "compute_slowdown": RuntimeCost("", "slowdown of compute by communication"),
    "endpoint_bandwidth": RuntimeCost("B/s", "endpoint bandwidth"),
    "server_bandwidth": RuntimeCost("B/s", "bandwidth of a server"),
    "message_overhead": RuntimeCost("s", "overhead of a message", per_call=True),
    "host_element": RuntimeCost("s", "host time per element", fittable=False),
    "exchange_element": RuntimeCost("s", "host time per element of an exchanged gradient"),
    "forward_hook": RuntimeCost("s", "time of a hook before a module's forward pass", per_call=True),
    "update_launch": RuntimeCost("s", "launch time of a call of the optimiser"),
}
"""The costs of a runtime: fields of `Runtime` that `explain`, `advise` and `calibrate runtime` read from here."""


class FittedFor(Spec):
    """Where the costs of a runtime were fitted; over another transport they are priors.

    - `transport`: over which they were fitted.
    - `width`: factor by which they may be wrong over another one, either way, in nine of ten cases.
    """

    transport: TransportKind
    width: float = Field(default=2.0, ge=1, le=100)


class RuntimePrior(Spec):
    """What limits a runtime over a transport on which none of its costs was fitted, estimated from the hardware.

    - `transport`: for which it holds.
    - `endpoint_bandwidth`: what one endpoint moves per second and direction over it.
    - `width`: factor by which this may be wrong either way, in nine of ten cases.
    - `source`: what it is derived from.
    """

    transport: TransportKind
    endpoint_bandwidth: BytesPerSecond | None = None
    width: float = Field(default=2.0, ge=1, le=100)
    source: str = ""


class Runtime(Spec):
    """The time that the training framework adds to kernels and communication.

    - `kernel_launch`: host seconds per kernel call of the framework's own loops (selection, packing, combine, update).
    - `negotiation`: seconds per collective until the workers have agreed on it; the communication stream waits.
    - `cycle_time`: seconds between two checks for tensors that are ready (Horovod).
    - `collective_launch`: host seconds to issue one collective; overlaps with the collective before it.
    - `gather_overhead`: host seconds of one gather call (a list of output tensors is made and filled).
    - `compute_slowdown`: how much slower kernels run while a collective is running.
    - `endpoint_bandwidth`: what the software of one endpoint (a socket library, a server process) moves per second and
      direction while both directions are busy.
    - `server_bandwidth`: the same of a server on a machine of its own, which has no GPU to copy from and to; none: as
      `endpoint_bandwidth`.
    - `message_overhead`: endpoint seconds per pushed or pulled message.
    - `host_element`: host seconds per element that the framework merges on the CPU (kernel `host_merge`).
    - `exchange_element`: host seconds per element of the gradient in every exchange, whatever part of it is sent:
      copies between GPU and host, and the library's passes over the whole gradient (kernel `host_exchange`).
    - `forward_hook`: host seconds before the forward pass of each module (tensors with one name before the last dot) in
      which a gated scheduler waits for the parameters of that module; the host runs ahead of the GPU.
    - `update_launch`: host seconds per call of the optimiser after an exchange; for workloads with `update_calls`.
    - `update_calls`: framework calls of the optimiser per tensor (SGD with momentum and weight decay: 4).

    `held_out_mape`: mean absolute relative error on whole iterations that were not used in the fit, if the terms were
    fitted to whole iterations.

    - `name`: what results call it.
    - `source`: where the terms come from.
    - `fitted_for`: the transport over which they were fitted; none: they hold over all.
    - `priors`: what takes the place of `endpoint_bandwidth` over other transports; where none is given there, only the
      network limits.
    """

    name: str = "ideal"
    source: str = ""
    fitted_for: FittedFor | None = None
    priors: tuple[RuntimePrior, ...] = ()
    kernel_launch: Seconds = 0.0
    negotiation: Seconds = 0.0
    cycle_time: Seconds = 0.0
    collective_launch: Seconds = 0.0
    gather_overhead: Seconds = 0.0
    compute_slowdown: Ratio = 0.0
    endpoint_bandwidth: BytesPerSecond | None = None
    server_bandwidth: BytesPerSecond | None = None
    message_overhead: Seconds = 0.0
    host_element: Seconds = 0.0
    exchange_element: Seconds = 0.0
    forward_hook: Seconds = 0.0
    update_launch: Seconds = 0.0
    update_calls: int = Field(default=4, ge=0, le=1000)
    held_out_mape: Fraction | None = None

    def is_prior_over(self, transport: TransportKind | None) -> bool:
        """Whether the costs are used over another transport than they were fitted for; not if either is unknown."""
        return self.fitted_for is not None and transport is not None and transport != self.fitted_for.transport

    def prior_over(self, transport: TransportKind | None) -> RuntimePrior | None:
        """The prior for this transport, if the costs were fitted over another one; None where there is none."""
        if not self.is_prior_over(transport):
            return None
        return next((item for item in self.priors if item.transport == transport), None)

    def width_over(self, transport: TransportKind | None) -> float:
        """Factor by which the costs may be wrong over this transport, either way; 1 where they were fitted for it."""
        if self.fitted_for is None or not self.is_prior_over(transport):
            return 1.0
        prior = self.prior_over(transport)
        return prior.width if prior else self.fitted_for.width

    def over(self, transport: TransportKind | None) -> Runtime:
        """The runtime as it is over this transport: an endpoint that was fitted over another one does not limit it.

        What an endpoint moves belongs to the transport (copies of a socket, or none), while launches and negotiation
        belong to the framework and are kept.
        """
        if not self.is_prior_over(transport):
            return self
        prior = self.prior_over(transport)
        return self.model_copy(update={"endpoint_bandwidth": prior.endpoint_bandwidth if prior else None})
