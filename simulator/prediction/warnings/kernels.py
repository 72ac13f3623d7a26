"""Warnings about kernels: those that nobody timed on the GPU, or at these sizes, or in this precision."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.engine.plan.work.kernels import KernelUse
from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import HOST_KERNELS
from simulator.prediction.uncertainty.inputs import UncertainInput
from simulator.prediction.uncertainty.kernels import SMALL_CALLS
from simulator.prediction.warnings.sizes import FACTORS, Sizes, list_factors
from simulator.prediction.warnings.warning import SMALL, SizedWarning
from simulator.units import count_of


def warn_of_kernels(sizes: Sizes) -> Iterator[SizedWarning]:
    """What is not known of the kernels of the iteration. Those of an ideal GPU take no time."""
    gpu = sizes.scenario.cluster.gpu
    if gpu.ideal:
        return
    inputs = sizes.inputs("kernel ")
    by_name = {item.id.rpartition("/")[2]: item for item in inputs if not item.what.endswith(SMALL_CALLS)}
    small = {item.id.rpartition("/")[2]: item for item in inputs if item.what.endswith(SMALL_CALLS)}
    if gpu.hardware.bandwidth is None and gpu.hardware.reached is None:
        unknown = [name for name in sizes.plan.work.kernels if gpu.curve(name) is None and name not in HOST_KERNELS]
        if unknown:
            text = f"nothing is known of {', '.join(sorted(unknown))} on {gpu.name}, so that they take no time"
            yield SizedWarning(f"{text}; give its memory_bandwidth", sizes.spread.time, less=0.0, unbounded=True)
        by_name = {name: item for name, item in by_name.items() if name not in unknown}
    timed = {name: item for name, item in by_name.items() if gpu.level(name) == "measured"}
    yield from _not_timed(sizes, gpu, {name: item for name, item in by_name.items() if name not in timed})
    yield from _extrapolated(sizes, gpu, timed, small)
    yield from _scaled(sizes, gpu, timed)


def _not_timed(sizes: Sizes, gpu: Gpu, inputs: dict[str, UncertainInput]) -> Iterator[SizedWarning]:
    """Which kernels were not timed on this GPU, how their time was estimated, and how far it may be off."""
    if not inputs:
        return
    kernels = _largest(sizes, inputs)
    sources = {
        "transferred": "transferred from other GPUs or whole iterations",
        "estimated": "estimated from kernels like them",
    }
    parts = []
    for level, words in sources.items():
        if named := [(name, gpu.width(name)) for name in kernels if gpu.level(name) == level]:
            parts.append(f"{words}: {list_factors(named)}")
    seconds = sum(sizes.plan.work.kernels[name].seconds for name in inputs)
    yield sizes.warning(f"not timed on {gpu.name}, {'; '.join(parts)} ({FACTORS})", inputs.values(), seconds)


def _extrapolated(
    sizes: Sizes, gpu: Gpu, inputs: dict[str, UncertainInput], small: dict[str, UncertainInput]
) -> Iterator[SizedWarning]:
    """Which kernels were timed at other sizes than those of some calls."""
    used = sizes.plan.work.kernels
    beyond = {name: item for name, item in inputs.items() if used[name].extrapolated}
    if not beyond:
        return
    parts = [_describe_sizes(name, used[name], gpu) for name in _largest(sizes, beyond)]
    seconds = sum(used[name].outside for name in beyond)
    shares = {item.key: used[name].outside / (used[name].seconds or 1.0) for name, item in beyond.items()}
    about = [*beyond.values(), *(item for name, item in small.items() if name in beyond)]
    shares |= {item.key: 1.0 for item in small.values()}
    yield sizes.warning(f"timed on {gpu.name} at other sizes: {'; '.join(parts)}", about, seconds, shares)


def _describe_sizes(kernel: str, use: KernelUse, gpu: Gpu) -> str:
    curve = gpu.curve(kernel)
    measured = (curve and curve.range) or (use.smallest, use.largest)
    asked, known = (f"{low:,.0f} to {high:,.0f}" for low, high in ((use.smallest, use.largest), measured))
    calls = f"{use.extrapolated} of {count_of(use.calls, 'call')}"
    return f"{kernel} time extrapolated for {calls} ({asked} elements; measured from {known})"


def _scaled(sizes: Sizes, gpu: Gpu, inputs: dict[str, UncertainInput]) -> Iterator[SizedWarning]:
    """Which kernels were measured in fp32 only."""
    scaled = {name: item for name, item in inputs.items() if item.what.endswith("scaled from fp32")}
    if scaled:
        seconds = sum(sizes.plan.work.kernels[name].seconds for name in scaled)
        yield sizes.warning(
            f"measured in fp32 on {gpu.name}, and scaled by the bytes that they move in "
            f"{sizes.scenario.workload.precision.described()}: {', '.join(_largest(sizes, scaled))}",
            scaled.values(),
            seconds,
        )


def _largest(sizes: Sizes, inputs: dict[str, UncertainInput]) -> list[str]:
    """The kernels that take a part of the iteration, longest first; all if none does."""
    seconds = {name: sizes.plan.work.kernels[name].seconds for name in inputs}
    chosen = [name for name in seconds if seconds[name] >= SMALL * sizes.spread.time] or list(seconds)
    return sorted(chosen, key=lambda name: (-seconds[name], name))
