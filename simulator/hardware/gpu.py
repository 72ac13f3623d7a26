"""The GPU with its software version: the time of a kernel."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
from pydantic import Field

from simulator.component import Spec
from simulator.hardware.kernels import KERNEL_TRAFFIC
from simulator.models.curves import Affine, Curve, Floats
from simulator.units import BytesPerSecond

QUEUED_START = 1.8e-6
"""Seconds from one small kernel to the next in a queue, in addition to its bytes.

Measured: the 483 kernels of one SGD step of ResNet-50 on a V100 span 1.85 ms, their bytes take 0.98 ms (profiler
trace of pytorch/kineto, tb_plugin samples, BSD-3). Assumed of other GPUs, whose latencies are alike.
"""


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
        base = self.kernels.get("elementwise")
        if isinstance(base, Affine):
            return base.intercept, base.slope / KERNEL_TRAFFIC["elementwise"]
        return 0.0, 1 / self.memory_bandwidth if self.memory_bandwidth else 0.0

    @cached_property
    def floor(self) -> dict[str, Affine]:
        """The time of each kernel as estimated from the bytes that it moves."""
        start, per_byte = self._memory
        return {name: Affine(intercept=start, slope=per_byte * nbytes) for name, nbytes in KERNEL_TRAFFIC.items()}
