"""`sparsim trace`: gradient traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import click

from simulator.cli.arguments import AsJson, Count, Folder, OutFolder, Share
from simulator.cli.root import exit_if_interrupted, main, print_document, say
from simulator.cli.signatures import command, written
from simulator.files import write_text
from simulator.reporting.terminal.progress import watch_replays, watch_steps

TraceName = Annotated[str, "TRACE"]


@main.group()
def trace() -> None:
    """Check, import, generate and replay gradient traces.

    TRACE is the folder of a trace, or the name of a shipped one.
    """


@command(trace)
def trace_info(
    folder: TraceName, *, density: Annotated[Share, "Density of the Top-k that is replayed."] = 0.01, as_json: AsJson
) -> None:
    """Show what a trace contains.

    For each layer, also the distribution of gradient plus residual under layer-wise Top-k.

    Examples:
        sparsim trace info traces/resnet-digits
    """
    from simulator.studies.traces.trace_study import folder_of, info

    print_document(info(folder_of(folder), density), as_json, "trace_blocks", "traces")


@command(trace)
def trace_check(folder: TraceName) -> None:
    """Check every file of a trace.

    Each problem is reported with its file, row and column. Of a sample of coordinates, also what it resolves.

    Examples:
        sparsim trace check traces/resnet-digits
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


@command(trace)
def trace_import(
    kind: Literal["npz", "kineto", "chakra", "nccl-tests", "osu", "nccl-tuning"],
    files: Annotated[tuple[Path, ...], "FILE..."],
    *,
    out: OutFolder,
    batch_size: Annotated[Count, "Samples per worker."] = 1,
    workers: Annotated[int | None, click.IntRange(2), "Number of workers, for files that do not state it."],
    steps: Annotated[str, "Steps of a profile; without it, all that are usual.", written(metavar="N-M")] = "",
    as_json: AsJson,
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

    Examples:
        sparsim trace import npz gradients.npz --out traces/mine --batch-size 64
        sparsim trace import kineto trace.json.gz --out profile --steps 3-5
    """
    from simulator.traces.readers.imports import import_file

    made = import_file(kind, files, out, batch_size, workers, steps=steps)
    for problem in made.problems:
        click.echo(str(problem), err=True)
    if made.problems:
        click.echo(f"{len(made.problems)} damaged places were left out", err=True)
    for note in made.notes:
        click.echo(note, err=True)
    for name, count in made.unsized.items():
        click.echo(f"{files[0]}: {count} x {name}: the file does not state the size", err=True)
    if made.report or as_json:
        document = {"out": str(out), "rows": made.rows, **made.report}
        print_document(document, as_json, "profile_blocks", "traces")
    if not as_json:
        tables = "".join(f", {name} {count} rows" for name, count in made.rows.items())
        click.echo(f"{out}: written{tables}")


@command(trace)
def trace_synthesize(
    spec: str | None = None,
    *,
    like: Annotated[str | None, "Fit the generator to this trace instead of reading SPEC.", written(metavar="TRACE")],
    sample: Annotated[Share | None, "Share of coordinates to keep, by default that of TRACE, or all of SPEC."] = None,
    mantissa_bits: Annotated[
        int | None, click.IntRange(0, 23), "Bits of values after the leading one, by default those of TRACE, or all."
    ] = None,
    out: OutFolder,
) -> None:
    """Generate a trace from a description or like another.

    SPEC is a YAML file with layers, workers, iterations and so on. Ctrl-C ends the trace with the iterations that are
    written, with exit code 130. The same trace is kept where it is there already, and no recorded one is overwritten.

    Examples:
        sparsim trace synthesize --like traces/resnet14-digits --sample 1 --out traces/whole
        sparsim trace synthesize --like traces/resnet-digits --sample 0.1 --out traces/like-resnet
    """
    from simulator.studies.traces.synthesis import synthesize

    with watch_steps("iterations") as watch:
        synthesize(spec, like, sample, out, watch, mantissa_bits=mantissa_bits)
    click.echo(f"{out}: written")
    exit_if_interrupted(watch, f"the trace has {watch.done} of {watch.total} iterations")


@command(trace)
def trace_fit(
    folder: TraceName,
    *,
    density: Annotated[Share, "Share of the elements that Top-k selects."] = 0.01,
    granularity: Annotated[Literal["layer", "model"], "Select in each layer, or in the whole model."] = "layer",
    as_json: AsJson,
) -> None:
    """Fit the overlap law to a trace.

    The law is fitted on up to 4 workers and compared with what more workers select.

    Examples:
        sparsim trace fit traces/resnet-digits --density 0.01 --granularity model
    """
    from simulator.studies.traces.trace_study import fit_overlap, folder_of

    with watch_replays():
        document = fit_overlap(folder_of(folder), density, granularity)
    print_document(document, as_json, "overlap_blocks", "traces")


@command(trace)
def trace_build_up(
    folder: TraceName,
    *,
    methods: Annotated[tuple[str, ...], "Sparsifier as YAML; may be repeated.", written("--method", metavar="YAML")],
    out: Annotated[Folder | None, "Folder to store rows and figure in."],
    as_json: AsJson,
) -> None:
    """Replay methods on 1, 2, 4, ... workers.

    Shows the shares that are selected and aggregated, the residual, and what is lost. Ctrl-C prints what the
    iterations so far give, with exit code 130.

    Examples:
        sparsim trace build-up traces/resnet-digits --method '{kind: topk, density: 0.01, granularity: model}'
    """
    from simulator.engine.build_up import DEFAULT_METHODS, build_up
    from simulator.loading.documents import parse_document
    from simulator.studies.traces.trace_study import folder_of

    with watch_steps("iterations") as watch:
        asked = [parse_document(text, "--method").data for text in methods]
        rows = build_up(folder_of(folder), asked or DEFAULT_METHODS, watch=watch)
    if out is not None:
        from simulator.reporting.figures.base import figure_of
        from simulator.reporting.figures.data.sources import Source
        from simulator.reporting.figures.making import write_figure

        write_text(out / "build_up.json", json.dumps(rows, indent=1) + "\n")
        member = figure_of("build_up")
        for name in ("build_up.png", "build_up.svg"):
            write_figure(member, member.data(Source(folder, "build_up", rows)), out / name)
    print_document({"rows": rows}, as_json, "build_up_blocks", "traces")
    exit_if_interrupted(watch)
