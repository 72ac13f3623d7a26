"""The command line: parse, call one function, print."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

OVERRIDE = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a dotted key; may be repeated."
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document alone on stdout.")


class _Group(click.Group):
    """Turns the package's own errors into one line each and the contract's exit codes."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            from simulator.errors import SparsimError

            if not isinstance(error, SparsimError):
                raise
            click.echo(str(error), err=True)
            ctx.exit(2)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sparsim")
def main() -> None:
    """Does compressing gradients pay, on my cluster, with my model? A simulator of data-parallel GPU training.

    \b
    sparsim run quickstart
    sparsim run my.yaml --set sparsifier.density=0.01 --set cluster.nodes=16
    sparsim validate
    """


@main.command()
@click.argument("scenario")
@OVERRIDE
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Store the result in this folder.")
@AS_JSON
def run(scenario: str, overrides: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Predict one scenario: iteration time, where it goes, traffic and density."""
    from simulator.prediction import run as predict
    from simulator.scenario import load, load_versus

    loaded = load(scenario, overrides)
    prediction = predict(loaded)
    document = prediction.document
    other = load_versus(scenario, overrides)
    if other is not None:
        from simulator.studies.comparison import compare

        document["comparison"] = compare(prediction, predict(other))
        document["question"] = loaded.question
    if out is not None:
        from simulator.studies.storage import store

        store(out, loaded, document)
    _show(document, as_json, "print_run")


@main.command()
@click.argument("places", nargs=-1, metavar="[SCENARIO_OR_DIR]...")
@AS_JSON
@click.option("--markdown", is_flag=True, help="Print the errors per group as a Markdown table.")
def validate(places: tuple[str, ...], as_json: bool, markdown: bool) -> None:
    """Predicted against measured, for every scenario that says what was measured."""
    from simulator.studies.validation import validate as check

    document = check(places)
    if markdown:
        from simulator.reporting.tables import accuracy_markdown

        click.echo(accuracy_markdown(document))
        return
    _show(document, as_json, "print_validation")


@main.command()
@click.argument("scenario")
@OVERRIDE
@AS_JSON
def check(scenario: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Check a scenario; print it fully resolved, with its digest."""
    from simulator.prediction import plan_of
    from simulator.scenario import load

    loaded = load(scenario, overrides)
    plan_of(loaded)
    if as_json:
        click.echo(json.dumps({"digest": loaded.digest, "scenario": loaded.resolved()}, indent=2))
        return
    from simulator.studies.storage import as_yaml

    click.echo(f"# digest {loaded.digest}\n{as_yaml(loaded.resolved())}", nl=False)


@main.command(name="list")
@AS_JSON
def list_(as_json: bool) -> None:
    """List the families, their kinds, what each is and its parameters."""
    from simulator.catalogue import kinds

    _show(kinds(), as_json, "print_kinds")


@main.group()
def calibrate() -> None:
    """Fit constants to measurements."""


@calibrate.command(name="runtime")
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


@main.group()
def trace() -> None:
    """Gradient traces: look at them, check them, make them, replay methods on them."""


FOLDER = click.option(
    "--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder that is written."
)


@trace.command(name="info")
@click.argument("folder")
@click.option(
    "--density", type=float, default=0.01, show_default=True, help="Of the Top-k whose residual is looked at."
)
@AS_JSON
def trace_info(folder: str, density: float, as_json: bool) -> None:
    """What a trace holds, and how gradient + residual is distributed, layer by layer."""
    from simulator.studies.trace_study import folder_of, info

    _show(info(folder_of(folder), density), as_json, "print_trace")


@trace.command(name="check")
@click.argument("folder")
def trace_check(folder: str) -> None:
    """Check every file of a trace; each problem with file, row and column."""
    from simulator.studies.trace_study import folder_of
    from simulator.traces.format import Trace

    spec = Trace.open(folder_of(folder)).spec
    click.echo(f"{folder}: {spec.workers} workers, {len(spec.iterations)} iterations, no problems")


@trace.command(name="import")
@click.argument("kind", type=click.Choice(["npz"]))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@FOLDER
@click.option("--batch-size", type=click.IntRange(1), default=1, show_default=True)
def trace_import(kind: str, file: Path, out: Path, batch_size: int) -> None:
    """Make a trace from another tool's file.

    \b
    npz  one array per tensor, named after it, in forward order, of shape (iterations, workers, *tensor's shape)
    """
    from simulator.traces.arrays import import_npz

    import_npz(file, out, batch_size)
    click.echo(f"{out}: written")


@trace.command(name="synthesize")
@click.argument("spec", required=False)
@click.option("--like", help="Fit the generator to this trace instead of reading a spec.")
@click.option("--sample", type=click.FloatRange(0, 1, min_open=True), default=1.0, help="Share of coordinates kept.")
@FOLDER
def trace_synthesize(spec: str | None, like: str | None, sample: float, out: Path) -> None:
    """Generate a trace from a spec (YAML: layers, workers, iterations, ...), or like a recorded one."""
    from simulator.studies.synthesis import synthesize

    synthesize(spec, like, sample, out)
    click.echo(f"{out}: written")


@trace.command(name="fit")
@click.argument("folder")
@click.option("--density", type=click.FloatRange(0, 1, min_open=True), default=0.01, show_default=True)
@click.option("--granularity", type=click.Choice(["layer", "model"]), default="layer", show_default=True)
@AS_JSON
def trace_fit(folder: str, density: float, granularity: str, as_json: bool) -> None:
    """Fit the overlap law to a trace: on up to 4 workers, held against more."""
    from simulator.studies.trace_study import fit_overlap, folder_of

    _show(fit_overlap(folder_of(folder), density, granularity), as_json, "print_overlap")


@trace.command(name="build-up")
@click.argument("folder")
@click.option("--method", "methods", multiple=True, help="Sparsifier as YAML; may be repeated.", metavar="YAML")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Store rows and figure in this folder.")
@AS_JSON
def trace_build_up(folder: str, methods: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Replay methods at 1, 2, 4, ... workers: what is selected, aggregated, kept and lost.

    \b
    sparsim trace build-up traces/resnet-digits --method '{kind: topk, density: 0.01, granularity: model}'
    """
    from simulator.studies.trace_study import build_up, folder_of, parsed_methods

    rows = build_up(folder_of(folder), parsed_methods(methods))
    if out is not None:
        from simulator.reporting.figures import build_up_figure
        from simulator.studies.storage import write_text

        write_text(out / "build_up.json", json.dumps(rows, indent=1) + "\n")
        build_up_figure(rows, out / "build_up.png")
        build_up_figure(rows, out / "build_up.svg")
    _show({"rows": rows}, as_json, "print_build_up")


@main.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("configs/schema"),
    show_default=True,
)
def schema(out: Path) -> None:
    """Write the JSON Schemas that editors check scenarios and configs against."""
    from simulator.catalogue import schemas
    from simulator.studies.storage import write_text

    for name, document in schemas().items():
        write_text(out / f"{name}.json", json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def _show(document: dict[str, Any], as_json: bool, printer: str) -> None:
    if as_json:
        click.echo(json.dumps(document, indent=2, allow_nan=False))
        return
    from rich.console import Console

    from simulator.reporting import tables

    # Not a terminal: no width is known, and a table cut at 80 columns helps nobody.
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 140
    show: Callable[[dict[str, Any], Console], None] = getattr(tables, printer)
    show(document, Console(width=width, soft_wrap=False))
