"""Kernels at other precisions: the share of their bytes that is left."""

import pytest

from simulator.hardware.kernels import IN_FP32, KERNEL_TRAFFIC, KERNELS, VALUES, ValueWidths, widths_of
from simulator.models.precision import Precision


def test_every_value_of_a_kernel_has_one_role():
    for kernel, roles in VALUES.items():
        assert sum(roles.values()) == pytest.approx(1)
        assert 0 < KERNELS[kernel].values <= KERNEL_TRAFFIC[kernel]
    assert {IN_FP32.share(kernel) for kernel in KERNEL_TRAFFIC} == {1.0}


def test_shares_follow_from_the_bytes_of_what_a_kernel_reads_and_writes():
    """bf16 gradients on an fp32 residual: 2 + 4 + 4 of 12 bytes; a residual of their format: 6; sorts never change."""
    mixed, short = (widths_of(Precision(gradients="bf16", residuals=kept), True) for kept in ("fp32", "bf16"))
    assert mixed.share("residual_add") == pytest.approx(10 / 12)
    assert short.share("residual_add") == 0.5
    assert (mixed.share("threshold_scan"), short.share("threshold_scan")) == (1, (15 - 6) / 15)  # 3 bytes of masks
    assert widths_of(Precision(gradients="bf16"), False).share("quantise") == pytest.approx((20 / 2 + 1) / 21)
    narrow = ValueWidths(2, 2, 2)
    assert {narrow.share(kernel) for kernel in ("topk", "sort", "unique", "scatter_add", "cast", "no such kernel")} == {
        1.0
    }
    assert narrow.share("unscale") == 0.5
    assert widths_of(Precision(gradients="fp16"), False).share("unscale") == 6 / 8  # it writes fp32 gradients
