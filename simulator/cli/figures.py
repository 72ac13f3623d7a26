"""`sparsim figure`: one picture of results, with the data that it shows."""

from __future__ import annotations

import json
from pathlib import Path

import click

from simulator.cli.root import AS_JSON, main


@main.command(
    examples="""
    sparsim figure --list
    sparsim figure iteration_breakdown results/before -o breakdown.svg
    sparsim figure break_even_map out/map -o map.png
"""
)
@click.argument("kind", required=False)
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@click.option("-o", "--out", type=click.Path(dir_okay=False, path_type=Path), help="FILE.png, .svg or .pdf.")
@click.option("--where", multiple=True, metavar="KEY=VALUE", help="Only these rows of a sweep; may be repeated.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set a parameter of the figure.")
@click.option("--list", "listed", is_flag=True, help="List the figures, their questions and what they are drawn from.")
@AS_JSON
def figure(
    kind: str | None,
    sources: tuple[str, ...],
    *,
    out: Path | None,
    where: tuple[str, ...],
    settings: tuple[str, ...],
    listed: bool,
    as_json: bool,
) -> None:
    """Draw one figure from results; FILE.csv beside it holds the numbers shown."""
    if listed:
        _show_list(as_json)
        return
    if kind is None or not sources or out is None:
        raise click.UsageError("expected KIND SOURCE -o FILE, or --list")
    from simulator.reporting.figures.base import figure_of
    from simulator.reporting.figures.data.selecting import select_rows
    from simulator.reporting.figures.data.sources import open_sources, parse_settings
    from simulator.reporting.figures.making import write_figure

    member = figure_of(kind, parse_settings(settings))
    source = select_rows(open_sources(sources), parse_settings(where))
    picture, table = write_figure(member, source, out)
    click.echo(f"{picture}, {table}")


def _show_list(as_json: bool) -> None:
    from simulator.reporting.figures.base import figures
    from simulator.reporting.figures.data.sources import KINDS

    if as_json:
        rows = [
            {"kind": k, "title": f.title, "question": f.question, "takes": list(f.takes), "columns": f.columns}
            for k, f in figures().items()
        ]
        click.echo(json.dumps({"figures": rows}, indent=2))
        return
    for kind, member in figures().items():
        click.echo(f"{kind}: {member.question}")
        for source in member.takes:
            click.echo(f"    from {KINDS[source]}")
