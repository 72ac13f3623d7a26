"""How kernels were found to run on all GPUs that were timed, and how far estimates are from what was left out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import product, starmap
from statistics import geometric_mean, median
from typing import Any

from msgspec import to_builtins

from simulator.calibration.fits.accuracy import root_mean_square, width_left_out
from simulator.calibration.yaml_text import table_text
from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import (
    HOST_KERNELS,
    KERNEL_TRAFFIC,
    KERNELS,
    KernelWork,
    Level,
    Rate,
    Rates,
    estimate,
    implementation,
    memory_time,
    rate_name,
    shipped_rates,
    unit_time,
    work_of,
)
from simulator.models.curves import Curve
from simulator.models.groups import group_by, leave_out
from simulator.records import Record, replace
from simulator.scenario.named_parts import shipped_gpus

_SIZES = 5
_SMALL = 1e5
_WHOLE_GPU = ("memory", "multiprocessors")
_FEW, _MANY = 1e4, 1e9
"""Elements between which estimates are judged."""


class Timed(Record, dict=True):
    """A kernel that was timed on a GPU. `device`: the same for all configs of one GPU, whatever the software."""

    device: tuple[float, ...]
    gpu: Gpu
    kernel: str
    curve: Curve

    @property
    def name(self) -> str:
        """The implementation that was timed."""
        return implementation(self.kernel, self.gpu.framework)

    @property
    def work(self) -> KernelWork:
        """What the implementation does."""
        return work_of(self.kernel, self.gpu.framework)

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest size that was measured, at most `_MANY` elements."""
        low, high = self.curve.range or (_FEW, _MANY)
        return low, max(low, min(high, _MANY))

    def sizes(self) -> list[float]:
        """Elements at which it is compared with an estimate: some of those that were measured."""
        low, high = self.ends
        low = max(low, min(_FEW, high))
        if high / low < 2:
            return [high]
        return [low * (high / low) ** (i / (_SIZES - 1)) for i in range(_SIZES)]

    @cached_property
    def rate(self) -> float:
        """Measured seconds per element (per n log2 n in one block) at the largest sizes, without a start."""
        if self.work.bound == "one block":
            return self.whole_rate
        low, high = self.ends
        low = max(low, high / 10)
        many, few = float(self.curve.time(high)), float(self.curve.time(low))
        start = self.gpu.hardware.start or 0.0
        return (many - few) / (high - low) if high > 2 * low else max(many - start, many / 2) / high

    @cached_property
    def whole_rate(self) -> float:
        """Measured seconds of the largest call per element (per n log2 n in one block)."""
        high = self.ends[1]
        return float(self.curve.time(high)) / (high * math.log2(high) if self.work.bound == "one block" else high)

    @cached_property
    def launch(self) -> float:
        """Seconds of one launch, where it was timed at few elements on a whole GPU; otherwise 0."""
        few = self.curve.range[0] if self.curve.range else math.inf
        timed = few <= _SMALL and self.work.bound in _WHOLE_GPU
        return float(self.curve.time(few)) / self.work.launches if timed else 0.0


class LeftOut(Record):
    """What was measured of a kernel on a GPU against an estimate that knows nothing of it.

    `ratios`: estimated over measured seconds, by size.
    """

    timed: Timed
    level: Level
    width: float
    ratios: tuple[float, ...]

    @property
    def error(self) -> float:
        """Root mean square of the logarithm of the ratios."""
        return root_mean_square(list(map(math.log, self.ratios)))


def timed_kernels(gpus: Iterable[Gpu]) -> list[Timed]:
    """Every curve that was measured on one of the GPUs; each kernel of a device once."""
    found: dict[tuple[object, ...], Timed] = {}
    for gpu in gpus:
        if gpu.ideal or not gpu.memory_bandwidth:
            continue
        device = (gpu.memory_bandwidth, float(gpu.multiprocessors or 0), gpu.clock or 0.0)
        for kernel, curve in gpu.kernels.items():
            # Work of the host does not depend on the GPU, so that a fitted rate is better than that of its class.
            if kernel in KERNELS and (not curve.derived or KERNELS[kernel].kind == "host"):
                item = Timed(device, gpu, kernel, curve)
                found.setdefault((device, item.name), item)
    return list(found.values())


