"""The kernels that methods are made of: what each does, its time where nobody timed it, and at another precision."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Literal

from msgspec import convert

from simulator.errors import CodeError, Problem, format_value, suggest_nearest
from simulator.loading.documents import read_document
from simulator.loading.finding import find_shipped
from simulator.models.curves import Affine, Curve, NLogN
from simulator.models.precision import FP32_BYTES, NUMBER_BYTES, Precision
from simulator.records import Record, field

Framework = Literal["pytorch", "pytorch-1.11", "pytorch-before-1.11", "tensorflow-1"]
"""Whose kernels a GPU runs. PyTorch's Top-k searched and gathered in one block before 1.11, gathered in one block in
1.11 (pull request 71081), and uses all blocks since 1.12 (pull request 74267, 2022)."""
KernelClass = Literal["streaming", "compaction", "random access", "hash", "selection", "sort", "host"]
"""How a kernel uses the GPU: kernels of one class are taken to be alike where nothing else is known. Streaming includes
reductions."""
Bound = Literal["memory", "multiprocessors", "one block", "one block, linear", "host"]
"""What limits a kernel: the GPU's memory bandwidth, the cycles of all its multiprocessors, those of one of them, or the
host."""


INDEX_SIZED = ("gather", "scatter_add", "residual_clear", "random_indices")
"""Kernels whose size is the number of indices (k times contributions), not the elements of the tensor."""


class KernelWork(Record):
    """What one call of a kernel does for each element.

    `kind`: its class. `values` and `indices`: bytes of gradients, and of indices, masks or codes, that are read and
    written. `launches`: kernels that the call starts. `bound`: what limits it. `parts`: other kernels that the call
    contains, each once. `same_as`: another kernel that does exactly the same. `variant`: the implementation, where
    frameworks have several.
    """

    kind: KernelClass
    values: float = 0.0
    indices: float = 0.0
    launches: int = 1
    bound: Bound = "memory"
    parts: tuple[str, ...] = ()
    same_as: str = ""
    variant: str = ""

    @property
    def nbytes(self) -> float:
        """Bytes that move through GPU memory for each element, without those of the parts."""
        return self.values + self.indices


KERNELS: dict[str, KernelWork] = {
    "elementwise": KernelWork("streaming", 12.0),  # two fp32 reads, one write
    "copy": KernelWork("streaming", 8.0),
    "residual_add": KernelWork("streaming", 12.0, same_as="elementwise"),  # one addition in place
    "update": KernelWork("streaming", 32.0, launches=3),  # as recorded: SGD with momentum in three passes
    "cast": KernelWork("streaming", 6.0),  # a number of 32 bits and one of 16, read and written
    "unscale": KernelWork("streaming", 8.0),  # reads and writes the gradient, and checks it for overflow
    # Scale, round and cast to a byte, each a call that reads and writes (simulator/record/kernels.py).
    "quantise": KernelWork("streaming", 20.0, 1.0, launches=3),
    "dequantise": KernelWork("streaming", 8.0, 1.0),
    "matmul": KernelWork("streaming", 12.0),
    "random_indices": KernelWork("streaming", 0.0, 8.0),
    "norm": KernelWork("streaming", 4.0, launches=2),  # within blocks, then over blocks
    "statistics": KernelWork("streaming", 8.0, launches=2),  # mean and standard deviation
    "pack": KernelWork("streaming", 4.0, 26.0, launches=3),  # signs as bytes, times powers of two, sum of eight
    # Both sides of blocks of 64 x 64 times matrices of cosines: two copies and two products, each in and out.
    "dct": KernelWork("streaming", 32.0, launches=4),
    # 12 bits of int64 indices as bytes, by shifts and masks of pairs, each a call (one-covenant/templar, compress.py).
    "pack_indices": KernelWork("streaming", 0.0, 66.0, launches=18),
    "unpack_indices": KernelWork("streaming", 0.0, 102.0, launches=13),
    # A mask of bytes: count, select; then the host reads how many there are.
    "nonzero": KernelWork("compaction", 0.0, 2.0, launches=3, bound="multiprocessors"),
    "masked_select": KernelWork("streaming", 4.0, parts=("nonzero",)),
    # Absolute value, comparison with the threshold to a mask, compaction of the mask.
    "threshold_scan": KernelWork("streaming", 12.0, 1.0, launches=2, parts=("nonzero",)),
    "gather": KernelWork("random access", 8.0, 8.0),  # index, scattered read, write
    "residual_clear": KernelWork("random access", 4.0, 4.0),
    "scatter_add": KernelWork("random access", 16.0, 8.0),  # index, value, scattered read and write
    # Per index, fitted to 214 M elements of which 5.2 % are hashed in 6 ms on a V100 (Zen, OSDI'25).
    "hash": KernelWork("hash", 448.0),
    # Absolute value; then 4 passes of 8 bits over fp32 keys; then two passes that gather. 12 kernels in PyTorch.
    "topk": KernelWork("selection", 32.0, launches=12, variant="all blocks"),
    # Absolute value; then one block for each row of at most 4,096, which it reads again from its cache, and a gather.
    "chunk_topk": KernelWork("selection", 16.0, launches=2),
    "radix_select": KernelWork("selection", 24.0, launches=9),  # the same without absolute value
    "radix_sort": KernelWork("sort", 36.0, launches=6, bound="multiprocessors"),  # keys alone
    "sort": KernelWork("sort", 36.0, 72.0, launches=8),  # with int64 indices
    "topk_by_sort": KernelWork("streaming", 8.0, parts=("sort",)),  # absolute value, then all in order
    "unique": KernelWork("sort", 0.0, 64.0, launches=8),  # of int64 keys
    "shuffle": KernelWork("host", 0.0, 8.0, bound="host"),  # a random permutation, copied to the GPU
    "host_op": KernelWork("host", 16.0, bound="host"),  # copied to the host, read, written, copied back
    "host_merge": KernelWork("host", launches=0),
    "host_exchange": KernelWork("host", launches=0),
}
"""What each kernel does in today's PyTorch, fp32."""

