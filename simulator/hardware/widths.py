"""How far compute times and costs of a runtime may be off on a GPU, and costs that a runtime does not state."""

from __future__ import annotations

import math
import re
from functools import cache, lru_cache
from statistics import median
from typing import Literal, NamedTuple

from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import Level
from simulator.hardware.runtime import FRAMEWORKS, RUNTIME_COSTS, Runtime, Way
from simulator.models.groups import group_by
from simulator.models.layers import Estimated, Workload
from simulator.models.small_cache import ResultsOfObjects
from simulator.models.widths import nine_in_ten, off_from_others

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
DIVIDED_SEQUENCE = 1.25
"""Times of a described model whose sequences are divided over GPUs: how these put the parts of attention together was
not timed. A prior; torchtitan takes 1.19 to 1.34 times as long as predicted in five of six trainings on H100, Megatron
0.96 to 1.12 times in seven on H100 and B200. All were in sight."""
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


def compute_width(workload: Workload, gpu: Gpu, divided: bool = False) -> ComputeWidth:
    """How far forward and backward of a workload may be off on a GPU, as one factor on both. `divided`: GPUs share the
    tokens of its sequences.

    Without any times there is nothing to be off.
    """
    if workload.forward_time + workload.backward_time <= 0 and workload.compute_time is None:
        return ComputeWidth(1.0, "measured", "the workload has no times")
    if workload.compute_width is not None:
        return ComputeWidth(workload.compute_width, "measured", f"as stated of {workload.name} on these machines")
    if workload.compute_time is not None:
        return ComputeWidth(REPEATED, "measured", "compute_time, measured again")
    if workload.estimated is not None:
        return _of_estimate(workload.estimated, workload, gpu, divided)
    if measured_elsewhere(workload, gpu):
        source = f"{workload.name} was measured on {workload.device}, and this is {gpu.device}"
        return ComputeWidth(OTHER_GPU, "transferred", source)
    return _of_same_device(workload, gpu)


def _of_estimate(estimated: Estimated, workload: Workload, gpu: Gpu, divided: bool) -> ComputeWidth:
    """The width of an estimate, no less than `OTHER_GPU` where it was made for another GPU."""
    width, reason = estimated.width, estimated.reason
    if measured_elsewhere(workload, gpu):
        width = max(width, OTHER_GPU)
        reason = f"estimated for {workload.device}, and this is {gpu.device}; {reason}"
    if divided:
        width = math.exp(math.hypot(math.log(width), math.log(DIVIDED_SEQUENCE)))
        reason = f"{reason}; sequences that are divided over GPUs"
    return ComputeWidth(width, "estimated", reason)


def _of_same_device(workload: Workload, gpu: Gpu) -> ComputeWidth:
    """The width of times of the same model of GPU, or of one that is not named."""
    if workload.device and gpu.device:
        return ComputeWidth(OTHER_SOFTWARE, "transferred", f"{workload.name} on another {workload.device}")
    return ComputeWidth(OTHER_SOFTWARE, "estimated", f"taken to be of this GPU: {workload.name} or the GPU names none")


_PRIOR = 2
"""Set-ups from which on a cost has a middle; what a single one showed is an upper end."""
_OWN = 4
"""Set-ups from which on a cost is judged by its own differences, and not by those of all costs."""
FACTOR_COSTS = tuple(name for name in RUNTIME_COSTS if name != "compute_slowdown")
"""Costs whose width is a factor. That of a slowdown is added (`simulator.hardware.slowdown`), since it may be 0."""


class KnownCost(NamedTuple):
    """What one set-up showed of a cost of its runtime, in SI."""

    name: str
    setup: str
    value: float
    source: str


