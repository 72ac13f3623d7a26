"""The time of a model's operator on a GPU, from its data sheet and from how operators were found to run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache

from msgspec import convert

from simulator.component import expected
from simulator.hardware.gpu import QUEUED_START, Gpu
from simulator.hardware.kernels import shipped_rates
from simulator.hardware.widths import OTHER_SOFTWARE, same_device
from simulator.loading.documents import read_document
from simulator.loading.finding import find_shipped
from simulator.models.layers import Estimated
from simulator.models.operators import (
    COLLECTIVES,
    Arithmetic,
    Description,
    ElementWise,
    FusedAttention,
    Operator,
)
from simulator.records import Record, field

RATES = "configs/operator_rates.yaml"
TILE = 128
"""Rows and columns of the result that one multiprocessor works on at a time; the usual tile of matrix products."""

SPLIT = 0.5
"""Least rounds of tiles that a product counts for: one with fewer tiles is split along k. Assumed."""
WINOGRAD = 2.25
"""Multiplications of a 3x3 convolution over those of its fast algorithm F(2x2, 3x3) (Lavin and Gray 2016, 1509.09308),
which cuDNN runs in fp32: backward passes of VGG-16 on V100 are faster than the data sheet's rate without it."""
FP8_SHARE = 0.94
"""`fp8_share` of a GPU that was not timed: the geometric mean of six of NVIDIA, between 0.88 (H100) and 0.99
(GB200), by their largest products in fp8 and in bf16 (stas00/ml-engineering, compute/accelerator, 2025)."""
FP8_WIDTH = 1.25
"""Factor by which casts and products in fp8 may be off beyond those in 16 bits, of all sizes and makers; a prior."""
ATTENTION_WIDTH = 1.3
"""Factor by which fused attention may be off beyond the rest: of the rate of H100 35 % are published for forward passes
(Shah et al. 2024, 2407.08608), and one training shows 27 %; a prior for other lengths."""

EXPERTS_WIDTH = 1.25
"""Factor by which models with experts may be off beyond others: how a router sends tokens, how they are copied into
order and how fast products of unequal sizes in one kernel are, was not timed; a prior."""

SCAN_WIDTH = 1.5
"""Factor by which models with state spaces may be off beyond others: their scan counts as its bytes alone, and was not
timed here. A prior: exponentials and sums along the tokens may take longer than memory does."""

JUDGED = "Tesla V100"
JUDGED_BY = "backward passes of five V100 profiles of convolutional networks, with the constant fitted to them"
"""Where convolutions were compared with measured times (`simulator.calibration.operators`)."""
PUBLISHED_ON = ("Tesla V100", "NVIDIA A100", "NVIDIA H100")
"""GPUs of the published trainings behind the efficiency of tensor cores (`simulator.calibration.operators`)."""
_CONVOLUTIONS = ("convolution", "winograd")


class Efficiency(Record):
    """Share of the data sheet's rate that large matrix products reach.

    - `width`: factor by which forward and backward of a whole model may be off, in nine of ten cases.
    - `count`: GPUs, or published trainings, behind it.
    - `source`: in words.
    """

    value: float
    width: float
    count: int
    source: str


class TensorCores(Record):
    """What trainings showed of the tensor cores of a GPU, as `Efficiency`, and fused attention kernels on it.

    The `value` is that of its largest product (`Gpu.product_share`).

    - `early_attention`: efficiency of the first ones (`flash1`) over that of a large product.
    - `attention`, `late_attention`: that of the second generation (none: as on other GPUs), and of the third one.
    """

    value: float
    early_attention: float
    width: float
    count: int
    source: str
    attention: float | None = None
    late_attention: float | None = None


class OperatorRates(Record):
    """How operators were found to run.

    - `depth`: d0 of d / (d + d0), where d is the shortest side of a product.
    - `tail`: share of a whole round of tiles that is lost at the end of a product.
    - `rows`: factor on the bytes of softmax and norms.
    - `attention`, `convolution`: efficiency of fused attention and of convolutions over that of a large product.
    - `convolution_width`: factor by which networks of convolutions may be off on a GPU that was timed.
    - `fp32`, `tensor`: efficiencies on a GPU that was not timed, with the fp32 units and with tensor cores.
    - `devices`: efficiencies in fp32 on the GPUs that were timed.
    - `matrix_byte`: seconds for each byte of its three matrices that a product on tensor cores takes in addition.
    - `tensor_devices`: what trainings showed of tensor cores on the GPUs where they were published in detail.
    """

    depth: float
    tail: float
    rows: float
    attention: float
    convolution: float
    convolution_width: float
    fp32: Efficiency
    tensor: Efficiency
    devices: Mapping[str, Efficiency] = field(default_factory=dict)
    matrix_byte: float = 0.0
    tensor_devices: Mapping[str, TensorCores] = field(default_factory=dict)