ONE_BLOCK = KernelWork("selection", 32.0, launches=2, bound="one block", variant="one block")
"""Top-k in one block of threads: n log2 n cycles of one multiprocessor (HKBU-HPML/MG-WFBP, utils.py)."""
VARIANTS: dict[tuple[str, Framework], KernelWork] = {
    ("topk", "pytorch-before-1.11"): ONE_BLOCK,
    ("topk", "pytorch-1.11"): KernelWork(
        "selection", 32.0, launches=11, bound="one block, linear", variant="gather in one block"
    ),
    ("topk", "tensorflow-1"): KernelWork("selection", 32.0, launches=2, variant="TensorFlow 1"),
    # A quantile is tf.math.top_k with all elements.
    ("sort", "tensorflow-1"): KernelWork("sort", 36.0, 72.0, launches=8, variant="TensorFlow 1"),
    ("sort", "pytorch-before-1.11"): KernelWork("sort", 36.0, 72.0, launches=8, variant="thrust"),
}
"""Implementations that differ from today's PyTorch, by kernel and framework."""

KERNEL_TRAFFIC = {
    name: work.nbytes + sum(KERNELS[part].nbytes for part in work.parts) for name, work in KERNELS.items()
}
"""Bytes that each kernel moves per element in GPU memory."""

HOST_KERNELS = {"host_merge": "host_element", "host_exchange": "exchange_element"}
"""Work of the host, not of the GPU: the field of `Runtime` that gives the seconds of each element."""


def work_of(kernel: str, framework: Framework) -> KernelWork:
    """What a kernel does in the implementation that a framework has. Raises CodeError for an unknown kernel."""
    if kernel not in KERNELS:
        what = "a known kernel, or a GPU whose config has a curve of it"
        raise CodeError(
            Problem(f"kernel {format_value(kernel)}", what, "another", suggest_nearest(str(kernel), KERNELS))
        )
    return VARIANTS.get((kernel, framework), KERNELS[kernel])


def implementation(kernel: str, framework: Framework) -> str:
    """The name of a kernel's implementation in a framework, by which measurements on several GPUs are joined.

    >>> implementation("topk", "pytorch"), implementation("gather", "tensorflow-1")
    ('topk (all blocks)', 'gather')
    """
    work = work_of(kernel, framework)
    return f"{kernel} ({work.variant})" if work.variant else work.same_as or kernel


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

    launch: float
    share: float
    cycles_per_byte: float
    clock: float
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

    def usable_bandwidth(self, rates: Rates) -> float:
        """What element-wise kernels reach, measured or as a share of the data sheet; 0 if nothing is known."""
        return self.reached or (self.bandwidth or 0.0) * rates.share


class Estimate(Record):
    """An estimated curve, how it was made, and the factor by which it may be wrong either way in nine of ten cases."""

    curve: Curve
    level: Level
    width: float


@cache
def shipped_rates() -> Rates:
    """The rates that ship with the package."""
    path = find_shipped(RATES)
    if path is None:
        raise FileNotFoundError(RATES)
    return convert(read_document(path).data, Rates)


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
    if work.bound == "memory":
        return memory_time(work, hardware, rates)
    if work.bound == "host":
        return 1e-9
    if work.bound == "multiprocessors":
        cycles = hardware.cycles or hardware.usable_bandwidth(rates) * rates.cycles_per_byte
        return 1 / cycles if cycles else 0.0
    clock = hardware.clock or rates.clock
    return 1 / clock if clock else 0.0


def memory_time(work: KernelWork, hardware: Hardware, rates: Rates) -> float:
    """Seconds per element, b / B for b bytes at the bandwidth B that element-wise kernels reach; 0 if B is unknown."""
    bandwidth = hardware.usable_bandwidth(rates)
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
        rate = rates.classes.get(work.kind) or rates.classes["all"]
        return rate.factor * memory_time(work, hardware, rates), False, rate.width
    # What element-wise kernels reach is the bandwidth that counts for all others.
    seconds = unit_time(work, hardware, rates) * (1.0 if kernel == "elementwise" else own.factor)
    least = own.least_bytes / hardware.bandwidth if hardware.bandwidth else 0.0
    return max(seconds, least), True, own.width


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
