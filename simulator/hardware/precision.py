"""Kernels at another precision than fp32: how many of their bytes are values, and what is left of their work."""

from __future__ import annotations

import math
from typing import Literal

from simulator.hardware.kernels import KERNEL_TRAFFIC, KERNELS
from simulator.models.precision import FP32_BYTES, NUMBER_BYTES, Precision
from simulator.records import Record

Role = Literal["gradients", "accumulated", "weights"]

VALUES: dict[str, dict[Role, float]] = {
    "elementwise": {"accumulated": 1.0},
    "copy": {"gradients": 1.0},
    "residual_add": {"gradients": 1 / 3, "accumulated": 2 / 3},  # reads the gradient, reads and writes the residual
    "residual_clear": {"accumulated": 1.0},
    "threshold_scan": {"accumulated": 1.0},
    "masked_select": {"accumulated": 1.0},
    "gather": {"accumulated": 1.0},
    "norm": {"accumulated": 1.0},
    "statistics": {"accumulated": 1.0},
    "quantise": {"accumulated": 1.0},
    "pack": {"accumulated": 1.0},
    "dequantise": {"gradients": 1.0},
    "matmul": {"accumulated": 1.0},
    "dct": {"accumulated": 1.0},
    "unscale": {"gradients": 1 / 2, "weights": 1 / 2},  # reads the gradient, writes what the optimiser reads
}
"""What the values are that a kernel reads and writes (`KernelWork.values`), as shares: gradients, sums with the
residual (`accumulated`), or weights and states of the optimiser.

Not in it: the update, whose optimiser says its bytes at any width. Nor what short numbers make no faster: Top-k and
sorts, which compare; kernels of indices; work of the host; casts, which always move one number of 32 bits and one of
16; and scatter-adds, which are bound by atomic additions and sectors (PyTorch 1.12 and later: as long in fp16 as in
fp32; before, fp16 took up to 12 times as long where indices are close together; pytorch issue 74487, pull requests
61440 and 76996).
"""


class ValueWidths(Record):
    """Bytes of the values that kernels work on: gradients, sums with the residual, weights and states."""

    gradients: int = FP32_BYTES
    accumulated: int = FP32_BYTES
    weights: int = FP32_BYTES

    def share(self, kernel: str) -> float:
        """Bytes that the kernel moves at these widths over those in fp32: 1 - (v / m) sum of r_i (1 - w_i / 4).

        m are all of its bytes, v those of values, r_i the share of role i in them, and w_i the width of that role. It
        is taken as bound by memory: n elements take the time of n times this share in fp32. 1 for kernels that are not
        in the tables.
        """
        if kernel not in VALUES:
            return 1.0
        saved = math.fsum(part * (1 - getattr(self, role) / FP32_BYTES) for role, part in VALUES[kernel].items())
        return 1.0 - KERNELS[kernel].values / KERNEL_TRAFFIC[kernel] * saved


def widths_of(precision: Precision, has_residual: bool) -> ValueWidths:
    """The widths at a precision, with a method that keeps a residual or that works on the gradients themselves."""
    return ValueWidths(
        gradients=precision.gradient_bytes,
        accumulated=NUMBER_BYTES[precision.residuals] if has_residual else precision.gradient_bytes,
        weights=FP32_BYTES if precision.has_master_weights else precision.gradient_bytes,
    )


IN_FP32 = ValueWidths()
