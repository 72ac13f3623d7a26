"""Kernels of the GPU: what they cost, and which sizes an iteration uses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import HOST_KERNELS
from simulator.hardware.runtime import Runtime
from simulator.models.curves import Floats
from simulator.models.exchange import (
    Bucket,
    Communication,
    Compute,
    Step,
)
from simulator.models.layers import Workload


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel inside an exchange, already priced."""

    label: str
    seconds: float


@dataclass(frozen=True, slots=True)
class KernelUse:
    """How one iteration uses a kernel: its smallest and largest call in elements, and the seconds of all calls.

    `calls`: how many there are, and `extrapolated` how many of them are outside the sizes that were measured.
    `on_gpu`: the seconds that follow the GPU's speed, if it is as uncertain as `Gpu.width` says; the host decides the
    others.
    """

    smallest: float = math.inf
    largest: float = 0.0
    seconds: float = 0.0
    calls: int = 0
    extrapolated: int = 0
    on_gpu: float = 0.0

    def added_to(self, other: KernelUse) -> KernelUse:
        """Both uses together."""
        return KernelUse(
            min(self.smallest, other.smallest),
            max(self.largest, other.largest),
            other.seconds + self.seconds,
            self.calls + other.calls,
            self.extrapolated + other.extrapolated,
            other.on_gpu + self.on_gpu,
        )


class KernelPrices:
    """Prices kernels, and notes which sizes were used."""

    def __init__(self, gpu: Gpu, runtime: Runtime) -> None:
        self.gpu, self.runtime = gpu, runtime
        self.used: dict[str, KernelUse] = {}
        self._known: dict[Compute, KernelUse] = {}

    def cost(self, item: Compute) -> float:
        """Seconds: the host launches while the GPU computes, so a phase takes as long as the slower of the two.

        Reads of GPU values come on top, since the host waits for the GPU and the GPU then waits for the host.
        """
        if not item.elements:
            return 0.0
        if item not in self._known:
            self._known[item] = self._use_of(item)
        use = self._known[item]
        self.used[item.kernel] = use.added_to(self.used.get(item.kernel, KernelUse()))
        return use.seconds

    def _use_of(self, item: Compute) -> KernelUse:
        sizes, curve = np.array(item.elements), self.gpu.curve(item.kernel)
        low, high = (curve.range if curve else None) or (0.0, math.inf)
        outside = int(((sizes < low) | (sizes > high)).sum())
        seconds, calls = self._seconds(item, sizes), item.times * len(sizes)
        followed = self._followed(item, sizes)
        return KernelUse(float(sizes.min()), float(sizes.max()), seconds, calls, item.times * outside, followed)

    def _seconds(self, item: Compute, sizes: Floats) -> float:
        if item.kernel in HOST_KERNELS:
            return item.times * float(sizes.sum()) * float(getattr(self.runtime, HOST_KERNELS[item.kernel]))
        on_gpu, on_host = self._sides(item, sizes)
        return max(on_gpu, on_host) + self.runtime.host_read * item.reads

    def _sides(self, item: Compute, sizes: Floats) -> tuple[float, float]:
        """Seconds of the GPU, and of the launches on the host."""
        on_gpu = item.times * float(self.gpu.kernel_time(item.kernel, sizes).sum())
        return on_gpu, self.runtime.kernel_launch * item.calls

    def _followed(self, item: Compute, sizes: Floats) -> float:
        """Seconds s for which a kernel that takes w times as long on the GPU makes the call (w - 1) s longer.

        All of the GPU's seconds where the GPU decides; fewer, down to none, where launches on the host do. w is the
        factor by which the kernel may be wrong.
        """
        if item.kernel in HOST_KERNELS or self.gpu.ideal:
            return 0.0
        on_gpu, on_host = self._sides(item, sizes)
        width = self.gpu.width(item.kernel)
        if width == 1:
            return on_gpu if on_gpu > on_host else 0.0
        return (max(width * on_gpu, on_host) - max(on_gpu, on_host)) / (width - 1)

    def spread(self, item: Compute) -> float:
        """Standard deviation in seconds: the kernel's runs differ on their own, so their variances add."""
        spread = self.gpu.spread(item.kernel)
        return (
            spread * math.sqrt(item.times) * float(np.linalg.norm(self.gpu.kernel_time(item.kernel, item.elements)))
            if spread
            else 0.0
        )


def update_kernel(workload: Workload, runtime: Runtime) -> Compute:
    """The optimiser's kernel on every tensor, with its framework calls: the workload's own, or the runtime's."""
    calls = (workload.update_calls or runtime.update_calls) * len(workload.layers)
    return Compute("update", tuple(workload.numels), calls, "combine")


def update_time(workload: Workload, gpu: Gpu, runtime: Runtime) -> float:
    """Seconds of the optimiser's step on one GPU by itself; the host launches it while the GPU computes."""
    return KernelPrices(gpu, runtime).cost(update_kernel(workload, runtime))


def runtime_after_exchange(workload: Workload, runtime: Runtime) -> Runtime:
    """The runtime as the optimiser sees it after an exchange, for which the host has waited with its calls."""
    if workload.update_calls is None or runtime.update_launch <= runtime.kernel_launch:
        return runtime
    return runtime.model_copy(update={"kernel_launch": runtime.update_launch})


def add_host_work(exchange: list[Step], bucket: Bucket, runtime: Runtime) -> list[Step]:
    """The exchange; before it comes what the host does to the whole gradient, where the runtime states its cost."""
    if not runtime.exchange_element or all(isinstance(step, Compute) for step in exchange):
        return exchange
    return [Compute("host_exchange", (float(bucket.numel),), 1, "combine"), *exchange]


def chain_steps(
    exchange: Sequence[Step], pricing: KernelPrices, steps: dict[Communication, int]
) -> tuple[tuple[Kernel | int, ...], float]:
    """The exchange up to its last communication, kernels priced, and the seconds of the kernels after it."""
    last = max((i for i, step in enumerate(exchange) if not isinstance(step, Compute)), default=-1)
    chain = tuple(
        Kernel(step.kernel, pricing.cost(step)) if isinstance(step, Compute) else steps.setdefault(step, len(steps))
        for step in exchange[: last + 1]
    )
    return chain, math.fsum(pricing.cost(step) for step in exchange[last + 1 :] if isinstance(step, Compute))
