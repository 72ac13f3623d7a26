"""`sparsim sweep`, `explain`, `advise`, `compare`, `validate` and `quality`: answers from many runs."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import click

from simulator.cli.arguments import (
    IGNORED,
    KEY_VALUE,
    AsJson,
    FileName,
    FiniteRange,
    IgnoreMemory,
    OutFolder,
    Overrides,
    Processes,
    ScenarioName,
    Task,
    TrainedBatch,
    TrainedWorkers,
)
from simulator.cli.root import INTERRUPTED, exit_if_interrupted, main, print_document, say
from simulator.cli.signatures import command, written
from simulator.errors import InputError, Problem
from simulator.records import replace
from simulator.reporting.terminal.progress import show_progress, watch_steps

_LISTED = 20
"""Messages of failed points that are printed."""


def _shard(_: click.Context, __: click.Parameter, text: str | None) -> tuple[int, int] | None:
    """`i/n`: the i-th of n parts, from 1."""
    if text is None:
        return None
    part, _slash, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise click.BadParameter(f"expected i/n with i from 1 to n, such as 2/4, got {text!r}")
    return int(part), int(parts)


@command(main)
def sweep(
    sweep_file: Annotated[str, FileName("sweep", "scenarios/sweeps"), "SWEEP"],
    *,
    out: OutFolder,
    base: Annotated[ScenarioName | None, "Scenario to vary, instead of the one that the sweep names."],
    workers: Processes,
    cluster: Annotated[str | None, "Dask scheduler whose workers evaluate the points.", written(metavar="ADDRESS")],
    shard: Annotated[
        tuple[int, int] | None,
        "Evaluate only part I of N, into files of its own.",
        written(callback=_shard, metavar="I/N"),
    ],
    fail_fast: Annotated[bool, "Stop at the first point that fails."],
    retry_failed: Annotated[bool, "Evaluate points again that failed before."],
    ignore_memory: IgnoreMemory,
) -> None:
    """Predict every point of a grid of scenarios.

    \b
    Writes one row per point to results.parquet and results.csv. Columns: the varied keys, then the keys of
    `sparsim run --json` joined by dots, and last `error`.
    Every finished point is stored at once. After an interruption the same command continues, and points that
    another sweep has stored in the folder are reused. Points that failed keep their errors, unless
    --retry-failed is given. Shards may share a folder; the same command without
    --shard joins them.
    Exit code 1: some points failed.

    Examples:
        sparsim sweep density_sweep --out results/density
        sparsim sweep break_even_map --base my.yaml --out results/map
        sparsim sweep big --out results/big --shard 2/4 --workers 8
    """
    if workers is not None and cluster is not None:
        raise click.UsageError("expected --workers or --cluster, got both")
    ctx = click.get_current_context()
    from simulator.studies.sweep.sweep import PointFailed, run_sweep

    try:
        with show_progress() as observe:
            swept = run_sweep(
                sweep_file,
                out,
                base=base,
                workers=workers,
                cluster=cluster,
                shard=shard,
                fail_fast=fail_fast,
                retry_failed=retry_failed,
                ignore_memory=ignore_memory,
                observe=observe,
            )
    except PointFailed as error:
        click.echo(f"stopped at the first point that failed: {error}", err=True)
        ctx.exit(1)
    except KeyboardInterrupt:
        say(f"interrupted; finished points are in {out}, and the same command continues from there", err=True)
        ctx.exit(INTERRUPTED)
    counts = swept.manifest
    say(
        f"{counts['points']} points, {counts['distinct']} of them distinct: {counts['evaluated']} evaluated, "
        f"{counts['reused']} reused, {len(swept.errors)} failed; {out}"
    )
    if swept.errors:
        messages = Counter(swept.errors)
        for message, count in list(messages.items())[:_LISTED]:
            say(f"{count} failed: {message}", err=True, indent="    ")
        if len(messages) > _LISTED:
            click.echo(f"and {len(messages) - _LISTED} other messages; see the column `error`", err=True)
        ctx.exit(1)


@command(main)
def explain(
    scenario: ScenarioName,
    *,
    overrides: Overrides,
    terms: Annotated[bool, "What every term consists of."],
    axes: Annotated[bool, "What the GPUs along each axis of a sharded job exchange, what holds compute, and what not."],
    formulas: Annotated[bool, "The formula of every term, and the measurements that it rests on."],
    savings: Annotated[bool, "The iteration without each of its costs."],
    memory: Annotated[bool, "The memory of a worker, part by part."],
    inputs: Annotated[bool, "Every uncertain input, its effect, and the commands that would settle it."],
    sensitivity: Annotated[bool, "The iteration with half and twice of each input."],
    warnings: Annotated[bool, "All warnings and notes."],
    full: Annotated[bool, "All of these."],
    ignore_memory: IgnoreMemory,
    as_json: AsJson,
) -> None:
    """Explain where the time of an iteration goes.

    First at a glance: the terms, the time without each cost, the largest doubts, and what the time depends on. Options
    print its parts in full. Ctrl-C prints what is known so far, with exit code 130.

    Examples:
        sparsim explain quickstart
        sparsim explain quickstart --inputs --memory
        sparsim explain partitioned_topk --set scheduler.partition='32 MB'
    """
    from simulator.scenario.reading import load
    from simulator.studies.explain.explanation import explain as study

    loaded = load(scenario, overrides + (IGNORED if ignore_memory else ()))
    with watch_steps() as watch:
        document = study(loaded, watch)
    sections = {"terms": terms, "axes": axes, "formulas": formulas, "savings": savings, "memory": memory}
    sections |= {"inputs": inputs, "sensitivity": sensitivity, "warnings": warnings}
    asked = [name for name, given in sections.items() if given or full]
    print_document(document, as_json, "explanation_blocks", "explanation", asked)
    exit_if_interrupted(watch)


@command(main)
def advise(
    scenario: ScenarioName,
    *,
    overrides: Overrides,
    iterations_to_target: Annotated[
        str | None,
        "YAML file with the iterations that your training needs with each method; or, with --target, a folder of "
        "trainings or a table of iterations. Methods are then ranked by the time of the whole training.",
        written(metavar="PLACE"),
    ],
    target: Annotated[
        str | None, "What the trainings are to reach, such as 'loss 0.4'.", written(metavar="'QUANTITY VALUE'")
    ],
    task: Task = "",
    workers: TrainedWorkers,
    batch: TrainedBatch,
    processes: Processes,
    full: Annotated[bool, "Print everything: all methods, break-even points, reasons and limits."],
    ignore_memory: IgnoreMemory,
    as_json: AsJson,
) -> None:
    """Recommend a method for a workload and a cluster.

    Ranks combinations of sparsifier, scheduler and topology, says what the scenario's framework offers of them and with
    which configuration, and what needs research code. Where it is not decided whether compression pays, the answer
    names the measurement that decides it. With --full also where compression starts to pay, and why.

    Ctrl-C prints the ranking so far. Exit code 130: interrupted.

    Examples:
        sparsim advise quickstart --set cluster.network.bandwidth='1 Gbit/s'
        sparsim advise quickstart --full
        sparsim advise quickstart --iterations-to-target iterations.yaml
        sparsim advise quickstart --iterations-to-target mlp-digits --target 'loss 1' --workers 8 --batch 32
    """
    from simulator.scenario.reading import load
    from simulator.studies.advice.advice import advise as study
    from simulator.studies.advice.candidates import read_iterations

    overrides += IGNORED if ignore_memory else ()
    loaded = load(scenario, overrides)
    targets: Any
    if target is None:
        targets = read_iterations(iterations_to_target) if iterations_to_target else None
    elif iterations_to_target is None:
        raise click.UsageError("expected --iterations-to-target with the trainings of --target")
    else:
        from simulator.studies.quality.iterations import find_iterations, find_place
        from simulator.studies.quality.observations import parse_target
        from simulator.studies.quality.study import read_study

        trained = read_study(iterations_to_target, parse_target(target))
        targets = find_iterations(trained, loaded, find_place(trained, loaded, task, workers or 0, batch or 0))
    with watch_steps() as watch:
        advice = study(loaded, targets, watch=watch, processes=processes, whole=full or as_json)
    given = [f"--set {shlex.quote(item)}" for item in overrides]
    command = " ".join(["sparsim run", shlex.quote(scenario), *given, advice.settings]).strip()
    print_document(
        replace(advice, command=command), as_json, "full_advice_blocks" if full else "advice_blocks", "advice"
    )
    exit_if_interrupted(watch)


@command(main)
def compare(
    a: ScenarioName,
    b: ScenarioName,
    *,
    set_a: Annotated[tuple[str, ...], KEY_VALUE, "Set a dotted key of scenario A."],
    set_b: Annotated[tuple[str, ...], KEY_VALUE, "Set a dotted key of scenario B."],
    out: Annotated[Path | None, "Write the comparison as one HTML file.", written("-o", "--out", metavar="FILE.html")],
    as_json: AsJson,
) -> None:
    """Compare two runs or two sweeps, term by term.

    A and B are scenarios, which are run first, files of `sparsim run --json`, or folders of `sparsim run --out`; or
    both are folders of `sparsim sweep`, whose points are matched by their varied keys. Differences are B minus A.

    Examples:
        sparsim compare quickstart quickstart --set-b sparsifier=dense
        sparsim compare results/before results/after -o comparison.html
    """
    from simulator.studies.compare.run_differences import compare_outcomes

    if out is not None and out.suffix != ".html":
        raise InputError(Problem("--out", "a name that ends in .html", repr(out.name)))
    document = compare_outcomes(a, b, set_a, set_b)
    if out is not None:
        from simulator.reporting.page.making import write_page
        from simulator.reporting.page.pages.run_page import comparison_page

        write_page(comparison_page(document), out)
    print_document(document, as_json, "comparison_blocks", "comparison")
    if out is not None and not as_json:
        click.echo(f"\n{out}: written")


@command(main)
def validate(
    places: Annotated[tuple[str, ...], "[SCENARIO_OR_DIR]..."] = (),
    *,
    processes: Processes,
    as_json: AsJson,
    markdown: Annotated[bool, "Print the errors of each group as a Markdown table."],
    model_error: Annotated[bool, "Print the model's own error as configs/model_error.yaml stores it."],
) -> None:
    """Compare predictions with measurements.

    Runs every scenario, and every row of a table (rows.csv), that states what was measured; without arguments, those
    that come with the package. Ctrl-C prints the rows so far, with exit code 130.

    Examples:
        sparsim validate
        sparsim validate scenarios/validation/vgg16-8xv100-nvlink --markdown
    """
    from simulator.studies.validate.validation import validate as study

    with watch_steps("predictions") as watch:
        document = study(places, watch=watch, processes=processes)
    if watch.interrupted and (model_error or markdown):
        raise KeyboardInterrupt  # what is stored or published holds every row
    if model_error:
        from simulator.studies.validate.model_error import model_error_yaml

        click.echo(model_error_yaml(document.rows, document.signs), nl=False)
    elif markdown:
        from simulator.reporting.wording.studies import accuracy_markdown

        click.echo(accuracy_markdown(document))
    else:
        print_document(document, as_json, "validation_tables", "studies", True)
    exit_if_interrupted(watch)


@command(main)
def quality(
    trainings: str,
    *,
    target: Annotated[str, "For example 'accuracy 0.95' or 'loss 0.4'.", written(metavar="'QUANTITY VALUE'")],
    scenario: Annotated[ScenarioName | None, "Whose cluster and model: adds time and cost to the target."],
    overrides: Overrides,
    task: Task = "",
    workers: TrainedWorkers,
    batch: TrainedBatch,
    dense_iterations: Annotated[
        float | None, FiniteRange(1, 1e15), "Iterations that dense needs on the scenario's model."
    ],
    price: Annotated[float | None, FiniteRange(0, 1e9), "What one GPU costs for an hour."],
    table: Annotated[Path | None, "Add what every training took to a table.", written(metavar="FILE.csv")],
    markdown: Annotated[bool, "Print the tables as Markdown."],
    as_json: AsJson,
) -> None:
    """Answer whether a method is faster to the same quality.

    TRAININGS is a folder that `sparsim record training` wrote, or a table of iterations. The answer has the iterations
    to the target of every setting, over seeds, and a law between settings that was chosen by leaving settings out.

    With a scenario, iterations are multiplied with the predicted time of one: time and cost to the target of every
    method, and whether it pays.

    Examples:
        sparsim quality mlp-digits --target 'loss 1'
        sparsim quality mlp-digits --target 'loss 1' --scenario quickstart --workers 8 --batch 32 --price 2.5
    """
    from simulator.studies.quality.observations import parse_target, write_table
    from simulator.studies.quality.quality import describe_quality
    from simulator.studies.quality.study import read_study

    study = read_study(trainings, parse_target(target))
    if table is not None:
        write_table(table, [item for items in study.groups.values() for item in items])
    loaded = None
    if scenario is not None:
        from simulator.scenario.reading import load

        loaded = load(scenario, overrides)
    document = describe_quality(
        study,
        loaded,
        task=task,
        workers=workers or 0,
        batch_size=batch or 0,
        dense_iterations=dense_iterations,
        price=price,
    )
    if markdown:
        from simulator.reporting.wording.blocks import as_markdown
        from simulator.reporting.wording.studies import quality_tables

        click.echo(as_markdown(quality_tables(document)))
    else:
        print_document(document, as_json, "quality_blocks", "studies")
