"""Gradient traces in blocks: what they hold, their build-up, and the overlap laws fitted to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simulator.reporting.wording.blocks import Block, Facts
from simulator.reporting.wording.tables import Column, Table

_LAYERS = (
    Column("layer", "layer", "words"),
    Column("numel", "elements", "count"),
    Column("iteration", "iteration", "figure"),
    Column("std", "std", "short"),
    Column("excess_kurtosis", "excess kurtosis", "short"),
    Column("gaussian_distance", "distance to Gaussian", "short"),
    Column("shape", "distribution", "unbroken"),
)
_BUILD_UP = (
    Column("workers", "workers", "figure"),
    Column("iteration", "from iteration", "figure"),
    Column("selected", "selected", "short"),
    Column("aggregated", "aggregated", "short"),
    Column("independent", "independent", "short"),
    Column("build_up", "build-up", "short"),
    Column("padding", "padding", "short"),
    Column("energy_kept", "energy kept", "short"),
    Column("never_sent", "never sent", "short"),
)
_UNIONS = (
    Column("workers", "workers", "figure"),
    Column("union", "union", "number"),
    Column("beta_binomial", "beta-binomial", "number"),
    Column("beta_binomial_error", "error", "error"),
    Column("mixture", "mixture", "number"),
    Column("mixture_error", "error", "error"),
    Column("default", "taken", "number"),
    Column("default_error", "error", "error"),
    Column("used_in_fit", "", "fitted"),
)


def trace_blocks(document: Mapping[str, Any]) -> Iterator[Block]:
    """What a trace holds, and each layer's distribution."""
    facts = ("model", "framework", "device", "workers", "batch_size", "sampling", "source")
    yield Facts([(key, str(document[key])) for key in facts])
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
            {**same[0], **{item.key: sum(row[item.key] for row in same) / len(same) for item in _BUILD_UP[2:]}}
            for same in counts.values()
        ]
        yield Table.of(method, _BUILD_UP, rows)


def overlap_blocks(document: Mapping[str, Any]) -> Iterator[Block]:
    """The fitted overlap laws, and the unions that they give next to those of the trace."""
    c = document["overlap_concentration"]
    yield (
        f"Top-k {document['density']:g} by {document['granularity']}, unions from {document['source']}: "
        f"overlap_concentration: {'independent' if c is None else f'{c:.4g}'}, or overlap_mixture: "
        f"{{spread: {document['overlap_mixture']['spread']:.4g}, core: {document['overlap_mixture']['core']:.4g}}}"
    )
    yield f"Taken for more workers than the trace has: {_describe_law(document['default'])}"
    yield Table.of("", _UNIONS, document["rows"])


def _describe_law(law: Mapping[str, Any]) -> str:
    """A law as the key of a scenario."""
    ((key, value),) = law.items()
    if isinstance(value, dict):
        value = "{" + ", ".join(f"{name}: {number:.4g}" for name, number in value.items()) + "}"
    return f"{key}: {value if isinstance(value, str) else 'independent' if value is None else f'{value:.4g}'}"
