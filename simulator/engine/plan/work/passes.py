"""What one GPU computes by itself: forward and backward passes, the update, and the outer step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from simulator.engine.plan.setup import Setup
from simulator.engine.plan.work.exchanges import mixed_precision_kernels
from simulator.engine.plan.work.kernels import KernelPrices
from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import ValueWidths, widths_of
from simulator.hardware.runtime import Runtime
from simulator.models.curves import Floats
from simulator.models.exchange import Bucket, Compute
from simulator.models.layers import Workload
from simulator.models.optimisers import STATE_BYTES, Optimiser
from simulator.models.small_cache import LatestResults
from simulator.records import Record
from simulator.schedulers.local_steps import LocalSteps

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


class Passes(Record):
    """The seconds of the passes of an iteration: of the first forward and backward pass, and of each later one.

    `count` passes in all. Nothing is exchanged before the last backward pass, which is not part of these seconds: its
    buckets have their own. A later backward pass contains the additions to the gradients of those before it.
    """

    count: int
    first: tuple[float, float]
    later: tuple[float, float]

    @property
    def forward(self) -> float:
        """Seconds of all forward passes."""
        return self.first[0] + (self.count - 1) * self.later[0]

    @property
    def earlier_backward(self) -> float:
        """Seconds of all backward passes but the last; 0 for one pass."""
        return self.first[1] + (self.count - 2) * self.later[1] if self.count > 1 else 0.0

    def between(self) -> Iterator[tuple[str, float]]:
        """What follows the first forward pass, up to the last backward pass: names of terms, and seconds."""
        for number in range(1, self.count):
            yield "backward", (self.first if number == 1 else self.later)[1]
            yield "forward", self.later[0]


class ComputeAlone(NamedTuple):
    """The first and each later pass of a workload on one GPU, the optimiser's step alone and after an exchange, the
    forward seconds of each layer, and when the backward pass of each has ended after the start of the last one."""

    first: Workload
    later: Workload
    update_alone: float
    update: float
    layer_forward: Floats
    backward_end: Floats


_computed: LatestResults[ComputeAlone] = LatestResults(64)


def compute_of(setup: Setup) -> ComputeAlone:
    """What does not depend on method, workers or network; remembered, since the points of a sweep repeat it.

    Raises an expected-error where the update takes longer than the measured iteration.
    """
    workload, gpu, runtime = setup.workload, setup.gpu, setup.runtime

    def make() -> ComputeAlone:
        alone = update_of(workload, gpu, runtime, exchanged=False).seconds
        first, later = workload.stretched(alone).passes()
        update = update_of(first, gpu, runtime, exchanged=True).seconds
        forward = np.array([layer.forward for layer in first.layers])
        ended = np.cumsum([layer.backward for layer in reversed(later.layers)])[::-1]
        return ComputeAlone(first, later, alone, update, forward, ended)

    return _computed.get((workload.fingerprint, gpu.fingerprint, runtime.fingerprint), make)


def price_passes(
    setup: Setup, compute: ComputeAlone, buckets: Sequence[Bucket], pricing: KernelPrices
) -> tuple[Passes, Floats]:
    """The passes before the last backward pass, and the seconds (b,) of the additions in the last one.

    In every pass but the first, gradients are added to those of the passes before (`addition_kernel`).
    """
    first, later = compute.first, compute.later
    count, added = first.micro_batches, np.zeros(len(buckets))
    if count > 1:
        kernels = [addition_kernel(setup, bucket, pricing.widths) for bucket in buckets]
        added = np.array(list(map(pricing.cost, kernels)))
        added /= count - 1
    once = (first.forward_time, first.backward_time)
    return Passes(count, once, (later.forward_time, later.backward_time + math.fsum(added))), added


def addition_kernel(setup: Setup, bucket: Bucket, widths: ValueWidths) -> Compute:
    """The additions of a bucket's gradients in all passes but the first.

    One call per tensor and pass adds in place: it reads two gradients and writes one, as `elementwise` does (PyTorch,
    torch/csrc/autograd/functions/accumulate_grad.h). The gradients of the first pass are not added to anything.
    Those of whole gradients or of a part by the scheduler (`Scheduler.additions`); what products of matrices add as
    they write it, they do in their own time, which arithmetic limits. `widths`: the values that element-wise kernels
    are priced for.
    """
    workload, additions, pieces = setup.workload, setup.scheduler.additions, bucket.pieces
    times, share = workload.micro_batches - 1, workload.precision.gradient_bytes / widths.accumulated
    if setup.sharding is not None and additions != "part":
        pieces = tuple(setup.sharding.numels[layer] for layer in bucket.layers)
    fused = [additions == "in_products" and workload.layers[layer].by_product for layer in bucket.layers]
    sizes = tuple(share * numel for numel, is_fused in zip(pieces, fused, strict=True) if not is_fused)
    return Compute("elementwise", sizes, times * len(sizes), "combine", times)


def price_outer_step(setup: Setup, buckets: tuple[Bucket, ...], pricing: KernelPrices) -> tuple[Floats, Floats] | None:
    """The work of the outer step on each bucket; None for a scheduler without local steps.

    Before it is selected from, seconds (b,): the pseudo-gradient, outer less own parameters, is one element-wise kernel
    per tensor. After it has arrived, (b,): the outer optimiser's step, in proportion to the elements, and for
    differences one more kernel that moves the result to the worker's own parameters. With `host_bandwidth`, the outer
    parameters come from the host before, and the optimiser's state comes and goes, and the parameters go, after.
    """
    scheduler, workload = setup.scheduler, setup.workload
    if not isinstance(scheduler, LocalSteps):
        return None
    differences = scheduler.sends_differences or setup.sparsifier.kind != "dense"
    # A kernel per tensor that reads two values and writes one.
    kernels = [Compute("elementwise", bucket.sizes, len(bucket.pieces), "combine") for bucket in buckets]
    moved = np.array([pricing.cost(kernel) if differences else 0.0 for kernel in kernels])
    numel = np.array([float(bucket.numel) for bucket in buckets])
    after = moved.copy()
    states = 0
    if scheduler.outer is not None:
        outer = workload.model_copy(update={"optimiser": scheduler.outer, "update_time": None})
        whole = update_of(outer, setup.gpu, setup.runtime, exchanged=True).optimiser_seconds
        after += (1 + getattr(scheduler, "eager", False)) * whole * numel / numel.sum()
        states = scheduler.outer.states
    before = moved
    if scheduler.host_bandwidth is not None and differences:
        copy = STATE_BYTES * numel / scheduler.host_bandwidth
        before, after = before + copy, after + (1 + 2 * states) * copy
    return before, after
