"""Kernels of the GPU: what they cost, and which sizes an iteration uses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import (
    Communication,
    Compute,
    Step,
)
from simulator.models.hardware import Gpu, Runtime
from simulator.models.layers import Workload


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel inside an exchange, already priced."""

    label: str
    seconds: float


@dataclass(frozen=True, slots=True)
class KernelUse:
    """How one iteration uses a kernel: the smallest and the largest call in elements, and the seconds of all calls."""

    smallest: float
    largest: float
    seconds: float


class KernelPrices:
    """Prices kernels, and notes which sizes were used."""

    def __init__(self, gpu: Gpu, runtime: Runtime) -> None:
        self.gpu, self.runtime = gpu, runtime
        self.used: dict[str, KernelUse] = {}
        self._known: dict[Compute, tuple[float, float, float]] = {}

    def cost(self, item: Compute) -> float:
        """Seconds: the host launches while the GPU computes, so a phase takes as long as the slower of the two."""
        if not item.elements:
            return 0.0
        if item not in self._known:
            sizes = np.array(item.elements)
            self._known[item] = self._seconds(item, sizes), float(sizes.min()), float(sizes.max())
        seconds, smallest, largest = self._known[item]
        known = self.used.get(item.kernel, KernelUse(np.inf, 0.0, 0.0))
        self.used[item.kernel] = KernelUse(
            min(known.smallest, smallest), max(known.largest, largest), known.seconds + seconds
        )
        return seconds

    def _seconds(self, item: Compute, sizes: Floats) -> float:
        if item.kernel == "host_merge":
            return item.times * float(sizes.sum()) * self.runtime.host_element
        return max(
            item.times * float(self.gpu.kernel_time(item.kernel, sizes).sum()), self.runtime.kernel_launch * item.calls
        )

    def spread(self, item: Compute) -> float:
        """Standard deviation in seconds: the kernel's runs differ on their own, so their variances add."""
        spread = self.gpu.spread(item.kernel)
        return (
            spread * math.sqrt(item.times) * float(np.linalg.norm(self.gpu.kernel_time(item.kernel, item.elements)))
            if spread
            else 0.0
        )


def update_time(workload: Workload, gpu: Gpu, runtime: Runtime) -> float:
    """Seconds of the optimiser's step: its kernel on every tensor, `update_calls` framework calls each."""
    calls = runtime.update_calls * len(workload.layers)
    return KernelPrices(gpu, runtime).cost(Compute("update", tuple(workload.numels), calls, "combine"))


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
