"""`sparsim report`: results as one HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from simulator.cli.root import OVERRIDE, main


@main.command(
    examples="""
    sparsim report quickstart -o quickstart.html
    sparsim report networks/10gbe-tcp -o network.html
    sparsim report out/map -o map.html
"""
)
@click.argument("results", metavar="RESULTS")
@click.option(
    "-o", "--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="FILE.html that is written."
)
@OVERRIDE
def report(results: str, out: Path, overrides: tuple[str, ...]) -> None:
    """Write results as one HTML file that needs no network: drawings with values at the pointer, sortable tables.

    RESULTS: what `sparsim run --out`, `sweep --out`, `validate --json`, `trace build-up` or `calibrate` wrote, `-` for
    JSON on standard input, or a scenario, which is run.
    """
    from simulator.reporting.page.making import page_of, write_page
    from simulator.reporting.page.opening import open_results

    with open_results(results, overrides) as source:
        write_page(page_of(source), out)
    click.echo(str(out))
