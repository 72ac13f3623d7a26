"""A workload in numbers, as `sparsim list workload` shows it: tensors, arithmetic, times, activations, assumptions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from simulator.architectures.describing import description_of, price
from simulator.hardware.gpu import Gpu
from simulator.hardware.operator_times import RATES, OperatorClock
from simulator.hardware.widths import compute_width
from simulator.models.layers import Layer, Workload, block_of
from simulator.models.operators import Description, flops_of
from simulator.records import Struct

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
        "groups": [item.as_dict(timed) for item in _groups(workload, made)],
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


class _Group(Struct):
    """Tensors that are shown in one line. `blocks`: how many blocks of the same sizes they are."""

    name: str
    layers: list[Layer]
    flops: float = 0.0
    blocks: int = 1
    last: str = ""

    def as_dict(self, timed: bool) -> dict[str, Any]:
        """One line: its tensors, parameters, arithmetic of both passes and times."""
        return {
            "name": self.name if self.blocks == 1 else f"{self.name} to {self.last}",
            "blocks": self.blocks,
            "tensors": len(self.layers),
            "parameters": sum(layer.numel for layer in self.layers),
            "flops": self.flops or None,
            "forward_s": math.fsum(layer.forward for layer in self.layers) if timed else None,
            "backward_s": math.fsum(layer.backward for layer in self.layers) if timed else None,
        }


def _groups(workload: Workload, made: Description | None) -> list[_Group]:
    """The tensors in forward order by block, blocks of the same sizes in a row together."""
    flops = [0.0] * len(workload.layers)
    if made is not None:
        passes = workload.micro_batches
        flops = [passes * (flops_of(item.forward) + flops_of(item.backward)) for item in made.tensors]
    pairs = list(zip(workload.layers, flops, strict=True))
    groups = _merged(_cut(pairs, lambda name: block_of(name) or name.rpartition(".")[0] or name))
    if len(groups) > MOST_GROUPS:
        groups = _cut(pairs, lambda name: name.partition(".")[0])
    if len(groups) > MOST_GROUPS:
        groups = [_Group("all tensors", list(workload.layers), math.fsum(flops))]
    return groups


def _cut(pairs: Iterable[tuple[Layer, float]], name_of: Any) -> list[_Group]:
    cut = [(name, list(items)) for name, items in groupby(pairs, key=lambda pair: name_of(pair[0].name))]
    return [_Group(name, [layer for layer, _ in items], math.fsum(value for _, value in items)) for name, items in cut]


def _merged(groups: Sequence[_Group]) -> list[_Group]:
    """Neighbours with numbered names and the same sizes as one."""
    made: list[_Group] = []
    for group in groups:
        before = made[-1] if made else None
        stem, _, number = group.name.rpartition(".")
        sizes = [layer.numel for layer in group.layers]
        alike = (
            before is not None
            and number.isdecimal()
            and before.name.rpartition(".")[0] == stem
            and sizes == [layer.numel for layer in before.layers[: len(sizes)]]
            and len(before.layers) == before.blocks * len(sizes)
        )
        if before is not None and alike:
            before.layers += group.layers
            before.flops += group.flops
            before.blocks, before.last = before.blocks + 1, number
        else:
            made.append(group)
    return made


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
