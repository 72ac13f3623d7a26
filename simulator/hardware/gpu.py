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
