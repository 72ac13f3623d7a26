"""`sparsim trace`: gradient traces."""

from __future__ import annotations

import json
from pathlib import Path

import click

from simulator.cli.arguments import AS_JSON, FILE, FOLDER, OUT_FOLDER
from simulator.cli.root import exit_if_interrupted, main, print_document, say

TRACE = click.argument("folder", metavar="TRACE")


@main.group()
def trace() -> None:
    """Check, import, generate and replay gradient traces.

    TRACE is the folder of a trace, or the name of a shipped one.
    """


@trace.command(
    name="info",
    examples="""
    sparsim trace info traces/resnet-digits
""",
)
@TRACE
@click.option("--density", type=float, default=0.01, show_default=True, help="Density of the Top-k that is replayed.")
@AS_JSON
def trace_info(folder: str, density: float, as_json: bool) -> None:
    """Show what a trace contains.

    For each layer, also the distribution of gradient plus residual under layer-wise Top-k.
    """
    from simulator.studies.traces.trace_study import folder_of, info

    print_document(info(folder_of(folder), density), as_json, "trace_blocks", "traces")


@trace.command(
    name="check",
    examples="""
    sparsim trace check traces/resnet-digits
""",
)
@TRACE
def trace_check(folder: str) -> None:
    """Check every file of a trace.

    Each problem is reported with its file, row and column. Of a sample of coordinates, also what it resolves.
    """
    from simulator.studies.traces.trace_study import folder_of
    from simulator.traces.format.trace import Trace

    trace = Trace.open(folder_of(folder))
    spec, held, floor = trace.spec, len(trace.keys.layer), trace.floor()
    click.echo(f"{folder}: {spec.workers} workers, {len(spec.iterations)} iterations, no problems")
    if floor:
        say(
            f"a sample of {held} of {sum(trace.numels)} coordinates, which resolves densities from {floor:g} of the "
            f"whole model, {trace.floor('layer'):g} layer by layer, and {trace.pieces()} equal pieces"
        )
    if not any(layer.forward or layer.backward for layer in trace.layers):
        say("layers.csv has no times: a scenario has to give the workload's compute_time")


@trace.command(
    name="import",
    examples="""
    sparsim trace import npz gradients.npz --out traces/mine --batch-size 64
    sparsim trace import kineto trace.json.gz --out profile --steps 3-5
""",
)
@click.argument("kind", type=click.Choice(["npz", "kineto", "chakra", "nccl-tests", "osu", "nccl-tuning"]))
@click.argument("files", metavar="FILE...", type=FILE, nargs=-1, required=True)
@OUT_FOLDER
@click.option("--batch-size", type=click.IntRange(1), default=1, show_default=True, help="Samples per worker.")
@click.option("--workers", type=click.IntRange(2), help="Number of workers, for files that do not state it.")
@click.option("--steps", default="", metavar="N-M", help="Steps of a profile; without it, all that are usual.")
@AS_JSON
def trace_import(
    *, kind: str, files: tuple[Path, ...], out: Path, batch_size: int, workers: int | None, steps: str, as_json: bool
) -> None:
    """Convert a file of another tool into a trace or tables.

    \b
    npz          gradients: one array per tensor, named after it, in forward order, of shape
                 (iterations, workers, *shape of the tensor); makes a gradient trace
    kineto       torch.profiler; makes workload.yaml with layers.csv, gradient_ready.csv, collectives.csv,
                 and says where the time of a step goes; of several ranks of a job, one file each
    chakra       execution trace in JSON; makes nodes.csv, collectives.csv
    nccl-tests   log; makes collectives.csv
    osu          output of the OSU MPI benchmarks; makes collectives.csv
    nccl-tuning  log with NCCL_DEBUG_SUBSYS=TUNING; makes tuning.csv, choices.csv

    `sparsim calibrate network` reads collectives.csv; a scenario can name workload.yaml.
    """
    from simulator.traces.readers.imports import import_file

    made = import_file(kind, files, out, batch_size, workers, steps=steps)
    for problem in made.problems:
        click.echo(str(problem), err=True)
    if made.problems:
        click.echo(f"{len(made.problems)} damaged places were left out", err=True)
    for name, count in made.unsized.items():
        click.echo(f"{files[0]}: {count} x {name}: the file does not state the size", err=True)
    if made.report or as_json:
        document = {"out": str(out), "rows": made.rows, **made.report}
        print_document(document, as_json, "profile_blocks", "profiles")
    if not as_json:
        tables = "".join(f", {name} {count} rows" for name, count in made.rows.items())
        click.echo(f"{out}: written{tables}")


