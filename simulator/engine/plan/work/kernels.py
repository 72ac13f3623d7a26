"""Kernels of the GPU: what they cost, and which sizes an iteration uses."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import HOST_KERNELS, KERNEL_TRAFFIC
from simulator.hardware.precision import IN_FP32, ValueWidths
from simulator.hardware.runtime import Runtime
from simulator.models.curves import Floats
from simulator.models.exchange import (
    Bucket,
    Communication,
    Compute,
    Step,
)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel inside an exchange, already priced."""

    label: str
    seconds: float


@dataclass(frozen=True, slots=True)
class KernelUse:
    """How one iteration uses a kernel: its smallest and largest call in elements, and the seconds of all calls.

    `calls`: how many there are, `extrapolated` how many of them are outside the sizes that were measured, and `outside`
    their seconds; `small` and `small_seconds`: the same of those below these sizes.
    `on_gpu`: the seconds that follow the GPU's speed, if it is as uncertain as `Gpu.width` says; the host decides the
    others.
    """

    smallest: float = math.inf
    largest: float = 0.0
    seconds: float = 0.0
    calls: int = 0
    extrapolated: int = 0
    on_gpu: float = 0.0
    outside: float = 0.0
    small: int = 0
    small_seconds: float = 0.0


def _together(uses: Sequence[KernelUse]) -> KernelUse:
    """Several uses as one; seconds are added in their order."""
    seconds = on_gpu = outside = small = 0.0
    for use in uses:
        seconds += use.seconds
        on_gpu += use.on_gpu
        outside += use.outside
        small += use.small_seconds
    return KernelUse(
        min(use.smallest for use in uses),
        max(use.largest for use in uses),
        seconds,
        sum(use.calls for use in uses),
        sum(use.extrapolated for use in uses),
        on_gpu,
        outside,
        sum(use.small for use in uses),
        small,
    )


class KernelPrices:
    """Prices kernels, and notes which sizes were used; with values of other `widths` than fp32 a kernel moves less."""

    def __init__(self, gpu: Gpu, runtime: Runtime, widths: ValueWidths = IN_FP32) -> None:
        self.gpu, self.runtime, self.widths = gpu, runtime, widths
        self._asked: defaultdict[str, list[KernelUse]] = defaultdict(list)
        self._known: dict[Compute, KernelUse] = {}

    @property
    def used(self) -> dict[str, KernelUse]:
        """What was asked so far, kernel by kernel."""
        return {kernel: _together(uses) for kernel, uses in self._asked.items()}

    def cost(self, item: Compute) -> float:
        """Seconds: the host launches while the GPU computes, so a phase takes as long as the slower of the two.

        Reads of GPU values come on top, since the host waits for the GPU and the GPU then waits for the host.
        """
        if not item.elements:
            return 0.0
        use = self._known.get(item)
        if use is None:
            use = self._known[item] = self._use_of(item)
        self._asked[item.kernel].append(use)
        return use.seconds

    def _use_of(self, item: Compute) -> KernelUse:
        sizes, curve = self._as_fp32(item), self.gpu.curve(item.kernel)
        low, high = (curve.range if curve else None) or (0.0, math.inf)
        beyond = (sizes < low) | (sizes > high)
        outside = int(beyond.sum())
        if item.kernel in HOST_KERNELS:
            per_element = float(getattr(self.runtime, HOST_KERNELS[item.kernel]))
            seconds, followed = item.times * float(sizes.sum()) * per_element, 0.0
        else:
            on_gpu, on_host = self._sides(item, sizes)
            seconds = max(on_gpu, on_host) + self.runtime.host_read * item.reads
            followed = self._followed(item.kernel, on_gpu, on_host)
        calls = item.times * len(sizes)
        small = int((sizes < low).sum())
        share = self._share(item.kernel, sizes, beyond) if outside else 0.0
        share_of_small = self._share(item.kernel, sizes, sizes < low) if small else 0.0
        return KernelUse(
            float(sizes.min()),
            float(sizes.max()),
            seconds,
            calls,
            item.times * outside,
            followed,
            share * seconds,
            item.times * small,
            share_of_small * seconds,
        )

    def _share(self, kernel: str, sizes: Floats, chosen: npt.NDArray[np.bool_]) -> float:
        """The share of the calls of these sizes (n,) in the time that the chosen ones (n,) of them take on the GPU."""
        each = self.gpu.kernel_time(kernel, sizes)
        total = float(each.sum())
        return float(each[chosen].sum()) / total if total else float(chosen.mean())

    def _as_fp32(self, item: Compute) -> Floats:
        """Elements of each call in fp32 that move as many bytes: where the curve, measured in fp32, is asked."""
        return self.widths.share(item.kernel) * np.array(item.elements)

    def _sides(self, item: Compute, sizes: Floats) -> tuple[float, float]:
        """Seconds of the GPU, and of the launches on the host."""
        each = self.gpu.kernel_time(item.kernel, sizes)
        if item.ahead:  # on threads of the host side by side, so that the longest counts
            return item.times * float(each.max()), 0.0
        return item.times * float(each.sum()), self.runtime.kernel_launch * item.calls

    def _followed(self, kernel: str, on_gpu: float, on_host: float) -> float:
        """Seconds s for which a kernel that takes w times as long on the GPU makes the call (w - 1) s longer.

        All of the GPU's seconds where the GPU decides; fewer, down to none, where launches on the host do. w is the
        factor by which the kernel may be wrong.
        """
        if self.gpu.ideal:
            return 0.0
        width = self.gpu.width(kernel)
        if width == 1:
            return on_gpu if on_gpu > on_host else 0.0
        return (max(width * on_gpu, on_host) - max(on_gpu, on_host)) / (width - 1)

    def spread(self, item: Compute) -> float:
        """Standard deviation in seconds: the kernel's runs differ on their own, so their variances add."""
        spread = self.gpu.spread(item.kernel)
        return (
            spread
            * math.sqrt(item.times)
            * float(np.linalg.norm(self.gpu.kernel_time(item.kernel, self._as_fp32(item))))
            if spread
            else 0.0
        )


def filling_kernels(bucket: Bucket) -> tuple[Compute, Compute]:
    """What a runtime that fills buckets does to one: copies to it, with the division by the workers, and copies back.

    One kernel and one call per tensor and way; the division is one more pass over the bucket. They are element-wise
    kernels that move two values where an addition, which is measured on many GPUs, moves three.
    """
    share = KERNEL_TRAFFIC["copy"] / KERNEL_TRAFFIC["elementwise"]
    pieces = tuple(share * numel for numel in bucket.pieces)
    there = Compute("elementwise", (*pieces, share * bucket.numel), len(pieces) + 1, "combine")
    return there, Compute("elementwise", pieces, len(pieces), "combine")


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
