"""What one GPU computes by itself: forward and backward passes, the additions between them, and the update."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from simulator.engine.plan.setup import Setup
from simulator.engine.plan.work.kernels import KernelPrices
from simulator.engine.plan.work.update import update_of
from simulator.hardware.precision import ValueWidths
from simulator.models.curves import Floats
from simulator.models.exchange import Bucket, Compute
from simulator.models.layers import Workload
from simulator.models.small_cache import LatestResults
from simulator.records import Record


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
_passes: LatestResults[tuple[Workload, Workload]] = LatestResults(64)
"""Passes by their workload and its update: GPUs that differ in other kernels share them."""


def compute_of(setup: Setup) -> ComputeAlone:
    """What does not depend on method, workers or network; remembered, since the points of a sweep repeat it.

    Raises an expected-error where the update takes longer than the measured iteration.
    """
    workload, gpu, runtime = setup.workload, setup.gpu, setup.runtime

    def make() -> ComputeAlone:
        alone = update_of(workload, gpu, runtime, exchanged=False).seconds
        key = workload.fingerprint, alone
        first, later = _passes.get(key, lambda: workload.stretched(alone).passes())
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
