"""`sparsim calibrate`: constants from measurements."""

from __future__ import annotations

import json

import click

from simulator.cli.root import AS_JSON, main


@main.group()
def calibrate() -> None:
    """Fit constants to measurements."""


@calibrate.command(
    name="runtime",
    examples="""
    sparsim calibrate runtime scenarios/validation/rtx2080ti-10gbe-ps --term endpoint_bandwidth
""",
)
@click.argument("places", nargs=-1, required=True, metavar="SCENARIO_OR_DIR...")
@click.option("--term", "terms", multiple=True, required=True, help="Runtime term to fit; may be repeated.")
@AS_JSON
def calibrate_runtime(places: tuple[str, ...], terms: tuple[str, ...], as_json: bool) -> None:
    """Fit runtime terms to whole iterations, using the rows marked `used_in_fit` only."""
    from simulator.scenario import load
    from simulator.studies.runtime_fit import fit_runtime
    from simulator.studies.validation import scenario_files

    fit = fit_runtime([load(path) for path in scenario_files(places)], terms)
    if as_json:
        click.echo(json.dumps({"terms": fit.terms, "signed_error": fit.errors, "rms": fit.rms}, indent=2))
        return
    for term, value in fit.terms.items():
        click.echo(f"{term}: {value:.6g} (SI)")
    for name, error in fit.errors.items():
        click.echo(f"  {100 * error:+.1f} %  {name}")