KNOWN = (
    KnownCost("kernel_launch", "loops in Python, PyTorch 1.5, V100", 18.2e-6, "runtimes/pytorch-1.5"),
    KnownCost(
        "kernel_launch",
        "SGD of PyTorch in a loop over tensors, V100",
        39.2e-6,
        "median of three steps of 483 kernels, with the profiler on (pytorch/kineto, tb_plugin samples, BSD-3)",
    ),
    KnownCost(
        "kernel_launch",
        "ResNet-50 under DDP, V100",
        5.22e-6,
        "median of 4,350 calls of cudaLaunchKernel, with the profiler on (facebookresearch/HolisticTraceAnalysis, MIT)",
    ),
    KnownCost(
        "kernel_launch",
        "ResNet-50, V100",
        9.0e-6,
        "median of 8,772 calls of cudaLaunchKernel, with the profiler on (pytorch/kineto, tb_plugin samples, BSD-3)",
    ),
    KnownCost(
        "kernel_launch",
        "ResNet-18, RTX 2080 Ti",
        9.0e-6,
        "median of 9,628 calls of cudaLaunchKernel, with the profiler on (facebookresearch/param, MIT)",
    ),
    KnownCost(
        "kernel_launch",
        "DLRM, V100",
        8.0e-6,
        "median of 4,866 calls of cudaLaunchKernel, with the profiler on (facebookresearch/HolisticTraceAnalysis, MIT)",
    ),
    KnownCost("host_read", "TensorFlow 1.14 with GRACE, V100", 34.9e-6, "runtimes/grace-tensorflow1"),
    KnownCost("negotiation", "Horovod 0.19, 32 RTX 2080 Ti", 0.135e-3, "runtimes/horovod-0.19-pytorch-1.4"),
    KnownCost("negotiation", "Horovod, 16 V100", 0.585e-3, "runtimes/horovod-v100-10gbe"),
    KnownCost("gather_overhead", "PyTorch 1.5, 4 V100", 2.08e-3, "runtimes/pytorch-1.5"),
    KnownCost("endpoint_bandwidth", "BytePS 0.2 over TCP, 32 RTX 2080 Ti", 0.70e9, "runtimes/byteps-0.2-pytorch-1.4"),
    KnownCost("exchange_element", "gTopk-SGD, dense, P102-100", 22.58e-9, "runtimes/gtopksgd-mpi-dense"),
    KnownCost("exchange_element", "gTopk-SGD, gtopk, P102-100", 53.73e-9, "runtimes/gtopksgd-mpi-gtopk"),
    KnownCost("exchange_element", "gTopk-SGD, topk, P102-100", 66.02e-9, "runtimes/gtopksgd-mpi-topk"),
    KnownCost(
        "host_element",
        "values rounded to 8 bits on the CPU, two processes on one machine",
        3.6e-9,
        "PrimeIntellect-ai/prime-diloco, pull request 23, 2024 (`quantised_all_reduce`)",
    ),
    KnownCost("forward_hook", "ByteScheduler, 32 RTX 2080 Ti", 1.96e-3, "runtimes/bytescheduler-horovod-0.19"),
    KnownCost("update_launch", "Horovod 0.19, PyTorch 1.4", 23e-6, "runtimes/horovod-0.19-pytorch-1.4"),
    KnownCost("update_launch", "PyTorch 1.5, V100", 9.7e-6, "runtimes/pytorch-1.5"),
)
"""Costs of runtimes that were fitted to measured rows or read from profiles; each set-up counts once per cost."""


def costs_paid(runtime: Runtime, gpu_framework: str) -> tuple[str, ...]:
    """The costs that arise in the runtime's framework, and where loops of PyTorch launch their kernels one by one."""
    launches = gpu_framework.startswith("pytorch")
    return (*FRAMEWORKS[runtime.framework].pays, *(("kernel_launch",) if launches else ()))


def fill_costs(runtime: Runtime, gpu_framework: str) -> Runtime:
    """The runtime with the costs that arise and that it does not state: the median of what other set-ups show.

    A cost of which fewer than two set-ups are known stays 0, and so do those of a runtime of no framework.
    """
    return _filled.get((runtime,), lambda: _fill(runtime, costs_paid(runtime, gpu_framework)), gpu_framework)


