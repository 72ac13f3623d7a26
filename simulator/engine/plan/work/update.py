"""The optimiser's step: what it takes on the GPU and on the host, alone and after an exchange."""

from __future__ import annotations

import math

from simulator.engine.plan.work.casts import mixed_precision_kernels
from simulator.engine.plan.work.kernels import KernelPrices
from simulator.hardware.gpu import Gpu
from simulator.hardware.precision import widths_of
from simulator.hardware.runtime import Runtime
from simulator.models.layers import Workload
from simulator.models.optimisers import Optimiser
from simulator.records import Record

RECORDED = Optimiser(kind="momentum", implementation="per_tensor")
"""The optimiser that `sparsim record kernels` times as kernel `update`."""


class Update(Record):
    """One step of the optimiser: bytes moved, framework calls, and seconds on the GPU, of launches and of reads.

    `mixed_precision`: seconds of the casts and of the unscaling that 16-bit gradients need beside it. `by_curve`:
    whether the GPU has a measured curve of its kernel `update`.
    """

    nbytes: float
    calls: int
    on_gpu: float
    launches: float
    reads: float
    mixed_precision: float
    by_curve: bool

    @property
    def optimiser_seconds(self) -> float:
        """Without mixed precision: the host launches while the GPU computes; where it reads values, each waits."""
        return max(self.on_gpu, self.launches) + self.reads

    @property
    def seconds(self) -> float:
        """All of the step."""
        return self.optimiser_seconds + self.mixed_precision


def update_of(workload: Workload, gpu: Gpu, runtime: Runtime, *, exchanged: bool) -> Update:
    """The optimiser's step on one GPU by itself, or after an exchange (`exchanged`).

    Seconds on the GPU = bytes at the rate of `elementwise` kernels + a start per kernel; or, where the GPU has a
    measured curve `update`, that curve in proportion to the bytes of the optimiser that was timed. On one GPU the host
    runs ahead, and launches while the backward pass is computed, unless the runtime's `kernel_launch` says that it does
    not. After an exchange, for which it has waited, each call takes `update_launch`.
    """
    optimiser, sizes = workload.optimiser, workload.numels.tolist()
    calls = optimiser.calls(sizes)
    widths = widths_of(workload.precision, has_residual=False)
    nbytes = optimiser.nbytes(sizes, widths.weights)
    curve = gpu.curve("update")
    if curve is None:
        on_gpu = gpu.passes_time(nbytes, calls)
    else:
        per_element = optimiser.bytes_per_element(widths.weights)
        own = per_element / RECORDED.bytes_per_element()
        averaged = nbytes - per_element * workload.numel
        on_gpu = own * math.fsum(curve.time(workload.numels)) + gpu.passes_time(averaged, 0)
    launch = runtime.update_launch or runtime.kernel_launch
    if not exchanged:
        launch = min(launch, runtime.kernel_launch)
    if workload.update_time is not None:  # which holds the launches and casts of one GPU by itself
        launches = launch * calls if exchanged else 0.0
        return Update(nbytes, calls, workload.update_time, launches, 0.0, 0.0, by_curve=False)
    reads = runtime.host_read * optimiser.reads(len(sizes))
    pricing = KernelPrices(gpu, runtime, widths)
    mixed = math.fsum(pricing.cost(item) for item in mixed_precision_kernels(workload))
    return Update(nbytes, calls, on_gpu, launch * calls, reads, mixed, curve is not None)