def learn_rates(timed: Sequence[Timed]) -> Rates:
    """Factors, starts and widths from measured kernels.

    The factor of a kernel is the geometric mean over its GPUs of measured over expected seconds per element. That of
    a class is the geometric mean over its kernels, on the bytes that they move (1 for streaming kernels). Widths come
    from leaving out one GPU at a time (kernels), and one kernel at a time (classes).
    """
    rates = _learn_factors(timed)
    transferred = (item for item in leave_gpus_out(timed) if item.level == "transferred")
    return replace(
        rates,
        kernels=_with_widths(rates.kernels, transferred, lambda item: item.timed.name),
        classes=_with_widths(rates.classes, leave_kernels_out(timed), lambda item: item.timed.work.kind),
    )


def _with_widths(
    rates: Mapping[str, Rate], left_out: Iterable[LeftOut], name_of: Callable[[LeftOut], str]
) -> dict[str, Rate]:
    """Rates with widths from what was left out; a rate for one kind of memory has that of its kernel."""
    errors = {name: [item.error for item in items] for name, items in group_by(left_out, name_of).items()}
    own = {name: errors.get(name.rpartition(", ")[0] or name, []) for name in rates}
    return {name: replace(rate, width=width_left_out(own[name], errors)) for name, rate in rates.items()}


def leave_gpus_out(timed: Sequence[Timed], widths: bool = False) -> list[LeftOut]:
    """Each measured kernel against the estimate from all other GPUs, for a GPU of which only the data sheet is known.

    With `widths`, those are learnt from the other GPUs too.
    """
    found = _left_out(timed, lambda item: item.device, widths, bare=True)
    return [item for item in found if KERNELS[item.timed.kernel].kind != "host"]


def leave_kernels_out(timed: Sequence[Timed], widths: bool = False) -> list[LeftOut]:
    """Each measured kernel against the estimate from all other kernels, those of the same GPU included."""
    names = {item.name for item in timed if item.kernel != "elementwise" and item.work.bound in _WHOLE_GPU}
    return [item for item in _left_out(timed, lambda item: item.name, widths) if item.timed.name in names]


def _left_out(
    timed: Sequence[Timed], group_of: Callable[[Timed], object], widths: bool, bare: bool = False
) -> list[LeftOut]:
    """Kernels against what all other groups give; `bare`: only the data sheet of their GPU is known."""
    learn, made = learn_rates if widths else _learn_factors, list[LeftOut]()
    for _, held, others in leave_out(timed, group_of):
        rates = learn(others)
        for item in held:
            hardware = replace(item.gpu.hardware, reached=None, start=None) if bare else item.gpu.hardware
            guess, sizes = estimate(item.kernel, hardware, rates), item.sizes()
            ratios = (guess.curve.time(sizes) / item.curve.time(sizes)).tolist()
            made.append(LeftOut(item, guess.level, guess.width, tuple(ratios)))
    return made


def _learn_factors(timed: Sequence[Timed]) -> Rates:
    """Rates without widths."""
    adds = [item for item in timed if item.kernel == "elementwise"]
    reached = {item.device: item.gpu.hardware.reached or 0.0 for item in adds}
    shares = [reached[item.device] / (item.gpu.memory_bandwidth or 1.0) for item in adds]
    share = geometric_mean(shares) if shares else 1.0
    hardware = {item.device: item.gpu.hardware for item in timed}.values()
    clocks = [item.clock for item in hardware if item.clock]
    cycles = [item.cycles / (share * (item.bandwidth or 1.0)) for item in hardware if item.cycles]
    launches = [item.launch for item in timed if item.launch > 0]
    plain = Rates(
        launch=geometric_mean(launches) if launches else 0.0,
        share=share,
        cycles_per_byte=geometric_mean(cycles) if cycles else 0.0,
        clock=median(clocks) if clocks else 0.0,
    )
    found, least = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    kinds = defaultdict[str, dict[str, list[float]]](dict, streaming={"elementwise": [1.0]})
    for item in timed:
        work, is_plain = item.work, item.kernel == "elementwise"
        seen = replace(item.gpu.hardware, reached=reached.get(item.device))
        measured = item.rate
        for name in {item.name, rate_name(item.kernel, item.gpu.framework, item.gpu.memory)}:
            found[name].append(1 / share if is_plain else measured / unit_time(work, seen, plain))
            if work.bound in _WHOLE_GPU:
                least[name].append(item.whole_rate * (item.gpu.memory_bandwidth or 0.0))
        if work.bound in _WHOLE_GPU and not is_plain:
            kinds[work.kind].setdefault(item.name, []).append(measured / memory_time(work, seen, plain))
    # One GPU alone does not tell how fast a kernel that its multiprocessors limit can be for its memory bandwidth.
    by_memory = {item.name for item in timed if item.work.bound == "memory"}
    fastest = {name: min(values) for name, values in least.items() if len(values) > 1 or name in by_memory}
    kernels = {
        name: Rate(geometric_mean(values), len(values), 1.0, fastest.get(name, 0.0))
        for name, values in sorted(found.items())
    }
    classes = {
        kind: Rate(geometric_mean(map(geometric_mean, names.values())), len(names), 1.0)
        for kind, names in sorted(kinds.items())
    }
    # Streaming kernels reach what element-wise kernels do: that is what the bandwidth of a GPU means here.
    classes["streaming"] = replace(classes["streaming"], factor=1.0)
    everything = [rate.factor for rate in classes.values()]
    classes["all"] = Rate(geometric_mean(everything), sum(map(len, kinds.values())), 1.0)
    return replace(plain, kernels=kernels, classes=classes)


