"""How much slower kernels run while a collective is under way, where nobody measured it: a prior and its width."""

from __future__ import annotations

from statistics import median
from typing import NamedTuple


class MeasuredSlowdown(NamedTuple):
    """What one set-up showed: how much slower its kernels ran while collectives were under way, and how it is known."""

    setup: str
    slowdown: float
    source: str


MEASURED = (
    MeasuredSlowdown(
        "ResNet-50 on RTX 2080 Ti",
        0.06,
        "WFBP and MG-WFBP, all-reduce and parameter servers on 100 Gb InfiniBand, fitted to six rows (HKBU-HPML/"
        "ddl-benchmarks, 2020); the same on 10 GbE",
    ),
    MeasuredSlowdown(
        "BERT-Base on RTX 2080 Ti",
        0.66,
        "all-reduce on four GPUs of one node, fitted to two rows (HKBU-HPML/ddl-benchmarks, 2020); 0.60 to 1.19 on "
        "100 Gb InfiniBand",
    ),
    MeasuredSlowdown(
        "ResNet-50 on V100, TensorFlow 1",
        0.759,
        "all-reduce over TCP on 2 nodes, fitted to one row (runtimes/horovod-tensorflow1)",
    ),
    MeasuredSlowdown(
        "Inception-v4 on V100",
        1.041,
        "all-reduce over TCP on 4 nodes, fitted to three rows (runtimes/horovod-v100-10gbe); 0.9 to 1.7 on three other "
        "networks",
    ),
)
"""Set-ups whose overlapped iterations tell the slowdown from everything else, from small to large.

No law explains them. A collective's blocks hold c of the GPU's n multiprocessors. Over all sizes of kernels that costs
c / n on average, 3 % for the two channels of NCCL over PCIe and sockets; what it moves through GPU memory, up to four
bytes per byte of a link, is 4 % of the memory bandwidth of an RTX 2080 Ti. That is what ResNet-50 shows on it. A
kernel whose blocks fill the GPU in one wave takes a second one, so that up to 100 % is possible (a matrix product of
132 blocks on the 132 multiprocessors of an H100 nearly doubles beside an all-gather of 24 blocks: NVIDIA's developer
forum, topic 337991, 2025). Which it is depends on the grids of a model's kernels, which no profile here records.
"""


def estimate_slowdown(measured: tuple[MeasuredSlowdown, ...] = MEASURED) -> tuple[float, float]:
    """The slowdown of a set-up that nobody measured, and its width: by what share of it it may be wrong either way.

    The median of the set-ups, each of which counts once. Width: every set-up is predicted from the others, and nine in
    ten of them are to be inside; with fewer than ten, all are.
    """
    values = [item.slowdown for item in measured]
    off = []
    for place, value in enumerate(values):
        others = median(values[:place] + values[place + 1 :])
        off.append(abs(value / others - 1))
    enough = -(-9 * len(off) // 10)  # rounded up
    return median(values), sorted(off)[enough - 1]
