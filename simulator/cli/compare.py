"""`sparsim compare`: two runs or two sweeps side by side."""

from __future__ import annotations

import json
from pathlib import Path

import click

from simulator.cli.names import KEY_VALUE, SCENARIO
from simulator.cli.root import AS_JSON, console, main


@main.command(
    examples="""
    sparsim compare quickstart quickstart --set-b sparsifier=dense
    sparsim compare results/before results/after -o comparison.html
"""
)
@click.argument("a", type=SCENARIO)
@click.argument("b", type=SCENARIO)
@click.option(
    "--set-a", type=KEY_VALUE, multiple=True, metavar="KEY=VALUE", help="Override a dotted key of the scenario A."
)
@click.option(
    "--set-b", type=KEY_VALUE, multiple=True, metavar="KEY=VALUE", help="Override a dotted key of the scenario B."
)
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.html",
    help="Write the comparison as one HTML file.",
)
@AS_JSON
def compare(a: str, b: str, *, set_a: tuple[str, ...], set_b: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """What differs between A and B, in input and outcome, term by term.

    Each is a scenario, which is run, a file of `sparsim run --json`, or a folder of `sparsim run --out`; or both are
    folders of `sparsim sweep`, whose points are joined on the keys that vary. Differences are B less A.
    """
    from simulator.errors import InputError, Problem
    from simulator.studies.compare.differences import compare_outcomes

    if out is not None and out.suffix != ".html":
        raise InputError(Problem("--out", "a name that ends in .html", repr(out.name)))
    document = compare_outcomes(a, b, set_a, set_b)
    if out is not None:
        from simulator.reporting.page.pages.comparison_page import comparison_page
        from simulator.studies.storage.files import write_text

        write_text(out, comparison_page(document))
    if as_json:
        click.echo(json.dumps(document, indent=2, allow_nan=False))
        return
    from simulator.reporting.terminal.comparison import print_comparison

    print_comparison(document, console())
    if out is not None:
        click.echo(f"\n{out}: written")
