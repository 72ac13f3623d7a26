"""The GPU with its software version: the time of a kernel."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from simulator.bounds import Factor
from simulator.component import Spec, expected
from simulator.hardware.kernels import (
    KERNELS,
    Estimate,
    Framework,
    Hardware,
    Level,
    MemoryKind,
    estimate,
    shipped_rates,
)
from simulator.models.curves import Affine, Curve, Floats
from simulator.units import BytesPerSecond, FlopsPerSecond, Hertz, PositiveBytes, Watts

_LARGE = (1e7, 1e8)
"""Elements between which the rate of a curve is taken."""

QUEUED_START = 1.8e-6
"""Seconds from one small kernel to the next in a queue, in addition to its bytes.

Measured: the 483 kernels of one SGD step of ResNet-50 on a V100 span 1.85 ms, their bytes take 0.98 ms (profiler
trace of pytorch/kineto, tb_plugin samples, BSD-3). Assumed of other GPUs, whose latencies are alike.
"""

POWER_EXPONENT = 0.4
"""Clock under a power limit as a power of the limit: between 1/3 and 1/2 (`Gpu.clock_under_load`)."""


class Gpu(Spec):
    """A GPU with its software version: measured curves of kernels; other kernels are estimated.

    A kernel without a curve is estimated from what it does, and from how kernels were found to run on any GPU
    (`simulator.hardware.kernels`): from the bandwidth that the `elementwise` kernel reaches, or that of the
    data sheet, and from clock and multiprocessors where those limit it. With `ideal`, all kernels take no time.

    - `name`: what results call it.
    - `device`: model of the GPU.
    - `software`: the version whose kernels were measured.
    - `framework`: whose kernels run: `pytorch` (1.12 and later), `pytorch-1.11`, `pytorch-before-1.11` (Top-k in one
      block) or `tensorflow-1`.
    - `source`: where the curves come from.
    - `memory_bandwidth`: of the data sheet, for kernels without a curve.
    - `memory`: HBM or GDDR.
    - `memory_size`: bytes of memory, of the data sheet.
    - `multiprocessors`: of the data sheet, for kernels that these limit.
    - `clock`: boost clock of the data sheet.
    - `fp32_rate`: arithmetic in fp32, of the data sheet.
    - `tensor_rates`: matrix products of its tensor cores with dense operands and sums in fp32, by format, of the data
      sheet.
    - `product_share`: share of the data sheet's rate in 16 bits that the largest products on its tensor cores reach.
    - `fp8_share`: what large products in fp8 reach of their rate, over what those in 16 bits reach of theirs.
    - `l2_cache`: size of the second-level cache.
    - `board_power`: the most that it draws, of the data sheet.
    - `power_limit`: the most that it may draw where it is set lower (`nvidia-smi -pl`): its clock falls under load.
    - `kernels`: curves from elements to seconds, by kernel.
    """

    name: str
    device: str = ""
    software: str = ""
    framework: Framework = "pytorch"
    source: str = ""
    memory_bandwidth: BytesPerSecond | None = None
    memory: MemoryKind | None = None
    memory_size: PositiveBytes | None = None
    multiprocessors: int | None = Field(default=None, ge=1, le=100_000)
    clock: Hertz | None = None
    fp32_rate: FlopsPerSecond | None = None
    tensor_rates: dict[Literal["tf32", "fp16", "bf16", "fp8"], FlopsPerSecond] = Field(default_factory=dict)
    product_share: Factor | None = None
    fp8_share: Factor | None = None
    l2_cache: PositiveBytes | None = None
    board_power: Watts | None = None
    power_limit: Watts | None = None
    ideal: bool = False
    kernels: dict[str, Curve] = Field(default_factory=dict)

    def refuse_unfit(self) -> None:
        if self.power_limit is not None and self.board_power is None:
            raise expected("a board_power beside power_limit", "none", "how much slower it runs follows from both")

    @property
    def clock_under_load(self) -> float:
        """Share of its clock that is left while arithmetic draws all power that is allowed, (limit / board_power)^0.4.

        The power of switching grows as voltage squared times frequency, and the voltage about as the frequency (Mudge
        2001, IEEE Computer 34(4)): an exponent of 1/3 if all power were of this kind, and more with what is not; 1/2 is
        reached where a third of it is constant.
        """
        if self.power_limit is None or self.board_power is None:
            return 1.0
        return float(min(1.0, self.power_limit / self.board_power) ** POWER_EXPONENT)

    def curve(self, kernel: str) -> Curve | None:
        """The curve that the GPU states for a kernel, measured or carried over from another; None if it has none.

        A kernel that does the same as another has the other's curve.
        """
        if self.ideal:
            return None
        same = KERNELS[kernel].same_as if kernel in KERNELS else ""
        return self.kernels.get(kernel) or self.kernels.get(same)

    def kernel_time(self, kernel: str, elements: npt.ArrayLike) -> Floats:
        """Seconds of one call of `kernel` for each number of elements, same shape; 0 for no elements."""
        sizes = np.asarray(elements, dtype=float)
        if self.ideal:
            return np.zeros_like(sizes)
        curve = self.curve(kernel) or self.estimate(kernel).curve
        return np.where(sizes > 0, curve.time(sizes), 0.0)

    def estimate(self, kernel: str) -> Estimate:
        """The time that a kernel without a curve has here, and how far such an estimate may be off."""
        if kernel not in self._estimates:
            self._estimates[kernel] = estimate(kernel, self.hardware, shipped_rates())
        return self._estimates[kernel]

    def level(self, kernel: str) -> Level:
        """How the time of a kernel is known: timed on this GPU, on others, or nowhere."""
        curve = self.curve(kernel)
        return self.estimate(kernel).level if curve is None else "transferred" if curve.derived else "measured"

    def width(self, kernel: str) -> float:
        """Factor by which a kernel's time may be off either way, in nine of ten cases; 1 if it was timed here.

        A curve that was carried over states its own width, or is as wrong as estimates are.
        """
        curve = self.curve(kernel)
        stated = curve.width if curve is not None else None
        return 1.0 if self.level(kernel) == "measured" else stated or self.estimate(kernel).width

    def spread(self, kernel: str) -> float:
        """Relative standard deviation of the kernel's time from worker to worker."""
        curve = self.curve(kernel)
        return curve.spread if curve is not None else 0.0

    def passes_time(self, nbytes: float, kernels: int) -> float:
        """Seconds of `kernels` element-wise kernels that stand in a queue and move `nbytes` bytes in all.

        bytes at the rate of `elementwise`, and `QUEUED_START` per kernel: the start-up of a single call is mostly its
        launch, which the host has made by then.
        """
        if self.ideal:
            return 0.0
        start, per_byte = self._memory
        return nbytes * per_byte + kernels * min(start, QUEUED_START)

    @cached_property
    def _memory(self) -> tuple[float, float]:
        """Start-up of an element-wise kernel, and its seconds per byte."""
        bandwidth = self.hardware.usable_bandwidth(shipped_rates())
        return self.hardware.start or 0.0, 1 / bandwidth if bandwidth else 0.0

    @cached_property
    def hardware(self) -> Hardware:
        """What estimates of kernels need to know of this GPU."""
        base = self.kernels.get("elementwise")
        reached = start = None
        if base is not None:
            if isinstance(base, Affine):
                start, per_element = base.intercept, base.slope
            else:
                few, many = base.time(_LARGE).tolist()
                per_element = (many - few) / (_LARGE[1] - _LARGE[0])
                start = max(0.0, few - per_element * _LARGE[0])
            reached = KERNELS["elementwise"].nbytes / per_element if per_element > 0 else None
        cycles = self.multiprocessors * self.clock if self.multiprocessors and self.clock else None
        return Hardware(self.memory_bandwidth, reached, start, cycles, self.clock, self.memory, self.framework)

    @cached_property
    def _estimates(self) -> dict[str, Estimate]:
        return {}
