"""What `sparsim list` prints, in blocks: kinds of parts, shipped files, kernels on GPUs, and a workload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simulator.reporting.wording.blocks import Block, Column, Table, Text, columns
from simulator.reporting.wording.values import format_value
from simulator.units import count_of, show_bytes, show_time

_KERNELS = (
    *columns("words", "kernel", "class", "known from", "may be off by"),
    *columns("figure", "GPUs"),
    *columns("time", "1 M", "100 M elements"),
)
_ACCURACY = (
    *columns("words", name=""),
    *columns("figure", gpus="GPUs", kernels="kernels", values="values"),
    *columns("ratio", median_factor="median", worst_factor="worst"),
    *columns("whole_percent", close="within 1.5", within_width="within width"),
)
_LEFT_OUT = {
    "leave_one_gpu_out": "Estimates against GPUs that were left out, by kernel",
    "leave_one_kernel_out": "Estimates against kernels that were left out, by class",
}


def kernels_blocks(document: Mapping[str, Any]) -> Iterator[Block]:
    """A table for each GPU, then the errors of estimates where they were asked for."""
    for name in dict.fromkeys(row["gpu"] for row in document["kernels"]):
        rows = [_kernel(row) for row in document["kernels"] if row["gpu"] == name]
        yield Table(name, _KERNELS, rows)
        yield ""
    for key, title in _LEFT_OUT.items():
        if key in document:
            yield Text(title, "title")
            yield Table.of("", _ACCURACY, document[key])
            yield ""


def _kernel(row: Mapping[str, Any]) -> tuple[Any, ...]:
    made, width = row["implementation"], row["width"]
    name = made if made.startswith(row["kernel"]) else row["kernel"]
    error = format_value("size", row["held_out_mape"], "not stated") if width is None else f"factor {width:.2g}"
    return name, row["class"], row["level"], error, row["count"] or None, *row["seconds"]


_COLUMNS = {
    "gpus": (
        *columns("gibi", memory_bytes="memory\nGiB"),
        *columns("giga", memory_bandwidth_bytes_per_s="memory\nGB/s"),
        *columns("tera", fp32_flop_per_s="fp32\nTFLOP/s", bf16_flop_per_s="bf16\nTFLOP/s"),
    ),
    "networks": (
        *columns("bandwidth", bandwidth_bytes_per_s="bandwidth"),
        *columns("time", latency_s="latency"),
        *columns("figure", nics_per_node="NICs"),
    ),
    "runtimes": columns("words", "framework"),
    "workloads": (*columns("count", "parameters", batch_size="batch"), *columns("words", device="timed on")),
    "traces": columns("figure", "workers", batch_size="batch"),
    "trainings": (*columns("count", "parameters"), *columns("figure", "methods", "trainings")),
}
"""Figures of a record."""
NEXT = {
    "workloads": "in a scenario: workload: NAME; your own: sparsim record layers FILE.py:FUNCTION --out FOLDER",
    "gpus": "in a scenario: cluster: {gpu: NAME}; what each kernel takes: sparsim list kernels NAME",
    "networks": "in a scenario: cluster: {network: NAME}; your own: sparsim calibrate network",
    "runtimes": "in a scenario: cluster: {runtime: NAME}; your own: sparsim calibrate runtime",
    "scenarios": "sparsim run NAME; your own: sparsim new",
    "sweeps": "sparsim sweep NAME --base FILE.yaml --out FOLDER",
    "papers": "sparsim reproduce NAME",
    "traces": "in a scenario: workload: {trace: NAME}; your own: sparsim record gradients FILE.py:FUNCTION",
    "aliases": "each may stand where what it means is written, or the error says which keys are meant",
    "trainings": "sparsim quality NAME --target 'loss 1'; your own: sparsim record training TASK --out FOLDER",
}
"""What can be listed, and what to do with a name of it."""


def shipped_blocks(document: Mapping[str, Any]) -> Iterator[Block]:
    """One line for each record of `what` is listed, and what to do with a name."""
    (what, records), *_ = document.items()
    figures = _COLUMNS.get(what, ())
    with_words = (Column("words", "", "words"),) if any(map(_words, records)) else ()
    heads = (Column("name", "name" if figures else "", "unbroken"), *with_words, *figures)
    rows = [{**record, "words": record.get("error", "") or _words(record)} for record in records]
    styles = {number: "red" for number, record in enumerate(records) if "error" in record}
    yield Table(
        "",
        heads,
        [["" if row.get(item.key) is None else row[item.key] for item in heads] for row in rows],
        styles=styles,
        listing=True,
    )
    yield Text(NEXT[what], "dim")


def _words(record: Mapping[str, Any]) -> str:
    """What a record is, where that says more than its name."""
    name = record["name"].rpartition("/")[2]
    words = "" if record["what"] == name and "error" not in record else record["what"] or record.get("error", "")
    return str(words)


def kinds_blocks(listing: dict[str, Sequence[Mapping[str, Any]]]) -> Iterator[Block]:
    """Families, kinds, first docstring lines and parameters; plug-ins that are broken; then what else can be listed."""
    for family, kinds in listing.items():
        if family == "broken_plugins":
            yield Text("plug-ins that could not be loaded", "title")
            yield from (f"  {item['name']} ({item['target']}): {item['reason']}" for item in kinds)
            continue
        yield Text(family, "title")
        rows = []
        for kind in kinds:
            parameters = ", ".join(
                item["name"] + ("" if item["required"] else f"={item['default']}") for item in kind["parameters"]
            )
            rows.append((f"  {kind['kind']}", kind["summary"], parameters))
        yield Table.facts(rows, dim=2)
    yield ""
    yield f"also: sparsim list {'|'.join(NEXT)}"


_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))


def workload_blocks(document: Mapping[str, Any]) -> Iterator[Block]:
    """The document of `sparsim list workload`."""
    yield Text(document["name"], "title")
    yield Table.facts(_facts(document))
    yield ""
    heads = (*columns("words", name="part"), *columns("figure", "tensors"), *columns("count", "parameters"))
    heads += columns("figure", flops="operations")
    if document["forward_s"] is not None:
        heads += columns("time", forward_s="forward", backward_s="backward")
    rows = []
    for row in document["groups"]:
        name = row["name"] if row["blocks"] == 1 else f"{row['name']} ({row['blocks']} alike)"
        rows.append({**row, "name": name, "flops": None if row["flops"] is None else _flop(row["flops"])})
    yield Table.of("", heads, rows)
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
