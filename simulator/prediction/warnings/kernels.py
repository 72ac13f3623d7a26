"""Warnings about kernels: those that nobody timed on the GPU, or at these sizes, or in this precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from simulator.engine.plan.work.kernels import KernelUse
from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import HOST_KERNELS
from simulator.models.small_cache import ResultsOfObjects
from simulator.prediction.uncertainty.inputs import UncertainInput
from simulator.prediction.uncertainty.kernels import SMALL_CALLS
from simulator.prediction.warnings.sizes import FACTORS, Sizes, list_factors
from simulator.prediction.warnings.warning import SMALL, SizedWarning
from simulator.units import count_of


class _Inputs(NamedTuple):
    """Some kernels of an iteration: their inputs by name, their names, longest first, with their seconds, and what was
    said of them so far by how many were named."""

    items: dict[str, UncertainInput]
    order: list[tuple[float, str]]
    texts: dict[int, str]

    def text(self, time: float, describe: Callable[[list[str]], str]) -> str:
        """What `describe` says of those that take a part of the iteration; of all if none does."""
        count = sum(seconds >= SMALL * time for seconds, _ in self.order) or len(self.order)
        if count not in self.texts:
            self.texts[count] = describe([name for _, name in self.order[:count]])
        return self.texts[count]


class _Kernels(NamedTuple):
    """What is not known of the kernels of an iteration. It is remembered, since only times differ between networks."""

    unknown: list[str]
    not_timed: _Inputs
    beyond: _Inputs
    small: dict[str, UncertainInput]
    scaled: _Inputs


_known: ResultsOfObjects[_Kernels] = ResultsOfObjects(64)


def warn_of_kernels(sizes: Sizes) -> Iterator[SizedWarning]:
    """What is not known of the kernels of the iteration. Those of an ideal GPU take no time."""
    scenario, used = sizes.scenario, sizes.plan.work.kernels
    gpu, precision = scenario.cluster.gpu, scenario.workload.precision
    if gpu.ideal:
        return
    inputs = sizes.inputs_of_kernels()
    about = len(inputs), scenario.sparsifier.has_residual
    known = _known.get((gpu, used, precision), lambda: _sort(gpu, used, inputs), *about)
    if known.unknown:
        text = f"nothing is known of {', '.join(known.unknown)} on {gpu.name}, so that they take no time"
        yield SizedWarning(f"{text}; give its memory_bandwidth", sizes.spread.time, less=0.0, unbounded=True)
    yield from _not_timed(sizes, gpu, known.not_timed)
    yield from _extrapolated(sizes, gpu, known)
    yield from _scaled(sizes, gpu, known.scaled)


def _sort(gpu: Gpu, used: Mapping[str, KernelUse], inputs: Sequence[UncertainInput]) -> _Kernels:
    by_name = {item.id.rpartition("/")[2]: item for item in inputs if not item.what.endswith(SMALL_CALLS)}
    small = {item.id.rpartition("/")[2]: item for item in inputs if item.what.endswith(SMALL_CALLS)}
    unknown: list[str] = []
    if gpu.hardware.bandwidth is None and gpu.hardware.reached is None:
        unknown = sorted(name for name in used if gpu.curve(name) is None and name not in HOST_KERNELS)
    by_name = {name: item for name, item in by_name.items() if name not in unknown}
    timed = {name: item for name, item in by_name.items() if gpu.level(name) == "measured"}

    def some(items: dict[str, UncertainInput]) -> _Inputs:
        order = sorted(((used[name].seconds, name) for name in items), key=lambda row: (-row[0], row[1]))
        return _Inputs(items, order, {})

    return _Kernels(
        unknown,
        some({name: item for name, item in by_name.items() if name not in timed}),
        some({name: item for name, item in timed.items() if used[name].extrapolated}),
        small,
        some({name: item for name, item in timed.items() if item.what.endswith("scaled from fp32")}),
    )


def _not_timed(sizes: Sizes, gpu: Gpu, inputs: _Inputs) -> Iterator[SizedWarning]:
    """Which kernels were not timed on this GPU, how their time was estimated, and how far it may be off."""

    def describe(kernels: list[str]) -> str:
        sources = {
            "transferred": "transferred from other GPUs or whole iterations",
            "estimated": "estimated from kernels like them",
        }
        parts = []
        for level, words in sources.items():
            if named := [(name, gpu.width(name)) for name in kernels if gpu.level(name) == level]:
                parts.append(f"{words}: {list_factors(named)}")
        return f"not timed on {gpu.name}, {'; '.join(parts)} ({FACTORS})"

    if inputs.items:
        seconds = sum(sizes.plan.work.kernels[name].seconds for name in inputs.items)
        yield sizes.warning(inputs.text(sizes.spread.time, describe), inputs.items.values(), seconds)


def _extrapolated(sizes: Sizes, gpu: Gpu, known: _Kernels) -> Iterator[SizedWarning]:
    """Which kernels were timed at other sizes than those of some calls."""
    used, beyond, small = sizes.plan.work.kernels, known.beyond.items, known.small

    def describe(kernels: list[str]) -> str:
        return f"timed on {gpu.name} at other sizes: {'; '.join(_describe_sizes(it, used[it], gpu) for it in kernels)}"

    if not beyond:
        return
    seconds = sum(used[name].outside for name in beyond)
    shares = {item.key: used[name].outside / (used[name].seconds or 1.0) for name, item in beyond.items()}
    about = [*beyond.values(), *(item for name, item in small.items() if name in beyond)]
    shares |= {item.key: 1.0 for item in small.values()}
    yield sizes.warning(known.beyond.text(sizes.spread.time, describe), about, seconds, shares)


def _describe_sizes(kernel: str, use: KernelUse, gpu: Gpu) -> str:
    curve = gpu.curve(kernel)
    measured = (curve and curve.range) or (use.smallest, use.largest)
    asked, known = (f"{low:,.0f} to {high:,.0f}" for low, high in ((use.smallest, use.largest), measured))
    calls = f"{use.extrapolated} of {count_of(use.calls, 'call')}"
    return f"{kernel} time extrapolated for {calls} ({asked} elements; measured from {known})"


def _scaled(sizes: Sizes, gpu: Gpu, inputs: _Inputs) -> Iterator[SizedWarning]:
    """Which kernels were measured in fp32 only."""
    precision = sizes.scenario.workload.precision

    def describe(kernels: list[str]) -> str:
        how = f"and scaled by the bytes that they move in {precision.described()}"
        return f"measured in fp32 on {gpu.name}, {how}: {', '.join(kernels)}"

    if inputs.items:
        seconds = sum(sizes.plan.work.kernels[name].seconds for name in inputs.items)
        yield sizes.warning(inputs.text(sizes.spread.time, describe), inputs.items.values(), seconds)
