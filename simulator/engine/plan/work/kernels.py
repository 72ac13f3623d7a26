"""Kernels of the GPU: what they cost, and which sizes an iteration uses."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import HOST_KERNELS, IN_FP32, KERNEL_TRAFFIC, ValueWidths
from simulator.hardware.runtime import Runtime
from simulator.models.curves import Floats
from simulator.models.exchange import Bucket, Communication, Compute, Step
from simulator.models.linear_algebra import weigh
from simulator.models.small_cache import LatestResults
from simulator.records import Record, astuple, replace


class Kernel(Record):
    """A kernel inside an exchange, already priced."""

    label: str
    seconds: float


class KernelUse(Record):
    """How one iteration uses a kernel: its smallest and largest call in elements, and the seconds of all calls.

    `calls`: how many there are, `extrapolated` how many of them are outside the sizes that were measured, and `outside`
    their seconds; `small` and `small_seconds`: the same of those below these sizes.
    `on_gpu`: the seconds that follow the GPU's speed, if it is as uncertain as `Gpu.width` says; the host decides the
    others.
    """

    smallest: float
    largest: float
    seconds: float
    calls: int
    extrapolated: int
    on_gpu: float
    outside: float
    small: int
    small_seconds: float

    def shared_by(self, steps: int) -> KernelUse:
        """The use in each of so many steps, which share its calls."""
        parts = ("seconds", "on_gpu", "outside", "small_seconds")
        return replace(self, **{name: getattr(self, name) / steps for name in parts})


def _together(uses: Sequence[tuple[KernelUse, int]]) -> KernelUse:
    """Several uses as one, each so many times over."""
    sums: list[Any] = [0] * 7
    for use, times in uses:
        sums = [so_far + times * value for so_far, value in zip(sums, astuple(use)[2:], strict=True)]
    return KernelUse(min(use.smallest for use, _ in uses), max(use.largest for use, _ in uses), *sums)


_MOST_KNOWN = 2**14
_known: LatestResults[dict[Compute, KernelUse]] = LatestResults(16)
"""What is known of kernels on one GPU with one runtime, at some widths: points of a sweep ask for the same."""


class KernelPrices:
    """Prices kernels, and notes which sizes were used; with values of other `widths` than fp32 a kernel moves less.

    `times`: how often what is priced now is done in an iteration.
    """

    def __init__(self, gpu: Gpu, runtime: Runtime, widths: ValueWidths = IN_FP32) -> None:
        self.gpu, self.runtime, self.widths = gpu, runtime, widths
        self.times = 1
        self._asked: defaultdict[str, list[tuple[KernelUse, int]]] = defaultdict(list)
        self._known = _known.get((gpu.fingerprint, runtime.fingerprint, widths), dict)

    def used_in(self, steps: int) -> dict[str, KernelUse]:
        """What was asked so far, kernel by kernel; its seconds in each of so many steps that it serves."""
        made = {kernel: _together(each) for kernel, each in self._asked.items()}
        return made if steps == 1 else {kernel: use.shared_by(steps) for kernel, use in made.items()}

    def cost(self, item: Compute) -> float:
        """Seconds: the host launches while the GPU computes, so a phase takes as long as the slower of the two.

        Reads of GPU values come on top, since the host waits for the GPU and the GPU then waits for the host.
        """
        if not item.elements:
            return 0.0
        use = self._known.get(item)
        if use is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            use = self._known[item] = self._use_of(item)
        self._asked[item.kernel].append((use, self.times))
        return use.seconds

    def _use_of(self, item: Compute) -> KernelUse:
        kernel, times, sizes = item.kernel, item.times, self._sizes_in_fp32(item)
        if kernel in HOST_KERNELS:
            each, followed = np.zeros_like(sizes), 0.0
            seconds = times * float(sizes.sum()) * float(getattr(self.runtime, HOST_KERNELS[kernel]))
        else:
            each = self.gpu.kernel_time(kernel, sizes)
            # Ahead, kernels run on threads of the host side by side, so that the longest counts.
            on_gpu = times * float(each.max() if item.ahead else each.sum())
            on_host = 0.0 if item.ahead else self.runtime.kernel_launch * item.calls
            seconds = max(on_gpu, on_host) + self.runtime.host_read * item.reads
            followed = self._followed(kernel, on_gpu, on_host)
        curve = self.gpu.curve(kernel)
        low, high = (curve.range if curve else None) or (0.0, math.inf)
        least, most, nothing = float(sizes.min()), float(sizes.max()), (0, 0.0)
        small, below = _count_calls(sizes < low, each) if least < low else nothing
        outside = least < low or most > high
        extrapolated, beyond = _count_calls((sizes < low) | (sizes > high), each) if outside else nothing
        return KernelUse(
            smallest=least,
            largest=most,
            seconds=seconds,
            calls=times * len(sizes),
            extrapolated=times * extrapolated,
            on_gpu=followed,
            outside=beyond * seconds,
            small=times * small,
            small_seconds=below * seconds,
        )

    def _sizes_in_fp32(self, item: Compute) -> Floats:
        """The sizes that move as many bytes in fp32, in which curves were measured."""
        return self.widths.share(item.kernel) * np.array(item.elements)

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
        if not (spread := self.gpu.spread(item.kernel)):
            return 0.0
        each = self.gpu.kernel_time(item.kernel, self._sizes_in_fp32(item))
        return spread * math.sqrt(item.times) * math.sqrt(weigh(each, each))


def _count_calls(chosen: npt.NDArray[np.bool_], seconds: Floats) -> tuple[int, float]:
    """How many calls are chosen, and their share of the seconds of all; of the calls where these take no time."""
    whole = float(seconds.sum())
    return int(chosen.sum()), float(seconds[chosen].sum()) / whole if whole else float(chosen.mean())


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
