"""Gradient traces and profiles in blocks: what they hold, their build-up, and the overlap laws fitted to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simulator.reporting.wording.blocks import Block, Column, Table, columns, texts
from simulator.reporting.wording.values import format_error, format_share
from simulator.units import count_of, join_words, show_time

NOT_SETTLED = "has not settled"
"""What is said of a method whose replay has not."""

_LAYERS = (
    *columns("words", "layer"),
    *columns("count", numel="elements"),
    *columns("figure", "iteration"),
    *columns("short", "std", "excess kurtosis", gaussian_distance="distance to Gaussian"),
    *columns("unbroken", shape="distribution"),
)
_MEANS = columns("short", "selected", "aggregated", "independent", "build-up", "padding", "energy kept", "never sent")
_BUILD_UP = (*columns("figure", "workers", iteration="from iteration"), *_MEANS)
_LAWS = {"beta_binomial": "beta-binomial", "mixture": "mixture", "default": "taken"}
_UNIONS = (
    *columns("figure", "workers"),
    *columns("number", "union"),
    *(
        column
        for law, name in _LAWS.items()
        for column in (Column(law, name, "number"), Column(f"{law}_error", "error", "error"))
    ),
    *columns("fitted", used_in_fit=""),
)


def trace_blocks(document: Mapping[str, Any]) -> Iterator[Block]:
    """What a trace holds, and each layer's distribution."""
    facts = ("model", "framework", "device", "workers", "batch_size", "sampling", "source")
    held, elements = document["held"], document["elements"]
    all_or_some = (
        f"all {elements:,}: the trace is whole"
        if held == elements
        else f"a sample: {held:,} of {elements:,} (1 in {elements / held:,.0f})"
    )
    yield Table.facts([*((key, str(document[key])) for key in facts), ("coordinates", all_or_some)])
    yield Table.of("", _LAYERS, ({**row, "shape": _histogram(row["histogram"])} for row in document["layers"]))


def _histogram(shares: list[float]) -> str:
    """A histogram in one line of characters for two bins each, on a square-root scale so that its tails can be seen."""
    shares = [sum(shares[place : place + 2]) for place in range(0, len(shares), 2)]
    top = max(shares, default=0.0)
    blocks = " ▁▂▃▄▅▆▇█"
    return "".join(blocks[round((len(blocks) - 1) * (share / top) ** 0.5)] for share in shares) if top else ""


def build_up_blocks(document: Mapping[str, Any]) -> Iterator[Block]:
    """A table for each method: mean over the settled iterations per worker count."""
    groups: dict[str, dict[int, list[dict[str, Any]]]] = {}
    for row in document["rows"]:
        if row["priced"]:
            groups.setdefault(row["method"], {}).setdefault(row["workers"], []).append(row)
    for method, counts in groups.items():
        rows = [
            {**same[0], **{item.key: sum(row[item.key] for row in same) / len(same) for item in _MEANS}}
            for same in counts.values()
        ]
        yield Table.of(method, _BUILD_UP, rows)
        moving = {count: same[0]["unsettled"] for count, same in counts.items() if same[0]["unsettled"]}
        if moving:
            on = join_words([*map(str, moving)])
            yield f"{method} {NOT_SETTLED} on {on} workers: {next(iter(moving.values()))}"


def overlap_blocks(document: Mapping[str, Any]) -> Iterator[Block]:
    """The fitted overlap laws, and the unions that they give next to those of the trace."""
    c = document["overlap_concentration"]
    yield (
        f"Top-k {document['density']:g} by {document['granularity']}, unions from {document['source']}: "
        f"overlap_concentration: {'independent' if c is None else f'{c:.4g}'}, or overlap_mixture: "
        f"{{spread: {document['overlap_mixture']['spread']:.4g}, core: {document['overlap_mixture']['core']:.4g}}}"
    )
    if document["unsettled"]:
        yield f"The replay {NOT_SETTLED}: {document['unsettled']}"
    yield f"Taken for more workers than the trace has: {_describe_law(document['default'])}"
    yield Table.of("", _UNIONS, document["rows"])


def _describe_law(law: Mapping[str, Any]) -> str:
    """A law as the key of a scenario."""
    ((key, value),) = law.items()
    if isinstance(value, dict):
        value = "{" + ", ".join(f"{name}: {number:.4g}" for name, number in value.items()) + "}"
    return f"{key}: {value if isinstance(value, str) else 'independent' if value is None else f'{value:.4g}'}"


_SHOWN = 20


_RANKS = (
    *columns("words", file="rank"),
    *columns("time", step_s="step", compute_s="compute"),
    *columns("percent", gpu_use="GPU use", host_bound="waits for launches"),
    *columns("time", data_loading_s="for data", exposed_collectives_s="for collectives"),
)
_COLLECTIVES = (
    *columns("words", "collective"),
    *columns("bytes", nbytes="size"),
    *columns("figure", "element", "workers", "stream"),
    *columns("short", "per step"),
    *columns("time", mean_s="mean time", waited_s="wait for the last rank"),
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
        heads = _COLLECTIVES if any(item["waited_s"] is not None for item in found) else _COLLECTIVES[:-1]
        yield Table.of("", heads, map(_collective, found[:_SHOWN]))
        if len(found) > _SHOWN:
            yield f"... and {len(found) - _SHOWN} more kinds and sizes; collectives.csv has all"
    yield from texts(document["warnings"], "warning")


def _collective(item: Mapping[str, Any]) -> Mapping[str, Any]:
    element = f"{item['itemsize']} B" if item["itemsize"] else None
    return {**item, "nbytes": item["nbytes"] or "not stated", "element": element}


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
