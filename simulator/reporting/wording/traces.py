"""Gradient traces in blocks: what they hold, their build-up, and the overlap laws fitted to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simulator.reporting.wording.blocks import Block, Facts
from simulator.reporting.wording.tables import Column, Table, columns
from simulator.units import join_words

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
    yield Facts([*((key, str(document[key])) for key in facts), ("coordinates", all_or_some)])
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
