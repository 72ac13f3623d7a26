"""A workload in blocks: totals, groups of tensors, and what they rest on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simulator.reporting.wording.blocks import Block, Facts, Text
from simulator.reporting.wording.tables import Table, columns
from simulator.units import count_of, show_bytes, show_time

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))


def workload_blocks(document: Mapping[str, Any]) -> Iterator[Block]:
    """The document of `sparsim list workload`."""
    yield Text(document["name"], "title")
    yield Facts(list(_facts(document)))
    yield ""
    timed = document["forward_s"] is not None
    heads = (*columns("words", "part"), *columns("figure", "tensors"), *columns("count", "parameters"))
    heads += (*columns("figure", "operations"), *columns("time", *(("forward", "backward") if timed else ())))
    rows = []
    for row in document["groups"]:
        name = row["name"] if row["blocks"] == 1 else f"{row['name']} ({row['blocks']} alike)"
        flops = None if row["flops"] is None else _flop(row["flops"])
        times = (row["forward_s"], row["backward_s"]) if timed else ()
        rows.append((name, row["tensors"], row["parameters"], flops, *times))
    yield Table("", heads, rows)
    yield ""
    yield Text("What this rests on", "title")
    for item in document["assumptions"]:
        width = f", may be off by {item['width']:.2g}" if item["width"] is not None else ""
        yield f"- {item['what']}{width}: {item['source']}"


def _facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    batch = count_of(document["batch_size"], "sample")
    passes = document["micro_batches"]
    yield "batch", batch if passes == 1 else f"{batch} in {passes} passes"
    tensors = count_of(document["tensors"], "tensor")
    active = document["active_parameters"]
    used = f", of which a token uses {active:,}" if active < document["parameters"] else ""
    used += f", beside {document['frozen_parameters']:,} that are not trained" if document["frozen_parameters"] else ""
    yield "parameters", f"{document['parameters']:,} in {tensors}{used}"
    yield "gradient", f"{show_bytes(document['gradient_bytes'])} ({document['precision']})"
    flops = document["flops"]
    if flops is not None:
        both = f"forward {_flop(flops['forward'])}, backward {_flop(flops['backward'])}"
        yield "operations", f"{both} a step, products in {flops['arithmetic']}"
    kept = document["activation_bytes_per_sample"]
    if kept is not None:
        step = kept * document["batch_size"] / passes
        yield "activations", f"{show_bytes(kept)} a sample, {show_bytes(step)} kept until the backward pass"
    else:
        yield "activations", "not known"
    yield from _times(document)


def _times(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if document["compute_time_s"] is not None:
        yield "iteration", f"{show_time(document['compute_time_s'])} on one GPU, as stated"
    if document["forward_s"] is None:
        if document["gpu"] is None:
            yield "times", "give --gpu, for example --gpu gpus/h100"
        return
    on = document["gpu"] or document["device"] or "a GPU that is not stated"
    yield "time", f"forward {show_time(document['forward_s'])}, backward {show_time(document['backward_s'])} on {on}"
    width = document["width"]
    if width is not None:
        text = f"{width['level']}; right within a factor of {width['factor']:.2f} in nine of ten cases"
        yield "", text if document["flops"] is not None else f"{text}: {width['source']}"
    if document["share_of_peak"] is not None:
        peak = f"{document['peak_flops_per_s'] / 1e12:.4g} TFLOP/s"
        yield "share of peak", f"{100 * document['share_of_peak']:.1f} % of {peak}"


def _flop(value: float) -> str:
    """Operations with a prefix.

    >>> _flop(6.588e13)
    '65.88 TFLOP'
    """
    for limit, prefix in _PREFIXES:
        if value >= limit:
            return f"{value / limit:.4g} {prefix}FLOP"
    return f"{value:.4g} FLOP"