_HEAD = """\
# Written by `sparsim list kernels --rates`, checked by a test: how kernels were found to run on GPUs of configs/gpus
# that were timed. Seconds, shares and factors; `width` is the factor that holds nine of ten of the values left out.
"""


def rates_yaml(rates: Rates) -> str:
    """The text of `configs/kernel_rates.yaml`."""
    return _HEAD + table_text(to_builtins(rates, order="deterministic"))


@cache
def shipped_measurements() -> tuple[Timed, ...]:
    """Every kernel that was timed on a GPU of the package."""
    return tuple(timed_kernels(shipped_gpus().values()))


SIZES = (1_000_000, 100_000_000)
CLOSE = 1.5
"""An estimate within this factor of what was measured counts as close."""


def kernel_rows(gpus: Mapping[str, Gpu]) -> list[dict[str, Any]]:
    """A row for each GPU and kernel.

    `level`: measured, transferred or estimated. `width`: factor by which it may be wrong either way in nine of ten
    cases; `held_out_mape` of a curve that was measured. `count`: GPUs on which this implementation was timed.
    `seconds`: of one call with each of `SIZES` elements.
    """
    rates, rows = shipped_rates(), []
    names = [kernel for kernel in KERNELS if kernel not in HOST_KERNELS]
    for (name, gpu), kernel in product(gpus.items(), names):
        if gpu.ideal:
            continue
        curve, level, own = gpu.curve(kernel), gpu.level(kernel), implementation(kernel, gpu.framework)
        rows.append(
            {
                "gpu": name,
                "kernel": kernel,
                "implementation": own,
                "class": work_of(kernel, gpu.framework).kind,
                "bytes_per_element": KERNEL_TRAFFIC[kernel],
                "level": level,
                "width": gpu.width(kernel) if level != "measured" else None,
                "held_out_mape": curve.held_out_mape if curve is not None and not curve.derived else None,
                "count": rates.kernels[own].count if own in rates.kernels else 0,
                "seconds": gpu.kernel_time(kernel, SIZES).tolist(),
            }
        )
    return rows


@cache
def accuracy_rows() -> dict[str, Any]:
    """Errors of estimates on what they were not learnt from: a GPU at a time by kernel, a kernel at a time by class.

    Each with its number of GPUs or kernels, of values, the shares of the values within a factor of 1.5 and within the
    width (which is learnt without them), and the median factor of the error.
    """
    timed = shipped_measurements()
    gpus, kernels = leave_gpus_out(timed, widths=True), leave_kernels_out(timed, widths=True)
    by_kernel = group_by(gpus, lambda item: item.timed.name)
    by_class = group_by(kernels, lambda item: item.timed.work.kind)
    return {
        "leave_one_gpu_out": [*starmap(_summary, sorted(by_kernel.items())), _summary("all", gpus)],
        "leave_one_kernel_out": [*starmap(_summary, sorted(by_class.items())), _summary("all", kernels)],
    }


def _summary(name: str, items: Sequence[LeftOut]) -> dict[str, Any]:
    ratios = [(abs(math.log(ratio)), math.log(item.width)) for item in items for ratio in item.ratios]
    errors = sorted(error for error, _ in ratios)
    return {
        "name": name,
        "gpus": len({item.timed.device for item in items}),
        "kernels": len({item.timed.name for item in items}),
        "values": len(errors),
        "median_factor": math.exp(median(errors)),
        "worst_factor": math.exp(errors[-1]),
        "close": sum(error <= math.log(CLOSE) for error in errors) / len(errors),
        "within_width": sum(error <= width for error, width in ratios) / len(errors),
    }
