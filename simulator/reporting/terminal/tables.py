"""Results on the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from simulator.units import count_of, show_bytes, show_time

_LABELS = {
    "forward": "forward",
    "backward": "backward",
    "selection": "selection",
    "communication_exposed": "communication not hidden",
    "combine": "combine",
    "update": "update",
    "waiting_for_slowest": "waiting for the slowest",
    "data_loading": "waiting for data",
}
_BAR = 28
_ERRORS = ("mape", "median_ape", "p95_ape", "max_ape", "bias", "coverage")


def print_run(document: dict[str, Any], console: Console) -> None:
    """One prediction at a glance: time, efficiency, where the time goes, traffic, density."""
    time, interval = document["iteration_time_s"], document["iteration_time_interval_s"]
    console.print(f"[bold]{escape(document['scenario'])}[/bold]", highlight=False)
    facts = Table.grid(padding=(0, 2))
    rows = [
        (
            "iteration time",
            f"{show_time(time)}   ({interval_words(interval)})",
        )
    ]
    if document["throughput_samples_per_s"] is not None:
        rows.append(
            (
                "throughput",
                f"{document['throughput_samples_per_s']:.5g} samples/s on {count_of(document['workers'], 'worker')}",
            )
        )
        rows.append(("scaling efficiency", f"{100 * document['scaling_efficiency']:.1f} %"))
    rows += [
        *_traffic(document),
        ("fidelity", f"{document['fidelity']['tier']}: {document['fidelity']['reason']}"),
    ]
    for name, value in rows:
        facts.add_row(f"[dim]{name}[/dim]", escape(value))
    console.print(facts, highlight=False)
    console.print(_breakdown(document), highlight=False)
    for warning in document["warnings"]:
        console.print(f"[yellow]warning[/yellow] {escape(warning)}", highlight=False)
    if "comparison" in document:
        if document.get("question"):
            console.print(f"\n[bold]{escape(document['question'])}[/bold]", highlight=False)
        console.print(escape(document["comparison"]["answer"]), highlight=False)


def interval_words(interval: list[float]) -> str:
    """A 90 % interval in words; of no width where nothing states its error."""
    low, high = interval
    if low == high:
        return "no interval: nothing that it rests on states its error"
    return f"90 % interval {show_time(low)} to {show_time(high)}"


def _traffic(document: dict[str, Any]) -> list[tuple[str, str]]:
    traffic, density = document["traffic"], document["density"]
    link = traffic["busiest_link"]
    rows = [
        (
            "traffic",
            f"{show_bytes(traffic['sent_bytes_per_worker'])} sent per worker and iteration; "
            f"busiest link {link['name']}, "
            f"{show_bytes(link['bytes'])}, {100 * link['utilisation']:.0f} % busy",
        )
    ]
    if density["target"] < 1:
        rows.append(
            (
                "density",
                f"target {density['target']:.4g}, selected {density['selected']:.4g}, "
                f"aggregated {density['aggregated']:.4g} "
                f"(build-up {density['build_up']:.3g}, padding {density['padding']:.3g})",
            )
        )
    return rows


def _breakdown(document: dict[str, Any]) -> Table:
    comparison = document.get("comparison")
    table = Table(box=None, pad_edge=False)
    table.add_column("where the time goes")
    table.add_column("time", justify="right")
    table.add_column("share", justify="right")
    table.add_column("")
    if comparison:
        table.add_column(f"against {escape(comparison['baseline'])}", justify="right")
    total = document["iteration_time_s"]
    terms = {**document["breakdown_s"], **document["idle_s"]}
    if comparison:
        others = {**comparison["baseline_breakdown_s"], **comparison["baseline_idle_s"]}
    for key, label in _LABELS.items():
        seconds = terms[key]
        if key == "data_loading" and not seconds:
            continue
        share = seconds / total if total else 0.0
        other = [show_time(others[key])] if comparison else []
        table.add_row(label, show_time(seconds), f"{100 * share:.1f} %", "█" * round(_BAR * share), *other)
    if comparison:
        table.add_row("sum", show_time(total), "", "", show_time(comparison["baseline_iteration_time_s"]), style="bold")
    return table


def print_validation(document: dict[str, Any], console: Console) -> None:
    """Every row with its signed error, then the errors per group and overall."""
    table = Table(box=None, pad_edge=False)
    for name in ("scenario", "quantity"):
        table.add_column(name, overflow="fold")
    for name in ("measured", "predicted", "error", "trivial sum", ""):
        table.add_column(name, justify="right")
    for row in document["rows"]:
        baseline = row["baseline_signed_error"]
        table.add_row(
            escape(row["scenario"]),
            row["quantity"],
            show_time(row["measured"]),
            show_time(row["predicted"]),
            f"{100 * row['signed_error']:+.1f} %",
            "" if baseline is None else f"{100 * baseline:+.1f} %",
            "fitted" if row["used_in_fit"] else "",
        )
    console.print(table, highlight=False)
    summary = Table(box=None, pad_edge=False, title="rows not used in fitting", title_justify="left")
    summary.add_column("group")
    for name in ("n", "MAPE", "median", "p95", "max", "bias", "inside the interval"):
        summary.add_column(name, justify="right")
    for name, errors in _summaries(document):
        cells = [_percent(errors[key], sign=key == "bias") for key in _ERRORS]
        summary.add_row(name, str(errors["n"]), *cells, style=None if name in document["groups"] else "bold")
    console.print(summary, highlight=False)


def print_trace(document: dict[str, Any], console: Console) -> None:
    """What a trace holds, and each layer's distribution."""
    facts = ("model", "framework", "device", "workers", "batch_size", "sampling", "source")
    grid = Table.grid(padding=(0, 2))
    for key in facts:
        grid.add_row(f"[dim]{key}[/dim]", escape(str(document[key])))
    console.print(grid, highlight=False)
    table = Table(box=None, pad_edge=False)
    for name in ("layer", "elements", "iteration", "std", "excess kurtosis", "distance to Gaussian", "distribution"):
        table.add_column(name, justify="left" if name in ("layer", "distribution") else "right")
    for row in document["layers"]:
        shape = ["-" if row[key] is None else f"{row[key]:.3g}" for key in ("excess_kurtosis", "gaussian_distance")]
        cells = [f"{row['numel']:,}", str(row["iteration"]), f"{row['std']:.3g}", *shape, _spark(row["histogram"])]
        table.add_row(escape(row["layer"]), *cells)
    console.print(table, highlight=False)


