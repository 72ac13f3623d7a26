"""An imported profile on the terminal: its steps, where their time goes, and warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from simulator.reporting.terminal.printing import add_rows, plain_table, print_lines, print_plain, print_warnings
from simulator.reporting.wording.values import format_error, format_share
from simulator.units import count_of, show_bytes, show_time

_SHOWN = 20


def print_profile(document: Mapping[str, Any], console: Console) -> None:
    """Sentences on the steps and on the parts of a step, a table of collectives, and warnings."""
    if "ranks" in document:
        _print_ranks(document["ranks"], document["file"], console)
    if document.get("steps_used"):
        for line in _sentences(document):
            print_plain(line, console)
    found = document["collectives"]
    if found:
        numbers = ("size", "element", "workers", "stream", "per step", "mean time", "wait for the last rank")
        waited = any(item["waited_s"] is not None for item in found)
        table = plain_table(("collective",), numbers if waited else numbers[:-1])
        for item in found[:_SHOWN]:
            known = show_bytes(item["nbytes"]) if item["nbytes"] else "not stated"
            element = f"{item['itemsize']} B" if item["itemsize"] else "-"
            rate = "-" if item["per_step"] is None else f"{item['per_step']:.3g}"
            cells = [known, element, item["workers"], item["stream"], rate, show_time(item["mean_s"])]
            cells += [show_time(item["waited_s"])] if waited else []
            add_rows(table, [(item["collective"], *cells)])
        print_lines(table, console)
        if len(found) > _SHOWN:
            print_plain(f"... and {len(found) - _SHOWN} more kinds and sizes; collectives.csv has all", console)
    print_warnings(document["warnings"], console)


def _print_ranks(ranks: Sequence[Mapping[str, Any]], chosen: str, console: Console) -> None:
    table = plain_table(("rank",), ("step", "compute", "GPU use", "waits for launches", "for data", "for collectives"))
    for row in ranks:
        cells = ["-"] * 6
        if "step_s" in row:
            cells = [show_time(row["step_s"]), show_time(row["compute_s"]), format_share(row["gpu_use"])]
            cells += [format_share(row["host_bound"]), show_time(row["data_loading_s"])]
            cells.append(show_time(row["exposed_collectives_s"]))
        add_rows(table, [(row["file"], *cells)])
    print_lines(table, console)
    print_plain(f"the workload is that of {chosen}, whose compute is the median", console)


def _sentences(made: Mapping[str, Any]) -> list[str]:
    step = made["step_s"]
    used = ", ".join(map(str, made["steps_used"]))
    waiting = {"launches": made["host_bound"] * step, "data": made["data_loading_s"]}
    waiting["collectives"] = made["exposed_collectives_s"]
    waits = ", ".join(f"{show_time(part)} ({format_share(part / step)}) for {name}" for name, part in waiting.items())
    meets = "waits for the GPU in every step" if made["host_waits"] else "may run ahead of the GPU"
    named = f", which launches {made['optimiser_kernels']:g} kernels ({made['optimiser']})" if made["optimiser"] else ""
    return [
        f"{count_of(len(made['steps_found']), 'step')}, of which {used} are used:"
        f" {show_time(made['wall_s'])} each on the host, {show_time(made['gpu_span_s'])} on the GPU (medians)",
        f"a kernel runs {format_share(made['gpu_use'])} of the step; the GPU waits {waits}",
        f"one GPU by itself: {show_time(made['compute_s'])}; from the times of the layers"
        f" {show_time(made['compute_from_layers_s'])} ({format_error(made['compute_from_layers_error'], sign=True)})",
        f"GPU: forward {show_time(made['forward_gpu_s'])}, backward {show_time(made['backward_gpu_s'])}, after the last"
        f" gradient {show_time(made['update_s'])}, of which the optimiser {show_time(made['optimiser_gpu_s'])}{named}",
        f"host: forward {show_time(made['forward_host_s'])}, backward {show_time(made['backward_host_s'])}, optimiser"
        f" {show_time(made['optimiser_host_s'])}; it {meets}",
    ]
