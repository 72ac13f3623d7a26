"""What is known of every kernel on every GPU: timed there, elsewhere or nowhere, and how far it may be off."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import starmap
from statistics import median
from typing import Any

from simulator.calibration.kernel_rates import (
    LeftOut,
    leave_gpus_out,
    leave_kernels_out,
    shipped_measurements,
)
from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import HOST_KERNELS, KERNEL_TRAFFIC, KERNELS, implementation, shipped_rates, work_of
from simulator.models.groups import group_by

SIZES = (1_000_000, 100_000_000)
CLOSE = 1.5
"""An estimate within this factor of what was measured counts as close."""


def kernel_rows(gpus: Mapping[str, Gpu]) -> list[dict[str, Any]]:
    """A row for each GPU and kernel.

    `level`: measured, transferred or estimated. `width`: factor by which it may be wrong either way in nine of ten
    cases; `held_out_mape` of a curve that was measured. `count`: GPUs on which this implementation was timed.
    `seconds`: of one call with each of `SIZES` elements.
    """
    rates = shipped_rates()
    rows = []
    for name, gpu in gpus.items():
        for kernel in KERNELS:
            if gpu.ideal or kernel in HOST_KERNELS:
                continue
            curve = gpu.curve(kernel)
            known = rates.kernels.get(implementation(kernel, gpu.framework))
            rows.append(
                {
                    "gpu": name,
                    "kernel": kernel,
                    "implementation": implementation(kernel, gpu.framework),
                    "class": work_of(kernel, gpu.framework).kind,
                    "bytes_per_element": KERNEL_TRAFFIC[kernel],
                    "level": gpu.level(kernel),
                    "width": gpu.width(kernel) if gpu.level(kernel) != "measured" else None,
                    "held_out_mape": curve.held_out_mape if curve is not None and not curve.derived else None,
                    "count": known.count if known else 0,
                    "seconds": gpu.kernel_time(kernel, SIZES).tolist(),
                }
            )
    return rows


def accuracy_rows() -> dict[str, Any]:
    """Errors of estimates on what they were not learnt from: a GPU at a time by kernel, a kernel at a time by class.

    Each with its number of GPUs or kernels, of values, the shares of the values within a factor of 1.5 and within the
    width (which is learnt without them), and the median factor of the error.
    """
    timed = shipped_measurements()
    gpus, kernels = leave_gpus_out(timed, widths=True), leave_kernels_out(timed, widths=True)
    by_kernel = group_by(gpus, lambda item: item.timed.name)
    by_class = group_by(kernels, lambda item: item.timed.work.kind)
    return {
        "leave_one_gpu_out": [*starmap(_summary, sorted(by_kernel.items())), _summary("all", gpus)],
        "leave_one_kernel_out": [*starmap(_summary, sorted(by_class.items())), _summary("all", kernels)],
    }


def _summary(name: str, items: Sequence[LeftOut]) -> dict[str, Any]:
    ratios = [(abs(math.log(ratio)), math.log(item.width)) for item in items for ratio in item.ratios]
    errors = sorted(error for error, _ in ratios)
    return {
        "name": name,
        "gpus": len({item.timed.device for item in items}),
        "kernels": len({item.timed.name for item in items}),
        "values": len(errors),
        "median_factor": math.exp(median(errors)),
        "worst_factor": math.exp(errors[-1]),
        "close": sum(error <= math.log(CLOSE) for error in errors) / len(errors),
        "within_width": sum(error <= width for error, width in ratios) / len(errors),
    }
