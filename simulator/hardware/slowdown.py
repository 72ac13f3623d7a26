"""How much slower kernels run while a collective is under way, where nobody measured it: a prior and its width."""

from __future__ import annotations

from functools import cache
from statistics import median
from typing import NamedTuple

from simulator.models.groups import group_by
from simulator.models.widths import nine_in_ten, off_from_others


class MeasuredSlowdown(NamedTuple):
    """What one set-up showed: how much slower its kernels ran while collectives were under way, and how it is known."""

    setup: str
    slowdown: float
    source: str
    gpu: str = ""


MEASURED = (
    MeasuredSlowdown(
        "ResNet-50 on RTX 2080 Ti",
        0.01,
        "WFBP and MG-WFBP, all-reduce and parameter servers on 100 Gb InfiniBand, fitted to six rows (HKBU-HPML/"
        "ddl-benchmarks, 2020); the same on 10 GbE",
        "RTX 2080 Ti",
    ),
    MeasuredSlowdown(
        "ResNet-50 on V100, TensorFlow 1",
        0.702,
        "all-reduce over TCP on 2 nodes, fitted to one row (runtimes/horovod-tensorflow1)",
        "V100",
    ),
    MeasuredSlowdown(
        "kernels of GPT on A100",
        (0.33 + 2.08 + 0.05) / (0.18 + 1.18 + 0.02) - 1,
        "all-gather over NVLink in one node; milliseconds of an attention, a matrix product and an element-wise kernel "
        "with and without it (NVIDIA/nccl, issue 1428, 2024)",
        "A100",
    ),
    MeasuredSlowdown(
        "BERT-Base on RTX 2080 Ti",
        0.79,
        "all-reduce on four GPUs of one node, fitted to two rows (HKBU-HPML/ddl-benchmarks, 2020); 0.7 to 1.1 on "
        "100 Gb InfiniBand",
        "RTX 2080 Ti",
    ),
    MeasuredSlowdown(
        "Inception-v4 on V100",
        1.041,
        "all-reduce over TCP on 4 nodes, fitted to three rows (runtimes/horovod-v100-10gbe); 0.9 to 1.7 on three other "
        "networks",
        "V100",
    ),
)
"""Set-ups that tell the slowdown from everything else, from small to large.

No law explains them. A collective's blocks hold c of the GPU's n multiprocessors. Over all sizes of kernels that costs
c / n on average, 3 % for the two channels of NCCL over PCIe and sockets; what it moves through GPU memory, up to three
bytes per byte on a link, is 3 % of the memory bandwidth of an RTX 2080 Ti. ResNet-50 shows no more on it. On
NVLink the share of the memory is 30 to 45 %, as much as would slow the element-wise kernels of the A100, but not its
matrix products. A kernel whose blocks fill the GPU in one wave takes a second one, so that up to 100 % is possible (a
matrix product of 132 blocks on the 132 multiprocessors of an H100 nearly doubles beside an all-gather of 24 blocks:
NVIDIA's developer forum, topic 337991, 2025), and one whose blocks wait for each other can wait for the whole
collective (batch norm of cuDNN, two to four times as long: NVIDIA/nccl, issue 338, 2020). Which it is depends on the
kernels of a model, which no profile here records. Over all compute, overlapped or not, GPT and LLaMA took 18.9 % longer
on A100, H100 and two GPUs of AMD (Lee et al., arXiv 2507.03114, 2025).
"""


def estimate_slowdown(measured: tuple[MeasuredSlowdown, ...] = MEASURED) -> tuple[float, float]:
    """The slowdown of a set-up that nobody measured, and its width: by what share of it it may be wrong either way.

    The median of the set-ups, each of which counts once. Width: every set-up is predicted from the others, and nine in
    ten of them are to be inside; with fewer than ten, all are.
    """
    values = [item.slowdown for item in measured]
    return median(values), nine_in_ten(off_from_others([values], lambda value, other: abs(value / other - 1)))


MORE_MODELS = (
    MeasuredSlowdown(
        "DenseNet-161 on V100",
        1.465,
        "as Inception-v4, fitted to three rows by themselves; guessed layer times",
        "V100",
    ),
    MeasuredSlowdown("ResNet-152 on V100", 0.874, "as Inception-v4, fitted to three rows by themselves", "V100"),
)
"""More models on GPUs of `MEASURED`, for what changes from model to model only: one group, one runtime, one network."""


@cache
def spread_between_models(measured: tuple[MeasuredSlowdown, ...] = MEASURED + MORE_MODELS) -> float:
    """What a slowdown measured for one model may be off by for another on the same GPU, added either way (0.78).

    Every model is predicted by the median of the others on its GPU; nine in ten are to be inside, with fewer than ten
    all. It is as large as between any two set-ups, since ResNet-50 and BERT-Base differ that much on an RTX 2080 Ti.
    """
    groups = group_by(measured, lambda item: item.gpu).values()
    found = ([item.slowdown for item in items] for items in groups)
    return nine_in_ten(off_from_others(found, lambda value, other: abs(value - other)))
