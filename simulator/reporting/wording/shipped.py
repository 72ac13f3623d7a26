"""What is shipped, in blocks: a line for each part or file that can be named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simulator.reporting.wording.blocks import Block, Text
from simulator.reporting.wording.tables import Column, Table, columns

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
