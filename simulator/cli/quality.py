"""`sparsim quality`: iterations to a target from trainings, and the time and cost that they take on a cluster."""

from __future__ import annotations

from pathlib import Path

import click

from simulator.cli.arguments import AS_JSON, FILE, SCENARIO, SET, TASK, TRAINED_BATCH, TRAINED_WORKERS
from simulator.cli.root import main, print_document


@main.command(
    examples="""
    sparsim quality mlp-digits --target 'loss 1'
    sparsim quality mlp-digits --target 'loss 1' --scenario quickstart --workers 8 --batch 32 --price 2.5
"""
)
@click.argument("trainings")
@click.option("--target", required=True, metavar="'QUANTITY VALUE'", help="For example 'accuracy 0.95' or 'loss 0.4'.")
@click.option("--scenario", type=SCENARIO, help="Whose cluster and model: adds time and cost to the target.")
@SET
@TASK
@TRAINED_WORKERS
@TRAINED_BATCH
@click.option(
    "--dense-iterations", type=click.FloatRange(1, 1e15), help="Iterations that dense needs on the scenario's model."
)
@click.option("--price", type=click.FloatRange(0, 1e9), help="What one GPU costs for an hour.")
@click.option(
    "--table",
    type=FILE,
    metavar="FILE.csv",
    help="Add what every training took to a table.",
)
@click.option("--markdown", is_flag=True, help="Print the tables as Markdown.")
@AS_JSON
def quality(
    trainings: str,
    *,
    target: str,
    scenario: str | None,
    overrides: tuple[str, ...],
    task: str,
    workers: int | None,
    batch: int | None,
    dense_iterations: float | None,
    price: float | None,
    table: Path | None,
    markdown: bool,
    as_json: bool,
) -> None:
    """Answer whether a method is faster to the same quality.

    TRAININGS is a folder that `sparsim train` wrote, or a table of iterations. The answer has the iterations to the
    target of every setting, over seeds, and a law between settings that was chosen by leaving settings out.

    With a scenario, iterations are multiplied with the predicted time of one: time and cost to the target of every
    method, and whether it pays.
    """
    from simulator.studies.quality.quality import describe_quality
    from simulator.studies.quality.study import read_study
    from simulator.studies.quality.targets import parse_target

    study = read_study(trainings, parse_target(target))
    if table is not None:
        from simulator.studies.quality.observations import write_table

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
        from simulator.reporting.wording.markdown import as_markdown
        from simulator.reporting.wording.quality_tables import quality_tables

        click.echo(as_markdown(quality_tables(document)))
    else:
        print_document(document, as_json, "quality_blocks", "quality_tables")