@trace.command(
    name="synthesize",
    examples="""
    sparsim trace synthesize --like traces/resnet-digits --sample 0.1 --out traces/like-resnet
""",
)
@click.argument("spec", required=False)
@click.option("--like", metavar="TRACE", help="Fit the generator to this trace instead of reading SPEC.")
@click.option("--sample", type=click.FloatRange(0, 1, min_open=True), default=1.0, help="Share of coordinates to keep.")
@OUT_FOLDER
def trace_synthesize(spec: str | None, like: str | None, sample: float, out: Path) -> None:
    """Generate a trace from a description or like another.

    SPEC is a YAML file with layers, workers, iterations and so on. Ctrl-C ends the trace with the iterations that are
    written, with exit code 130.
    """
    from simulator.reporting.terminal.progress import watch_steps
    from simulator.studies.traces.synthesis import synthesize

    with watch_steps("iterations") as watch:
        synthesize(spec, like, sample, out, watch)
    click.echo(f"{out}: written")
    exit_if_interrupted(watch, f"the trace has {watch.done} of {watch.total} iterations")


@trace.command(
    name="fit",
    examples="""
    sparsim trace fit traces/resnet-digits --density 0.01 --granularity model
""",
)
@TRACE
@click.option(
    "--density",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.01,
    show_default=True,
    help="Share of the elements that Top-k selects.",
)
@click.option(
    "--granularity",
    type=click.Choice(["layer", "model"]),
    default="layer",
    show_default=True,
    help="Select in each layer, or in the whole model.",
)
@AS_JSON
def trace_fit(folder: str, density: float, granularity: str, as_json: bool) -> None:
    """Fit the overlap law to a trace.

    The law is fitted on up to 4 workers and compared with what more workers select.
    """
    from simulator.studies.traces.trace_study import fit_overlap, folder_of

    print_document(fit_overlap(folder_of(folder), density, granularity), as_json, "overlap_blocks", "traces")


@trace.command(
    name="build-up",
    examples="""
    sparsim trace build-up traces/resnet-digits --method '{kind: topk, density: 0.01, granularity: model}'
""",
)
@TRACE
@click.option("--method", "methods", multiple=True, help="Sparsifier as YAML; may be repeated.", metavar="YAML")
@click.option("--out", type=FOLDER, help="Folder to store rows and figure in.")
@AS_JSON
def trace_build_up(folder: str, methods: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Replay methods on 1, 2, 4, ... workers.

    Shows the shares that are selected and aggregated, the residual, and what is lost. Ctrl-C prints the rows so far,
    with exit code 130.
    """
    from simulator.engine.build_up import build_up
    from simulator.reporting.terminal.progress import watch_steps
    from simulator.studies.traces.trace_study import folder_of, parse_methods

    with watch_steps("replays of a worker") as watch:
        rows = build_up(folder_of(folder), parse_methods(methods), watch=watch)
    if out is not None:
        from simulator.files import write_text
        from simulator.reporting.figures.base import figure_of
        from simulator.reporting.figures.data.sources import Source
        from simulator.reporting.figures.making import write_figure

        write_text(out / "build_up.json", json.dumps(rows, indent=1) + "\n")
        member = figure_of("build_up")
        for name in ("build_up.png", "build_up.svg"):
            write_figure(member, member.data(Source(folder, "build_up", rows)), out / name)
    print_document({"rows": rows}, as_json, "build_up_blocks", "traces")
    exit_if_interrupted(watch)
