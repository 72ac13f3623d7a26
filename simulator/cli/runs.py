"""`sparsim run`, `check`, `list` and `schema`: one scenario, and what a scenario may contain."""

from __future__ import annotations

import json
from pathlib import Path

import click

from simulator.cli.arguments import AS_JSON, FOLDER, IGNORE_MEMORY, IGNORED, SCENARIO, SET
from simulator.cli.root import main, print_document, print_json


@main.command(
    examples="""
    sparsim run quickstart
    sparsim run quickstart --set sparsifier.density=0.01 --set cluster.nodes=16 --out results/nodes16
"""
)
@click.argument("scenario", type=SCENARIO)
@SET
@click.option("--out", type=FOLDER, help="Folder to store the result in.")
@IGNORE_MEMORY
@AS_JSON
def run(scenario: str, overrides: tuple[str, ...], out: Path | None, *, ignore_memory: bool, as_json: bool) -> None:
    """Predict the time of one training iteration.

    Also shows where the time goes, what is sent, and the density of the gradients. SCENARIO is a YAML file or the name
    of a shipped one.
    """
    from simulator.prediction.run import run as predict
    from simulator.prediction.run import with_responses
    from simulator.scenario.reading import load
    from simulator.studies.compare.baseline import add_comparison
    from simulator.studies.compare.implementations import compare_with_good

    overrides += IGNORED if ignore_memory else ()
    prediction = with_responses(predict(load(scenario, overrides)))
    document = prediction.document
    implementation = compare_with_good(prediction)
    if implementation is not None:
        document["implementation"] = implementation
    add_comparison(prediction, scenario, overrides)
    if out is not None:
        from simulator.studies.storage.run_files import store

        store(out, prediction)
    print_document(document, as_json, "print_run")


@main.command(
    examples="""
    sparsim check quickstart
    sparsim check my.yaml --set cluster.nodes=16
"""
)
@click.argument("scenario", type=SCENARIO)
@SET
@AS_JSON
def check(scenario: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Check a scenario and print it in full.

    Names are replaced by what they stand for, and defaults are written out. The digest identifies the scenario.
    """
    from simulator.prediction.run import plan_of
    from simulator.scenario.reading import load

    loaded = load(scenario, overrides)
    plan_of(loaded)
    if as_json:
        print_json({"digest": loaded.digest, "scenario": loaded.resolved()})
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
    """List sparsifiers, topologies, schedulers and fabrics.

    Each with what it is and its parameters.
    """
    from simulator.scenario.catalogue import kinds

    print_document(kinds(), as_json, "print_kinds")


@main.command(
    examples="""
    sparsim schema --out schema
"""
)
@click.option("--out", type=FOLDER, default=Path("configs/schema"), show_default=True, help="Folder to write.")
def schema(out: Path) -> None:
    """Write the JSON Schemas of scenarios and configs.

    Editors check and complete YAML files with them.
    """
    from simulator.scenario.catalogue import schemas
    from simulator.studies.storage.files import write_text
    from simulator.studies.sweep.trainings import study_schema

    for name, document in (schemas() | {"trainings": study_schema()}).items():
        write_text(out / f"{name}.json", json.dumps(document, indent=2, ensure_ascii=False) + "\n")
