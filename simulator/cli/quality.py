"""`sparsim quality`: iterations to a target from trainings, and the time and cost that they take on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click

from simulator.cli.arguments import AsJson, FiniteRange, Overrides, ScenarioName, Task, TrainedBatch, TrainedWorkers
from simulator.cli.root import main, print_document
from simulator.cli.signatures import command, written


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

    TRAININGS is a folder that `sparsim train` wrote, or a table of iterations. The answer has the iterations to the
    target of every setting, over seeds, and a law between settings that was chosen by leaving settings out.

    With a scenario, iterations are multiplied with the predicted time of one: time and cost to the target of every
    method, and whether it pays.

    Examples:
        sparsim quality mlp-digits --target 'loss 1'
        sparsim quality mlp-digits --target 'loss 1' --scenario quickstart --workers 8 --batch 32 --price 2.5
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
