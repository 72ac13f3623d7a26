"""Gradient traces on the terminal: what they hold, their build-up, and the overlap laws fitted to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from simulator.reporting.terminal.printing import (
    add_rows,
    plain_table,
    print_facts,
    print_lines,
    print_plain,
)
from simulator.reporting.wording.values import format_error


def print_trace(document: Mapping[str, Any], console: Console) -> None:
    """What a trace holds, and each layer's distribution."""
    facts = ("model", "framework", "device", "workers", "batch_size", "sampling", "source")
    print_facts(((key, str(document[key])) for key in facts), console)
    numbers = ("elements", "iteration", "std", "excess kurtosis", "distance to Gaussian")
    table = plain_table(("layer",), numbers)
    table.add_column("distribution", no_wrap=True)
    for row in document["layers"]:
        shape = ["-" if row[key] is None else f"{row[key]:.3g}" for key in ("excess_kurtosis", "gaussian_distance")]
        cells = [f"{row['numel']:,}", row["iteration"], f"{row['std']:.3g}", *shape, _histogram(row["histogram"])]
        add_rows(table, [(row["layer"], *cells)])
    print_lines(table, console)


def _histogram(shares: list[float]) -> str:
    """A histogram in one line of characters for two bins each, on a square-root scale so that its tails can be seen."""
    shares = [sum(shares[place : place + 2]) for place in range(0, len(shares), 2)]
    top = max(shares, default=0.0)
    blocks = " ▁▂▃▄▅▆▇█"
    return "".join(blocks[round((len(blocks) - 1) * (share / top) ** 0.5)] for share in shares) if top else ""


def print_build_up(document: Mapping[str, Any], console: Console) -> None:
    """A table for each method: mean over the settled iterations per worker count."""
    keys = ("selected", "aggregated", "independent", "build_up", "padding", "energy_kept", "never_sent")
    names = ("selected", "aggregated", "independent", "build-up", "padding", "energy kept", "never sent")
    groups: dict[str, dict[int, list[dict[str, Any]]]] = {}
    for row in document["rows"]:
        if row["priced"]:
            groups.setdefault(row["method"], {}).setdefault(row["workers"], []).append(row)
    for method, counts in groups.items():
        rows = (
            (workers, same[0]["iteration"], *(f"{sum(row[key] for row in same) / len(same):.3g}" for key in keys))
            for workers, same in counts.items()
        )
        print_lines(add_rows(plain_table((), ("workers", "from iteration", *names), title=method), rows), console)


def print_overlap(document: Mapping[str, Any], console: Console) -> None:
    """The fitted overlap laws, and the unions that they give next to those of the trace."""
    c = document["overlap_concentration"]
    print_plain(
        f"Top-k {document['density']:g} by {document['granularity']}, unions from {document['source']}: "
        f"overlap_concentration: {'independent' if c is None else f'{c:.4g}'}, or overlap_mixture: "
        f"{{spread: {document['overlap_mixture']['spread']:.4g}, core: {document['overlap_mixture']['core']:.4g}}}",
        console,
    )
    print_plain(f"Taken for more workers than the trace has: {_describe_law(document['default'])}", console)
    rows = []
    for row in document["rows"]:
        cells = [row["workers"], f"{row['union']:.4g}"]
        for law in ("beta_binomial", "mixture", "default"):
            cells += [f"{row[law]:.4g}", format_error(row[f"{law}_error"], sign=True)]
        rows.append([*cells, "fitted" if row["used_in_fit"] else ""])
    table = plain_table((), ("workers", "union", "beta-binomial", "error", "mixture", "error", "taken", "error", ""))
    print_lines(add_rows(table, rows), console)


def _describe_law(law: Mapping[str, Any]) -> str:
    """A law as the key of a scenario."""
    ((key, value),) = law.items()
    if isinstance(value, dict):
        value = "{" + ", ".join(f"{name}: {number:.4g}" for name, number in value.items()) + "}"
    return f"{key}: {value if isinstance(value, str) else 'independent' if value is None else f'{value:.4g}'}"
