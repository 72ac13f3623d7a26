"""A workload in numbers, as `sparsim list workload` shows it: tensors, arithmetic, times, activations, assumptions."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import groupby
from typing import Any

from simulator.architectures.describing import description_of, price
from simulator.hardware.gpu import Gpu
from simulator.hardware.operator_times import RATES, OperatorClock
from simulator.hardware.widths import compute_width
from simulator.models.layers import Layer, Workload, block_of
from simulator.models.operators import Description, flops_of

MOST_GROUPS = 20
"""Most groups of tensors; with more, those with one beginning are put together."""


def summarise(workload: Workload, gpu: Gpu | None) -> dict[str, Any]:
    """The document of `sparsim list workload`: keys with units; times are those of one step on one GPU.

    `flops` is None for a workload whose operators are not described. Times are None where none are known.
    """
    workload = price(workload, gpu) if gpu is not None else workload
    origin, made = workload.origin, None
    if origin is not None:
        made = description_of(origin.architecture, workload.pass_size, workload.precision)
    timed = workload.has_times or workload.compute_time is not None
    document: dict[str, Any] = {
        "name": workload.name,
        "source": workload.source,
        "batch_size": workload.batch_size,
        "micro_batches": workload.micro_batches,
        "precision": workload.precision.described(),
        "tensors": len(workload.layers),
        "parameters": workload.numel,
        "frozen_parameters": made.frozen if made is not None else 0,
        "active_parameters": made.active if made is not None else workload.numel,
        "gradient_bytes": workload.numel * workload.precision.gradient_bytes,
        "activation_bytes_per_sample": workload.activation_bytes,
        "groups": _groups(workload, made, timed),
        "flops": None,
        "gpu": gpu.name if gpu is not None else None,
        "device": workload.device or None,
        "forward_s": workload.forward_time if workload.has_times else None,
        "backward_s": workload.backward_time if workload.has_times else None,
        "compute_time_s": workload.compute_time,
        "width": None,
        "share_of_peak": None,
    }
    if made is not None:
        passes = workload.micro_batches
        document["flops"] = {
            "forward": passes * flops_of(made.forward),
            "backward": passes * flops_of(made.backward),
            "arithmetic": made.arithmetic,
        }
    if gpu is not None and timed:
        width = compute_width(workload, gpu)
        document["width"] = {"factor": width.width, "level": width.level, "source": width.source}
    if gpu is not None and made is not None and workload.has_times:
        clock = OperatorClock(gpu, made.arithmetic)
        seconds = workload.forward_time + workload.backward_time
        document["share_of_peak"] = math.fsum(document["flops"][key] for key in ("forward", "backward")) / (
            seconds * clock.rate
        )
        document["peak_flops_per_s"] = clock.rate
    document["assumptions"] = _assumptions(workload, made, gpu)
    return document


Pairs = list[tuple[Layer, float]]
"""Tensors, each with its arithmetic of both passes."""


def _groups(workload: Workload, made: Description | None, timed: bool) -> list[dict[str, Any]]:
    """The tensors in forward order by block, blocks of the same sizes in a row together."""
    flops = [0.0] * len(workload.layers)
    if made is not None:
        passes = workload.micro_batches
        flops = [passes * (flops_of(item.forward) + flops_of(item.backward)) for item in made.tensors]
    pairs = list(zip(workload.layers, flops, strict=True))
    blocks = _cut(pairs, lambda name: block_of(name) or name.rpartition(".")[0] or name)
    groups = [list(alike) for _, alike in groupby(blocks, key=_name_and_sizes)]
    if len(groups) > MOST_GROUPS:
        groups = [[block] for block in _cut(pairs, lambda name: name.partition(".")[0])]
    if len(groups) > MOST_GROUPS:
        groups = [[("all tensors", pairs)]]
    return [_line(alike, timed) for alike in groups]


def _cut(pairs: Pairs, name_of: Callable[[str], str]) -> list[tuple[str, Pairs]]:
    return [(name, list(items)) for name, items in groupby(pairs, key=lambda pair: name_of(pair[0].name))]


def _name_and_sizes(block: tuple[str, Pairs]) -> tuple[bool, str, list[int]]:
    """What neighbours have in common that are shown in one line: a name up to its number, and sizes."""
    stem, _, number = block[0].rpartition(".")
    return number.isdecimal(), stem if number.isdecimal() else block[0], [layer.numel for layer, _ in block[1]]


def _line(alike: list[tuple[str, Pairs]], timed: bool) -> dict[str, Any]:
    """One line: its blocks, tensors, parameters, arithmetic of both passes and times."""
    name, layers = alike[0][0], [layer for _, pairs in alike for layer, _ in pairs]
    return {
        "name": name if len(alike) == 1 else f"{name} to {alike[-1][0].rpartition('.')[2]}",
        "blocks": len(alike),
        "tensors": len(layers),
        "parameters": sum(layer.numel for layer in layers),
        "flops": sum(math.fsum(flops for _, flops in pairs) for _, pairs in alike) or None,
        "forward_s": math.fsum(layer.forward for layer in layers) if timed else None,
        "backward_s": math.fsum(layer.backward for layer in layers) if timed else None,
    }


def _assumptions(workload: Workload, made: Description | None, gpu: Gpu | None) -> list[dict[str, Any]]:
    """What the numbers rest on: in words, with source and width where there is one."""
    found: list[dict[str, Any]] = []

    def add(what: str, source: str, width: float | None = None) -> None:
        found.append({"what": what, "source": source, "width": width})

    if made is None:
        if workload.has_times:
            add(f"times measured on {workload.device or 'a GPU that is not stated'}", workload.source)
        return found
    if workload.source:
        add("tensors, sizes and precision", workload.source)
    add("a multiplication with its addition counts as two operations; element-wise work is left out", "convention")
    for text in made.assumptions:
        add(text, "as described")
    add(
        "activations: all that a backward pass reads, with a mask of one byte per element of dropout, without the "
        "allocator's reserve",
        "Korthikanti et al. 2022 (2205.05198)",
    )
    add("norms, activation functions and rotary positions are one kernel each", "fused kernels of PyTorch")
    if gpu is not None and not gpu.ideal:
        clock = OperatorClock(gpu, made.arithmetic)
        share = clock.efficiency
        add(
            f"{made.arithmetic} at {clock.rate / 1e12:.4g} TFLOP/s, of which large matrix products reach "
            f"{100 * share.value:.0f} %",
            f"data sheet; {share.source} ({RATES})",
            share.width,
        )
        add(
            f"memory at {1e-9 / clock.per_byte:.4g} GB/s",
            "element-wise kernels of this GPU, or share of the data sheet",
        )
        kinds = {operator.kind for operator in made.forward}
        if "attention" in kinds:
            text = f"fused attention at {100 * clock.attention['fused']:.0f} % of the rate of large products"
            add(text, "Dao 2023 (2307.08691): 50 to 73 % of an A100's rate, where products reach 80 to 90 %")
        if kinds & {"convolution", "winograd"}:
            text = f"convolutions at {clock.rates.convolution:.2f} times the rate of products, 3x3 by a fast algorithm"
            add(text, "fitted to backward passes of five V100 profiles", clock.rates.convolution_width)
    return found
