"""An imported profile in blocks: its steps, where their time goes, and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simulator.reporting.wording.blocks import Block, texts
from simulator.reporting.wording.tables import Table, columns
from simulator.reporting.wording.values import format_error, format_share
from simulator.units import count_of, show_time

_SHOWN = 20


_RANKS = (
    *columns("words", file="rank"),
    *columns("time", step_s="step", compute_s="compute"),
    *columns("percent", gpu_use="GPU use", host_bound="waits for launches"),
    *columns("time", data_loading_s="for data", exposed_collectives_s="for collectives"),
)
_COLLECTIVES = (
    *columns("words", "collective"),
    *columns("bytes", "size"),
    *columns("figure", "element", "workers", "stream"),
    *columns("short", "per step"),
    *columns("time", "mean time", "wait for the last rank"),
)


def profile_blocks(document: Mapping[str, Any]) -> Iterator[Block]:
    """Sentences on the steps and on the parts of a step, a table of collectives, and warnings."""
    if "ranks" in document:
        yield Table.of("", _RANKS, document["ranks"])
        yield f"the workload is that of {document['file']}, whose compute is the median"
    if document.get("steps_used"):
        yield from _sentences(document)
    found = document["collectives"]
    if found:
        waited = any(item["waited_s"] is not None for item in found)
        rows = [_collective(item) for item in found[:_SHOWN]]
        yield Table("", _COLLECTIVES if waited else _COLLECTIVES[:-1], rows if waited else [row[:-1] for row in rows])
        if len(found) > _SHOWN:
            yield f"... and {len(found) - _SHOWN} more kinds and sizes; collectives.csv has all"
    yield from texts(document["warnings"], "warning")


def _collective(item: Mapping[str, Any]) -> tuple[Any, ...]:
    element = f"{item['itemsize']} B" if item["itemsize"] else None
    known = (item["collective"], item["nbytes"] or "not stated", element, item["workers"], item["stream"])
    return *known, item["per_step"], item["mean_s"], item["waited_s"]


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