@cache
def shipped_operator_rates() -> OperatorRates:
    """The rates that ship with the package."""
    path = find_shipped(RATES)
    if path is None:
        raise FileNotFoundError(RATES)
    return convert(read_document(path).data, OperatorRates)


class OperatorClock:
    """Times of operators on a GPU in one arithmetic.

    A product takes start + max(2 b m n k / (R e), bytes / B) with the rate R of the data sheet (under a power limit
    times `Gpu.clock_under_load`), the bandwidth B that element-wise kernels reach, and e = e0 d / (d + d0) / (1 + t/r):
    d is the shortest of m, n and k; r = b m n / (M T^2) are the rounds in which M multiprocessors work on tiles of
    T x T, of which a share t of one is lost; small products are split along k (r counts as at least `SPLIT`). On tensor
    cores a product takes 2 m n k / (R e0) + c w (m n + n k + k m) with w bytes an element: e0 is what the largest
    products on a GPU reach (`Gpu.product_share`), and one c (`matrix_byte`) describes models of 0.1 to 30 billion
    parameters on A100 and H100; each product of experts is taken to be such a one. Batches of products, which fill all
    multiprocessors with tiles of each other, follow d and t there as well. Other operators take start +
    bytes / B, with the bytes of `element_wise`. The start is that of a kernel in a queue
    (`simulator.hardware.gpu.QUEUED_START`).

    Raises an expected-error where the GPU does not state the rate or the bandwidth.
    """

    def __init__(
        self,
        gpu: Gpu,
        arithmetic: Arithmetic,
        rates: OperatorRates | None = None,
        element_wise: ElementWise = "one_kernel",
    ) -> None:
        self.gpu, self.arithmetic, self.element_wise = gpu, arithmetic, element_wise
        self.rates = shipped_operator_rates() if rates is None else rates
        self.fp8_rate = rate_of(gpu, arithmetic) * gpu.clock_under_load * (gpu.fp8_share or FP8_SHARE)
        self.rate = rate_of(gpu, "bf16" if arithmetic == "fp8" else arithmetic) * gpu.clock_under_load
        reached = gpu.hardware.usable_bandwidth(shipped_rates())
        if not reached:
            raise expected("a GPU with a memory_bandwidth", gpu.name, "times of a described model need it")
        self.per_byte = 1 / reached
        self.on_tensor_cores = arithmetic != "fp32" and bool(gpu.tensor_rates)
        self.efficiency = _efficiency(gpu, arithmetic, self.rates)
        self.share = (self.on_tensor_cores and gpu.product_share) or self.efficiency.value
        self.attention = _attention_shares(self.efficiency, self.rates)

    def time(self, operators: Iterable[Operator]) -> float:
        """Seconds of operators, one after the other."""
        return math.fsum(self.operator_time(operator) for operator in operators)

    def operator_time(self, operator: Operator) -> float:
        """Seconds of all calls of an operator."""
        if operator.kind in COLLECTIVES:  # the network's time, not the GPU's
            return 0.0
        memory = operator.nbytes * self.per_byte
        if self.element_wise == "eager" and operator.eager:
            memory = operator.eager * self.per_byte
        elif operator.kind == "rows":
            memory *= self.rates.rows
        elif self.element_wise == "compiled" and operator.compiled is not None:
            memory = operator.compiled * self.per_byte
        arithmetic = self.arithmetic_time(operator)
        return operator.calls * (QUEUED_START + max(memory, arithmetic))

    def arithmetic_time(self, operator: Operator) -> float:
        """Seconds of the arithmetic of one call; 0 for operators that memory limits."""
        if operator.kind in ("streaming", "rows", "scan"):
            return 0.0
        rate = self.fp8_rate if operator.fp8 else self.rate
        ideal = 2 * operator.batch * operator.m * operator.n * operator.k / (rate * self.share)
        if operator.kind == "attention":
            return ideal / self.attention[operator.attention]
        by_itself = operator.kind == "grouped" or (operator.kind == "product" and operator.batch == 1)
        if self.on_tensor_cores and by_itself:
            return ideal + operator.nbytes * self.rates.matrix_byte / self.gpu.clock_under_load
        shortest = min(operator.m, operator.n, operator.k)
        rounds = operator.batch * operator.m * operator.n / (TILE * TILE) / (self.gpu.multiprocessors or 1)
        lost = self.rates.tail / max(rounds, SPLIT)
        factor = 1.0
        if operator.kind in _CONVOLUTIONS:
            factor = self.rates.convolution
            if operator.kind == "winograd" and self.arithmetic == "fp32":
                factor *= WINOGRAD
        return ideal * (1 + lost) * (1 + self.rates.depth / shortest) / factor

    def estimated(self, made: Description) -> Estimated:
        """How far times of a whole model may be off, and why; no less than those of other software and machines."""
        width, reason = self.efficiency.width, self.efficiency.source
        named = self.gpu.device or self.gpu.name
        elsewhere = not any(same_device(device, named) for device in PUBLISHED_ON)
        if self.efficiency is self.rates.tensor and self.gpu.product_share and self.rates.tensor_devices:
            width = max(item.width for item in self.rates.tensor_devices.values())
            reason = (
                f"the largest product of {named}, and what smaller ones take in addition in trainings on other GPUs"
            )
        elif self.efficiency is self.rates.tensor and elsewhere:
            width = _both(width, self.rates.fp32.width)
            reason = f"{reason}, none on this GPU, which may differ as GPUs do in fp32"
        if self.arithmetic == "fp8":
            width = _both(width, FP8_WIDTH)
            where = "this GPU" if self.gpu.fp8_share else "six others"
            reason = f"{reason}; products in fp8 by the largest ones on {where}"
        if attention := self.time(item for item in made.forward if item.kind == "attention"):
            share = attention / self.time(made.forward)
            width = _both(width, ATTENTION_WIDTH**share)
            reason = f"{reason}; attention, which nobody timed here, has {100 * share:.0f} % of a forward pass"
        if any(item.kind == "grouped" for item in made.forward):
            width = _both(width, EXPERTS_WIDTH)
            reason = f"{reason}; experts with equal parts of the tokens, in products that nobody timed here"
        if any(item.kind == "scan" for item in made.forward):
            width = _both(width, SCAN_WIDTH)
            reason = f"{reason}; scans of state spaces, which nobody timed here"
        if self.gpu.clock_under_load < 1:
            width = _both(width, 1 / self.gpu.clock_under_load)
            reason = f"{reason}; slower by a power limit, by a law of which no loss and twice the loss are the ends"
        arithmetic = math.fsum(item.flops for item in made.forward)
        convolutions = math.fsum(item.flops for item in made.forward if item.kind in _CONVOLUTIONS)
        if 2 * convolutions > arithmetic:
            judged_here = self.arithmetic == "fp32" and same_device(JUDGED, named)
            reason = JUDGED_BY if judged_here else f"{reason}; convolutions: {JUDGED_BY}"
            width = self.rates.convolution_width if judged_here else _both(width, self.rates.convolution_width)
        if width < OTHER_SOFTWARE:
            width, reason = OTHER_SOFTWARE, f"{reason}; profiles of one GPU from other machines and versions"
        return Estimated(width=width, reason=reason, element_wise=self.element_wise)


