"""Kernels at other precisions: the share of their bytes that is left."""

import pytest

from simulator.hardware.kernels import IN_FP32, KERNEL_TRAFFIC, KERNELS, VALUES, VARIANTS, ValueWidths, widths_of
from simulator.models.precision import Precision

BY_HAND = {
    "elementwise": (12, 0, 1), "copy": (8, 0, 1), "residual_add": (12, 0, 1), "update": (8 + 12 + 12, 0, 3),
    "cast": (4 + 2, 0, 1), "unscale": (8, 0, 1), "quantise": (8 + 8 + 4, 1, 3), "dequantise": (8, 1, 1),
    "matmul": (12, 0, 1), "random_indices": (0, 8, 1), "norm": (4, 0, 2), "statistics": (8, 0, 2), "pack": (4, 26, 3),
    "dct": (4 * 8, 0, 4), "pack_indices": (0, 66, 18), "unpack_indices": (0, 102, 13), "nonzero": (0, 1 + 1, 3),
    "masked_select": (4, 0, 1), "threshold_scan": (8 + 4, 1, 2), "gather": (4 + 4, 8, 1), "residual_clear": (4, 4, 1),
    "scatter_add": (4 + 4 + 8, 8, 1), "hash": (448, 0, 1), "topk": (8 + 4 * 4 + 2 * 4, 0, 12),
    "chunk_topk": (8 + 4 + 4, 0, 2), "radix_select": (4 * 4 + 2 * 4, 0, 9), "radix_sort": (36, 0, 6),
    "sort": (36, 72, 8), "topk_by_sort": (8, 0, 1), "unique": (0, 64, 8), "shuffle": (0, 8, 1), "host_op": (16, 0, 1),
    "host_merge": (0, 0, 0), "host_exchange": (0, 0, 0),
}  # fmt: skip
"""Bytes of values, and of indices, masks and codes, that the passes of a kernel read and write; and its launches."""


def test_kernels_move_what_their_passes_read_and_write():
    assert {name: (work.values, work.indices, work.launches) for name, work in KERNELS.items()} == BY_HAND
    assert {name for name, work in KERNELS.items() if work.parts} == {"masked_select", "threshold_scan", "topk_by_sort"}
    assert KERNEL_TRAFFIC["threshold_scan"] == 13 + 2 and KERNEL_TRAFFIC["topk_by_sort"] == 8 + 108
    # Sorts are the same work everywhere; what searches in one block starts few kernels.
    assert {(name, work.values, work.indices, work.launches) for (name, _), work in VARIANTS.items()} == {
        ("topk", 32, 0, 2), ("topk", 32, 0, 11), ("sort", 36, 72, 8),
    }  # fmt: skip


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
