"""How far the compute time of a workload may be off on a GPU, and whether it was measured on that GPU."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import Level
from simulator.models.layers import Estimated, Workload

REPEATED = 1.05
"""Repeats of the same code on the same machines: runs of 4 V100 differ by 0.2 to 5 % (kljp/sage), those of
the 32 RTX 2080 Ti have a deviation of 0.5 % (median; HKBU-HPML/ddl-benchmarks)."""
OTHER_SOFTWARE = 1.31
"""A profile of the same GPU model from other machines and versions. Backward passes at a batch of 32 on V100: ResNet-50
63.4 to 67.3 ms in five profiles, ResNet-101 106.4 and 120.4 ms, VGG-16 85.3 and 111.6 ms (the sources that
`simulator.models.widths` names). Each against the median of the others, nine values: the largest."""
OTHER_GPU = 3.65
"""Times of another GPU, as they are. Five transformers in eight shapes, fp32, on V100, A100, H100 and L4
(sitar-lab/NeuSight, MIT): 23 pairs, median 2.6, largest 4.4."""
OTHER_GPU_SCALED = 1.62
"""Times of another GPU in proportion to 1 / sqrt(memory bandwidth x fp32 rate) of the data sheets: nine in ten of
the 23 pairs are within 1.24, all within 1.44. By bandwidth alone nine in ten are within 3.8, by the fp32 rate 2.6. The
rule was chosen with these pairs in sight, so that the width is what it leaves on three that were not: from the V100
profiles of the package to one RTX 2080 Ti 1.03 (ResNet-50), 1.33 (BERT-Large) and 1.62 (BERT-Base), iteration without
update; the profiles of BERT state no batch."""
SMALLER_PASSES = 0.38
"""Passes over an m-th of a batch may take up to m^0.38 times as long together as one pass over the batch, in nine of
ten cases, and never less: small kernels use a GPU less well. Steps of five models on a T4 at several batches (BERT,
DeepSpeech 2, CNNs on CIFAR-10 and ImageNet, YOLOv3): 89 pairs that are a factor of 1.9 to 32 apart have a median
exponent of 0.21; nine in ten are within 0.38, all within 0.76. Steps hold updates and launches, so that the exponent of
the passes alone is smaller (Qiao et al., Pollux, OSDI 2021; petuum/adaptdl, branch osdi21-artifact). A sixth model was
left out: a step of NCF takes 7 ms at any batch below 1,000, so that m passes take m times as long."""
_BRANDS = re.compile(r"nvidia|tesla|geforce|quadro|\d+\s*gb|hbm\d?e?")
_FORM = re.compile(r"sxm\d?|pcie|dgxs|nvl")


class ComputeWidth(NamedTuple):
    """Factor by which forward and backward may be off, either way, in nine of ten cases; how they are known; why."""

    width: float
    level: Level
    source: str


@lru_cache(maxsize=1024)
def same_device(one: str, other: str) -> bool:
    """Whether two names are of one model of GPU: without brand and memory, and boards only where both name one.

    >>> same_device("Tesla V100", "NVIDIA V100-SXM2-32GB"), same_device("RTX 3080", "GeForce RTX 3080 Ti")
    (True, False)
    >>> same_device("H100 PCIe", "H100 SXM5"), same_device("H100 PCIe", "NVIDIA_H100_80GB_HBM3")
    (False, True)
    """
    models, boards = [], []
    for name in (one, other):
        text = _BRANDS.sub(" ", re.sub(r"[\W_]+", " ", name.lower()))
        boards.append("".join(_FORM.findall(text)))
        models.append("".join(_FORM.sub(" ", text).split()))
    return models[0] == models[1] and (boards[0] == boards[1] or not all(boards))


def measured_elsewhere(workload: Workload, gpu: Gpu) -> bool:
    """Whether the times of a workload are those of another GPU: no `compute_time`, and another `device`.

    A `compute_time` is taken to be of the GPU of the cluster. False where the workload or the GPU names no device.
    """
    if workload.compute_time is not None or gpu.ideal or not (workload.device and gpu.device):
        return False
    return not same_device(workload.device, gpu.device)


def compute_width(workload: Workload, gpu: Gpu) -> ComputeWidth:
    """How far forward and backward of a workload may be off on a GPU, as one factor on both.

    Without any times there is nothing to be off.
    """
    if workload.forward_time + workload.backward_time <= 0 and workload.compute_time is None:
        return ComputeWidth(1.0, "measured", "the workload has no times")
    if workload.compute_width is not None:
        return ComputeWidth(workload.compute_width, "measured", f"as stated of {workload.name} on these machines")
    if workload.compute_time is not None:
        return ComputeWidth(REPEATED, "measured", "compute_time, measured again")
    if workload.estimated is not None:
        return _of_estimate(workload.estimated, workload, gpu)
    if measured_elsewhere(workload, gpu):
        source = f"{workload.name} was measured on {workload.device}, and this is {gpu.device}"
        return ComputeWidth(OTHER_GPU, "transferred", source)
    return _of_same_device(workload, gpu)


def _of_estimate(estimated: Estimated, workload: Workload, gpu: Gpu) -> ComputeWidth:
    """The width of an estimate, no less than `OTHER_GPU` where it was made for another GPU."""
    if not measured_elsewhere(workload, gpu):
        return ComputeWidth(estimated.width, "estimated", estimated.reason)
    reason = f"estimated for {workload.device}, and this is {gpu.device}; {estimated.reason}"
    return ComputeWidth(max(estimated.width, OTHER_GPU), "estimated", reason)


def _of_same_device(workload: Workload, gpu: Gpu) -> ComputeWidth:
    """The width of times of the same model of GPU, or of one that is not named."""
    if workload.device and gpu.device:
        return ComputeWidth(OTHER_SOFTWARE, "transferred", f"{workload.name} on another {workload.device}")
    return ComputeWidth(OTHER_SOFTWARE, "estimated", f"taken to be of this GPU: {workload.name} or the GPU names none")
