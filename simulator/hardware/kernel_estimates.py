"""The time of a kernel on a GPU where nobody timed it, from what was measured of kernels on any GPU."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal

from msgspec import convert

from simulator.hardware.kernels import KERNELS, Framework, KernelWork, implementation, work_of
from simulator.loading.documents import read_document
from simulator.loading.finding import find_shipped
from simulator.models.curves import Affine, Curve, NLogN
from simulator.records import Record, field

RATES = "configs/kernel_rates.yaml"
MemoryKind = Literal["HBM", "GDDR"]
Level = Literal["measured", "transferred", "estimated"]
"""Timed on this GPU; timed on other GPUs; timed nowhere, so that only its class is known."""


class Rate(Record):
    """How a kernel, or a class of kernels, was found to run: `factor` on the time that its bytes or cycles give.

    `count`: GPUs (of a class: kernels) behind it. `width`: factor by which an estimate may be wrong either way in nine
    of ten cases, from what was left out. `least_bytes`: seconds per element times memory bandwidth of the fastest
    measurement; no estimate is faster than that. 0 where memory bandwidth is not what limits, and too little was timed.
    """

    factor: float
    count: int
    width: float
    least_bytes: float = 0.0


class Rates(Record):
    """What all measured kernels say together (`sparsim list kernels --rates`).

    `launch`: seconds of each kernel that a call starts, with few elements. `share`: of its data sheet's bandwidth that
    a GPU reaches with element-wise kernels. `cycles_per_byte`: cycles of all multiprocessors in the time of one byte,
    for GPUs whose multiprocessors are not known; `clock`: in Hz, where it is not known.
    """

    launch: float = 0.0
    share: float = 1.0
    cycles_per_byte: float = 0.0
    clock: float = 0.0
    kernels: Mapping[str, Rate] = field(default_factory=dict)
    classes: Mapping[str, Rate] = field(default_factory=dict)


class Hardware(Record):
    """What an estimate needs of a GPU: None for what is not known.

    `bandwidth`: of the data sheet; `reached`: by its element-wise kernels, bytes/s. `start`: seconds of its smallest
    call. `cycles`: of all multiprocessors, per second.
    """

    bandwidth: float | None
    reached: float | None = None
    start: float | None = None
    cycles: float | None = None
    clock: float | None = None
    memory: MemoryKind | None = None
    framework: Framework = "pytorch"


class Estimate(Record):
    """An estimated curve, how it was made, and the factor by which it may be wrong either way in nine of ten cases."""

    curve: Curve
    level: Level
    width: float


@cache
def shipped_rates() -> Rates:
    """The rates that ship with the package; without the file, all bytes at the full bandwidth of the data sheet."""
    path = find_shipped(RATES)
    return convert(read_document(path).data, Rates) if path else Rates()


def rate_name(kernel: str, framework: Framework, memory: MemoryKind | None) -> str:
    """The name under which the rate of a kernel is kept: what runs in one block also depends on the kind of memory,
    since it waits for single reads.

    >>> rate_name("topk", "pytorch-before-1.11", "HBM")
    'topk (one block), HBM'
    """
    name = implementation(kernel, framework)
    one_block = work_of(kernel, framework).bound in ("one block", "one block, linear")
    return f"{name}, {memory}" if one_block and memory else name


def unit_time(work: KernelWork, hardware: Hardware, rates: Rates) -> float:
    """Seconds that a kernel would take per element (per n log2 n in one block) if its rate were that of the hardware.

    As `memory_time`; 1 / (m f) for the m multiprocessors at the clock f; 1 / f for one block; a nanosecond for work of
    the host. 0 if nothing is known of the GPU.
    """
    bandwidth = hardware.reached or (hardware.bandwidth or 0.0) * rates.share
    if work.bound == "memory":
        return memory_time(work, hardware, rates)
    if work.bound == "host":
        return 1e-9
    if work.bound == "multiprocessors":
        cycles = hardware.cycles or bandwidth * rates.cycles_per_byte
        return 1 / cycles if cycles else 0.0
    clock = hardware.clock or rates.clock
    return 1 / clock if clock else 0.0


def memory_time(work: KernelWork, hardware: Hardware, rates: Rates) -> float:
    """Seconds per element, b / B for b bytes at the bandwidth B that element-wise kernels reach; 0 if B is unknown."""
    bandwidth = hardware.reached or (hardware.bandwidth or 0.0) * rates.share
    return work.nbytes / bandwidth if bandwidth else 0.0


def estimate(kernel: str, hardware: Hardware, rates: Rates) -> Estimate:
    """The time of a kernel that was not timed on this GPU.

    start + (launches - 1) launch + factor x unit x n (n log2 n in one block), over the kernel and, where it was not
    timed as a whole, its parts; the start
    is that of the GPU's element-wise kernel, or another launch. The factor is that of the same implementation on other
    GPUs if it was timed on any, else that of its class, on the bytes; the level and the width are those of the part of
    which least is known.
    """
    work = work_of(kernel, hardware.framework)
    own = _own_rate(kernel, hardware, rates)
    pieces = [_piece(name, hardware, rates) for name in (kernel, *(() if own else work.parts))]
    launches = work.launches + sum(KERNELS[part].launches for part in work.parts)
    known = hardware.reached or hardware.bandwidth
    start = rates.launch if hardware.start is None else hardware.start
    intercept = start + max(0, launches - 1) * rates.launch if known and launches else 0.0
    slope = sum(item[0] for item in pieces)
    curve: Curve = (
        NLogN(intercept=intercept, coefficient=slope)
        if work.bound == "one block"
        else Affine(intercept=intercept, slope=slope)
    )
    level: Level = "transferred" if all(item[1] for item in pieces) else "estimated"
    return Estimate(curve, level, max(item[2] for item in pieces))


def _own_rate(kernel: str, hardware: Hardware, rates: Rates) -> Rate | None:
    """The rate of this implementation where it was timed, on a GPU with the same kind of memory if on any."""
    names = (rate_name(kernel, hardware.framework, hardware.memory), implementation(kernel, hardware.framework))
    return next((rates.kernels[name] for name in names if name in rates.kernels), None)


def _piece(kernel: str, hardware: Hardware, rates: Rates) -> tuple[float, bool, float]:
    """Seconds per element, whether the kernel was timed on any GPU, and the width."""
    work = work_of(kernel, hardware.framework)
    own = _own_rate(kernel, hardware, rates)
    if own is None:
        rate = rates.classes.get(work.kind) or rates.classes.get("all") or Rate(1.0, 0, 1.0)
        return rate.factor * memory_time(work, hardware, rates), False, rate.width
    # What element-wise kernels reach is the bandwidth that counts for all others.
    seconds = unit_time(work, hardware, rates) * (1.0 if kernel == "elementwise" else own.factor)
    least = own.least_bytes / hardware.bandwidth if hardware.bandwidth else 0.0
    return max(seconds, least), True, own.width
