"""Single predictions, validation, and what there is."""

from __future__ import annotations

import json
from pathlib import Path

import click

from simulator.cli.names import SCENARIO
from simulator.cli.root import AS_JSON, OVERRIDE, main, show


@main.command(
    examples="""
    sparsim run quickstart
    sparsim run quickstart --set sparsifier.density=0.01 --set cluster.nodes=16 --out results/nodes16
"""
)
@click.argument("scenario", type=SCENARIO)
@OVERRIDE
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Store the result in this folder.")
@AS_JSON
def run(scenario: str, overrides: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Predict one scenario: iteration time, where it goes, traffic and density."""
    from simulator.prediction.run import run as predict
    from simulator.scenario.reading import load, load_versus

    loaded = load(scenario, overrides)
    prediction = predict(loaded)
    document = prediction.document
    other = load_versus(scenario, overrides)
    if other is not None:
        from simulator.studies.compare.baseline import compare

        document["comparison"] = compare(prediction, predict(other))
        document["question"] = loaded.question
    if out is not None:
        from simulator.studies.storage.run_files import store

        store(out, prediction)
    show(document, as_json, "print_run")


@main.command(
    examples="""
    sparsim validate
    sparsim validate scenarios/validation/vgg16-8xv100-nvlink --markdown
"""
)
@click.argument("places", nargs=-1, metavar="[SCENARIO_OR_DIR]...")
@AS_JSON
@click.option("--markdown", is_flag=True, help="Print the errors per group as a Markdown table.")
@click.option("--model-error", is_flag=True, help="Print the model's own error, as configs/model_error.yaml holds it.")
def validate(places: tuple[str, ...], as_json: bool, markdown: bool, model_error: bool) -> None:
    """Predicted against measured, for every scenario that says what was measured."""
    from simulator.studies.validate.validation import validate as check

    document = check(places)
    if model_error:
        from simulator.studies.validate.model_error import model_error_yaml

        click.echo(model_error_yaml(document["rows"]), nl=False)
        return
    if markdown:
        from simulator.reporting.terminal.tables import accuracy_markdown

        click.echo(accuracy_markdown(document))
        return
    show(document, as_json, "print_validation")


@main.command(
    examples="""
    sparsim check quickstart
    sparsim check my.yaml --set cluster.nodes=16
"""
)
@click.argument("scenario", type=SCENARIO)
@OVERRIDE
@AS_JSON
def check(scenario: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Check a scenario; print it fully resolved, with its digest."""
    from simulator.prediction.run import plan_of
    from simulator.scenario.reading import load

    loaded = load(scenario, overrides)
    plan_of(loaded)
    if as_json:
        click.echo(json.dumps({"digest": loaded.digest, "scenario": loaded.resolved()}, indent=2))
        return
    from simulator.studies.storage.run_files import as_yaml

    click.echo(f"# digest {loaded.digest}\n{as_yaml(loaded.resolved())}", nl=False)


@main.command(
    name="list",
    examples="""
    sparsim list
    sparsim list --json
""",
)
@AS_JSON
def list_(as_json: bool) -> None:
    """List the families, their kinds, what each is and its parameters."""
    from simulator.scenario.catalogue import kinds

    show(kinds(), as_json, "print_kinds")


@main.command(
    examples="""
    sparsim schema --out schema
"""
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("configs/schema"),
    show_default=True,
)
def schema(out: Path) -> None:
    """Write the JSON Schemas that editors check scenarios and configs against."""
    from simulator.scenario.catalogue import schemas
    from simulator.studies.storage.files import write_text

    for name, document in schemas().items():
        write_text(out / f"{name}.json", json.dumps(document, indent=2, ensure_ascii=False) + "\n")
