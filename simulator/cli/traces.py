"""`sparsim trace`: gradient traces."""

from __future__ import annotations

import json
from pathlib import Path

import click

from simulator.cli.root import AS_JSON, FOLDER, main, show


@main.group()
def trace() -> None:
    """Gradient traces: look at them, check them, make them, replay methods on them."""


@trace.command(
    name="info",
    examples="""
    sparsim trace info traces/resnet-digits
""",
)
@click.argument("folder")
@click.option(
    "--density", type=float, default=0.01, show_default=True, help="Of the Top-k whose residual is looked at."
)
@AS_JSON
def trace_info(folder: str, density: float, as_json: bool) -> None:
    """What a trace holds, and how gradient + residual is distributed, layer by layer."""
    from simulator.studies.traces.trace_study import folder_of, info

    show(info(folder_of(folder), density), as_json, "print_trace", "traces")


@trace.command(
    name="check",
    examples="""
    sparsim trace check traces/resnet-digits
""",
)
@click.argument("folder")
def trace_check(folder: str) -> None:
    """Check every file of a trace; each problem with file, row and column."""
    from simulator.studies.traces.trace_study import folder_of
    from simulator.traces.format.trace import Trace

    spec = Trace.open(folder_of(folder)).spec
    click.echo(f"{folder}: {spec.workers} workers, {len(spec.iterations)} iterations, no problems")


@trace.command(
    name="import",
    examples="""
    sparsim trace import npz gradients.npz --out traces/mine --batch-size 64
    sparsim trace import kineto trace.json.gz --out profile
""",
)
@click.argument("kind", type=click.Choice(["npz", "kineto", "chakra", "nccl-tests", "osu", "nccl-tuning"]))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@FOLDER
@click.option("--batch-size", type=click.IntRange(1), default=1, show_default=True)
@click.option("--workers", type=click.IntRange(2), help="Workers, where the file does not say how many.")
def trace_import(kind: str, file: Path, out: Path, batch_size: int, workers: int | None) -> None:
    """Make a folder of traces and tables from another tool's file.

    \b
    npz          a gradient trace: one array per tensor, named after it, in forward order, of shape
                 (iterations, workers, *tensor's shape)
    kineto       torch.profiler: workload.yaml with layers.csv, gradient_ready.csv, collectives.csv
    chakra       execution trace in JSON: nodes.csv, collectives.csv
    nccl-tests   log: collectives.csv
    osu          output of OSU MPI benchmarks: collectives.csv
    nccl-tuning  NCCL_DEBUG_SUBSYS=TUNING: tuning.csv, choices.csv

    `sparsim calibrate network` reads collectives.csv, a scenario workload.yaml.
    """
    from simulator.traces.readers.imports import import_file

    made = import_file(kind, file, out, batch_size, workers)
    for problem in made.problems:
        click.echo(str(problem), err=True)
    if made.problems:
        click.echo(f"{len(made.problems)} damaged places were left out", err=True)
    for name, count in made.unsized.items():
        click.echo(f"{file}: {count} x {name}: no size is on record", err=True)
    tables = "".join(f", {name} {count} rows" for name, count in made.rows.items())
    click.echo(f"{out}: written{tables}")


@trace.command(
    name="synthesize",
    examples="""
    sparsim trace synthesize --like traces/resnet-digits --sample 0.1 --out traces/like-resnet
""",
)
@click.argument("spec", required=False)
@click.option("--like", help="Fit the generator to this trace instead of reading a spec.")
@click.option("--sample", type=click.FloatRange(0, 1, min_open=True), default=1.0, help="Share of coordinates kept.")
@FOLDER
def trace_synthesize(spec: str | None, like: str | None, sample: float, out: Path) -> None:
    """Generate a trace from a spec (YAML: layers, workers, iterations, ...), or like a recorded one."""
    from simulator.studies.traces.synthesis import synthesize

    synthesize(spec, like, sample, out)
    click.echo(f"{out}: written")


@trace.command(
    name="fit",
    examples="""
    sparsim trace fit traces/resnet-digits --density 0.01 --granularity model
""",
)
@click.argument("folder")
@click.option("--density", type=click.FloatRange(0, 1, min_open=True), default=0.01, show_default=True)
@click.option("--granularity", type=click.Choice(["layer", "model"]), default="layer", show_default=True)
@AS_JSON
def trace_fit(folder: str, density: float, granularity: str, as_json: bool) -> None:
    """Fit the overlap law to a trace: on up to 4 workers, held against more."""
    from simulator.studies.traces.trace_study import fit_overlap, folder_of

    show(fit_overlap(folder_of(folder), density, granularity), as_json, "print_overlap", "traces")


@trace.command(
    name="build-up",
    examples="""
    sparsim trace build-up traces/resnet-digits --method '{kind: topk, density: 0.01, granularity: model}'
""",
)
@click.argument("folder")
@click.option("--method", "methods", multiple=True, help="Sparsifier as YAML; may be repeated.", metavar="YAML")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Store rows and figure in this folder.")
@AS_JSON
def trace_build_up(folder: str, methods: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Replay methods at 1, 2, 4, ... workers: what is selected, aggregated, kept and lost."""
    from simulator.studies.traces.trace_study import build_up, folder_of, parse_methods

    rows = build_up(folder_of(folder), parse_methods(methods))
    if out is not None:
        from simulator.reporting.figures.base import figure_of
        from simulator.reporting.figures.data.sources import Source
        from simulator.reporting.figures.making import write_figure
        from simulator.studies.storage.files import write_text

        write_text(out / "build_up.json", json.dumps(rows, indent=1) + "\n")
        for name in ("build_up.png", "build_up.svg"):
            write_figure(figure_of("build_up"), Source(folder, "build_up", rows), out / name)
    show({"rows": rows}, as_json, "print_build_up", "traces")