_filled: ResultsOfObjects[Runtime] = ResultsOfObjects(64)


def _fill(runtime: Runtime, paid: tuple[str, ...]) -> Runtime:
    stated = runtime.model_fields_set | runtime.fitted_rows.keys()
    absent = [name for name in paid if runtime.framework != "none" and name not in stated]
    known = {name: [item.value for item in KNOWN if item.name == name] for name in absent}
    middles = {name: median(values) for name, values in known.items() if len(values) >= _PRIOR}
    return runtime.model_copy(update=middles) if middles else runtime


class CostWidth(NamedTuple):
    """How far a cost may be off: right within the factor `width`, either way, in nine of ten cases.

    `level`: `measured` where rows of this runtime over this transport determine the cost, else `assumed`. `source`:
    where the width comes from.
    """

    width: float
    level: Literal["measured", "assumed"]
    source: str


_ANYWHERE = Way()
"""A way of which nothing is stated: that of a fit."""


def constant_width(runtime: Runtime, name: str, way: Way = _ANYWHERE, device: str | None = None) -> CostWidth:
    """How far the cost `name` of a runtime may be off over a way and on a GPU; by default those of its fit.

    The runtime's own `widths` come first; a cost without one differs as `width_between_setups` says. Over another
    transport the width is at least that of the runtime there, and on another device (`fitted_on`) at least what costs
    differ by between set-ups. A factor says nothing of a cost of 0 (width 1): what
    other set-ups show of such a cost is in `largest_known`. Raises KeyError for what is no cost of a runtime, and for
    `compute_slowdown`, whose width is added (`simulator.hardware.slowdown.spread_between_models`).
    """
    if name not in FACTOR_COSTS:
        raise KeyError(name)
    if not getattr(runtime, name):
        return CostWidth(1.0, "assumed", f"{runtime.name} states none")
    own, rows = runtime.widths.get(name), runtime.fitted_rows.get(name, 0)
    if own is None:
        known = sum(item.name == name for item in KNOWN)
        source = f"how much costs of runtimes differ between set-ups ({known} known for this one)"
    else:
        source = f"{runtime.name}, fitted to {rows} rows" if rows else f"{runtime.name}, as stated there"
    width = width_between_setups(name) if own is None else own
    elsewhere = []
    if (over := runtime.width_over(way, name)) > 1:
        width = max(width, over)
        elsewhere.append("over another transport" if runtime.is_prior_over(way.transport) else "behind a faster NIC")
    if runtime.fitted_on is not None and device is not None and not same_device(runtime.fitted_on.device, device):
        width = max(width, width_between_setups(name))
        elsewhere.append(f"on machines with {runtime.fitted_on.device}")
    if elsewhere:
        return CostWidth(width, "assumed", "; ".join([source, *elsewhere]))
    return CostWidth(width, "measured" if rows and own is not None else "assumed", source)


@cache
def width_between_setups(name: str, known: tuple[KnownCost, ...] = KNOWN) -> float:
    """Factor by which a cost that is carried over from other set-ups may be off, either way, in nine of ten cases.

    Each known value against the median of the other set-ups' values of the same cost, as a factor of at least 1; nine
    in ten are to be inside (with fewer than ten, all). Costs with fewer than `_OWN` set-ups take the factors of all
    costs together.
    """
    values = {cost: [item.value for item in items] for cost, items in group_by(known, lambda item: item.name).items()}
    own = [values[name]] if len(values.get(name, ())) >= _OWN else values.values()
    return nine_in_ten(off_from_others(own, lambda value, other: max(value / other, other / value)))


@cache
def largest_known(name: str) -> float:
    """The largest value of a cost that any set-up showed, in SI; 0 where none did. For runtimes that state none."""
    return max((item.value for item in KNOWN if item.name == name), default=0.0)
