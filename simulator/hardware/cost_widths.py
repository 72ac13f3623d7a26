"""Costs of a runtime that it does not state, by what other set-ups show, and how far a cost may be off: by what its fit
says, or by how much it differs between set-ups."""

from __future__ import annotations

from functools import cache
from statistics import median
from typing import Literal, NamedTuple

from simulator.hardware.compute_widths import same_device
from simulator.hardware.runtime import FRAMEWORKS, RUNTIME_COSTS, Runtime, Way
from simulator.models.groups import group_by
from simulator.models.small_cache import ResultsOfObjects
from simulator.models.widths import nine_in_ten, off_from_others

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
    KnownCost("host_read", "TensorFlow 1.14 with GRACE, V100", 35.5e-6, "runtimes/grace-tensorflow1"),
    KnownCost("negotiation", "Horovod 0.19, 32 RTX 2080 Ti", 0.135e-3, "runtimes/horovod-0.19-pytorch-1.4"),
    KnownCost("negotiation", "Horovod, 16 V100", 0.585e-3, "runtimes/horovod-v100-10gbe"),
    KnownCost("gather_overhead", "PyTorch 1.5, 4 V100", 2.08e-3, "runtimes/pytorch-1.5"),
    KnownCost("endpoint_bandwidth", "BytePS 0.2 over TCP, 32 RTX 2080 Ti", 0.70e9, "runtimes/byteps-0.2-pytorch-1.4"),
    KnownCost("exchange_element", "gTopk-SGD, dense, P102-100", 22.58e-9, "runtimes/gtopksgd-mpi-dense"),
    KnownCost("exchange_element", "gTopk-SGD, gtopk, P102-100", 53.73e-9, "runtimes/gtopksgd-mpi-gtopk"),
    KnownCost("exchange_element", "gTopk-SGD, topk, P102-100", 66.02e-9, "runtimes/gtopksgd-mpi-topk"),
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