def _both(one: float, other: float) -> float:
    """The width of two independent factors, whose logarithms add up by their squares."""
    return math.exp(math.hypot(math.log(one), math.log(other)))


def rate_of(gpu: Gpu, arithmetic: Arithmetic) -> float:
    """FLOP/s of the data sheet in an arithmetic; a GPU without tensor cores multiplies at its rate in fp32.

    Raises an expected-error where the GPU states no rate, or has tensor cores without this format.
    """
    if arithmetic != "fp32" and gpu.tensor_rates:
        if arithmetic == "mixed":
            arithmetic = "bf16" if "bf16" in gpu.tensor_rates else "fp16"
        if arithmetic not in gpu.tensor_rates:
            known = ", ".join(("fp32", *sorted(gpu.tensor_rates)))
            raise expected(f"an arithmetic of {gpu.name}: {known}", arithmetic, "set `precision` or `arithmetic`")
        return gpu.tensor_rates[arithmetic]
    if not gpu.fp32_rate:
        hint = "give fp32_rate or tensor_rates, or the compute_time of a workload whose layers are stated"
        raise expected(f"the rate of {gpu.name} in {arithmetic}", "none", hint)
    return gpu.fp32_rate


def _efficiency(gpu: Gpu, arithmetic: Arithmetic, rates: OperatorRates) -> Efficiency | TensorCores:
    on_tensor_cores = arithmetic != "fp32" and bool(gpu.tensor_rates)
    devices: Mapping[str, Efficiency | TensorCores] = rates.tensor_devices if on_tensor_cores else rates.devices
    timed = (found for device, found in devices.items() if gpu.device and same_device(device, gpu.device))
    return next(timed, rates.tensor if on_tensor_cores else rates.fp32)


def _attention_shares(efficiency: Efficiency | TensorCores, rates: OperatorRates) -> Mapping[FusedAttention, float]:
    """Efficiency of each generation of fused attention over that of a large product; the middle where none is known."""
    here, known = efficiency if isinstance(efficiency, TensorCores) else None, rates.tensor_devices.values()
    fused = (here.attention if here else None) or rates.attention
    if here is not None:
        return {"flash1": here.early_attention, "fused": fused, "flash3": here.late_attention or fused}
    late = _middle(item.late_attention for item in known if item.late_attention)
    return {"flash1": _middle(item.early_attention for item in known), "fused": fused, "flash3": late}


def _middle(ratios: Iterable[float]) -> float:
    """The geometric mean of what was found on several GPUs; 1 where nothing was."""
    known = [math.log(ratio) for ratio in ratios]
    return math.exp(math.fsum(known) / len(known)) if known else 1.0