def print_build_up(document: dict[str, Any], console: Console) -> None:
    """Mean over iterations per method and worker count."""
    table = Table(box=None, pad_edge=False)
    names = ("workers", "selected", "aggregated", "independent", "build-up", "padding", "energy kept", "never sent")
    table.add_column("method")
    for name in names:
        table.add_column(name, justify="right")
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in document["rows"]:
        groups.setdefault((row["method"], row["workers"]), []).append(row)
    keys = ("selected", "aggregated", "independent", "build_up", "padding", "energy_kept", "never_sent")
    for (method, workers), rows in groups.items():
        means = [sum(row[key] for row in rows) / len(rows) for key in keys]
        table.add_row(escape(method), str(workers), *(f"{value:.3g}" for value in means))
    console.print(table, highlight=False)


def print_overlap(document: dict[str, Any], console: Console) -> None:
    """Fitted build-up laws beside the unions."""
    c = document["overlap_concentration"]
    console.print(
        f"Top-k {document['density']:g} by {document['granularity']}, unions from {document['source']}: "
        f"overlap_concentration: {'independent' if c is None else f'{c:.4g}'}, or overlap_mixture: "
        f"{{spread: {document['overlap_mixture']['spread']:.4g}, core: {document['overlap_mixture']['core']:.4g}}}",
        highlight=False,
    )
    table = Table(box=None, pad_edge=False)
    for name in ("workers", "union", "beta-binomial", "error", "mixture", "error", ""):
        table.add_column(name, justify="right")
    for row in document["rows"]:
        cells = []
        for law in ("beta_binomial", "mixture"):
            cells += [f"{row[law]:.4g}", _percent(row[f"{law}_error"], sign=True)]
        fitted = "fitted" if row["used_in_fit"] else ""
        table.add_row(str(row["workers"]), f"{row['union']:.4g}", *cells, fitted)
    console.print(table, highlight=False)


def _spark(shares: list[float]) -> str:
    """A histogram in one line of characters, on a square-root scale so that tails show."""
    top = max(shares, default=0.0)
    blocks = " ▁▂▃▄▅▆▇█"
    return "".join(blocks[round((len(blocks) - 1) * (share / top) ** 0.5)] for share in shares) if top else ""


def print_kinds(listing: dict[str, list[dict[str, Any]]], console: Console) -> None:
    """Families, kinds, first docstring lines and parameters."""
    for family, kinds in listing.items():
        console.print(f"[bold]{family}[/bold]")
        table = Table.grid(padding=(0, 2))
        for kind in kinds:
            parameters = ", ".join(
                f"{item['name']}" + ("" if item["required"] else f"={item['default']}") for item in kind["parameters"]
            )
            table.add_row(f"  {kind['kind']}", escape(kind["summary"]), f"[dim]{escape(parameters)}[/dim]")
        console.print(table, highlight=False)


def _summaries(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [*document["groups"].items(), ("whole iterations", document["iterations"]), ("overall", document["overall"])]


def accuracy_markdown(document: dict[str, Any]) -> str:
    """The errors per group as a Markdown table, for the README: never typed, always computed."""
    lines = ["| set-up | rows | MAPE | median | p95 | max | bias | in interval |", "|---|---|---|---|---|---|---|---|"]
    for name, errors in _summaries(document):
        cells = [_percent(errors[key], sign=key == "bias") for key in _ERRORS]
        lines.append(f"| {name} | {errors['n']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _percent(value: float | None, sign: bool = False) -> str:
    if value is None:
        return "-"
    return f"{100 * value:+.1f} %" if sign else f"{100 * value:.1f} %"
