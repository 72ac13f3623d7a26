"""What is shipped on the terminal: a line for each part or file that can be named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from simulator.reporting.terminal.printing import print_plain
from simulator.units import show_bandwidth, show_time

Column = tuple[str, str, Callable[[Any], str]]


def _in(unit: float) -> Callable[[Any], str]:
    return lambda value: f"{value / unit:.4g}"


_COLUMNS: dict[str, tuple[Column, ...]] = {
    "gpus": (
        ("memory\nGiB", "memory_bytes", _in(2.0**30)),
        ("memory\nGB/s", "memory_bandwidth_bytes_per_s", _in(1e9)),
        ("fp32\nTFLOP/s", "fp32_flop_per_s", _in(1e12)),
        ("bf16\nTFLOP/s", "bf16_flop_per_s", _in(1e12)),
    ),
    "networks": (
        ("bandwidth", "bandwidth_bytes_per_s", show_bandwidth),
        ("latency", "latency_s", show_time),
        ("NICs", "nics_per_node", str),
    ),
    "runtimes": (("framework", "framework", str),),
    "workloads": (
        ("parameters", "parameters", lambda value: f"{value:,}"),
        ("batch", "batch_size", lambda value: f"{value:,}"),
        ("timed on", "device", str),
    ),
    "traces": (("workers", "workers", str), ("batch", "batch_size", str)),
    "trainings": (
        ("parameters", "parameters", lambda value: f"{value:,}"),
        ("methods", "methods", str),
        ("trainings", "trainings", str),
    ),
}
"""Figures of a record: heading, key, and how the value is shown."""
NEXT = {
    "workloads": "in a scenario: workload: NAME; your own: sparsim record layers FILE.py:FUNCTION --out FOLDER",
    "gpus": "in a scenario: cluster: {gpu: NAME}; what each kernel takes: sparsim kernels NAME",
    "networks": "in a scenario: cluster: {network: NAME}; your own: sparsim calibrate network",
    "runtimes": "in a scenario: cluster: {runtime: NAME}; your own: sparsim calibrate runtime",
    "scenarios": "sparsim run NAME; your own: sparsim new",
    "sweeps": "sparsim sweep NAME --base FILE.yaml --out FOLDER",
    "papers": "sparsim reproduce NAME",
    "traces": "in a scenario: workload: {trace: NAME}; your own: sparsim record gradients FILE.py:FUNCTION",
    "trainings": "sparsim quality NAME --target 'loss 1'; your own: sparsim train TASK --out FOLDER",
}
"""What can be listed, and what to do with a name of it."""


def print_shipped(document: Mapping[str, Any], console: Console) -> None:
    """One line for each record of `what` is listed, and what to do with a name."""
    (what, records), *_ = document.items()
    columns = _COLUMNS.get(what, ())
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=bool(columns))
    table.add_column("name", no_wrap=True)
    with_words = any(_words(record) for record in records)
    if with_words:
        table.add_column("")
    for heading, *_ in columns:
        table.add_column(heading, justify="right" if heading not in ("timed on", "framework") else "left", no_wrap=True)
    for record in records:
        cells = [escape(record["name"])]
        if with_words:
            cells.append(f"[red]{escape(record['error'])}[/red]" if "error" in record else escape(_words(record)))
        for _, key, show in columns:
            cells.append("" if record.get(key) is None else escape(show(record[key])))
        table.add_row(*cells)
    console.print(table, highlight=False, width=min(console.width, 100))
    print_plain(NEXT[what], console, "dim")


def _words(record: Mapping[str, Any]) -> str:
    """What a record is, where that says more than its name."""
    name = record["name"].rpartition("/")[2]
    words = "" if record["what"] == name and "error" not in record else record["what"] or record.get("error", "")
    return str(words)
