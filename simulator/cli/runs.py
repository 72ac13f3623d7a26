"""`sparsim run`, `check`, `list` and `schema`: one scenario, and what a scenario may contain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import click

from simulator.cli.arguments import IGNORED, AsJson, Folder, IgnoreMemory, Overrides, ScenarioName
from simulator.cli.root import main, print_document, print_json
from simulator.cli.signatures import command
from simulator.errors import InputError, Problem

LISTED = (
    "kinds",
    "workloads",
    "gpus",
    "networks",
    "runtimes",
    "scenarios",
    "sweeps",
    "papers",
    "traces",
    "aliases",
    "trainings",
)
"""What `sparsim list` lists; all but the first are read by `simulator.scenario.shipped`, which is slow to import."""


@command(main)
def run(
    scenario: ScenarioName,
    *,
    overrides: Overrides,
    out: Annotated[Folder | None, "Folder to store the result in."],
    messages: Annotated[bool, "Also store messages.parquet in it: every message of one iteration."],
    full: Annotated[bool, "Print all figures: every term, traffic, density, memory, and the largest warnings."],
    ignore_memory: IgnoreMemory,
    as_json: AsJson,
) -> None:
    """Predict the time of one training iteration, and whether the method pays.

    Also shows where the time goes, and with --full what is sent, and the density of the gradients. SCENARIO is a YAML
    file or the name of a shipped one.

    The folder of --out gets result.json, scenario.yaml, traffic.csv (bytes between all pairs), links.csv where
    exchanges shared links, and with --messages messages.parquet (source, destination, nbytes, start_s, end_s,
    exchange). Its messages are those of one iteration in which every message is followed, as `fidelity: flows` does.

    Examples:
        sparsim run quickstart
        sparsim run quickstart --set sparsifier.density=0.01 --set cluster.nodes=16 --out results/nodes16
        sparsim run ring_check --messages --out results/ring
    """
    from simulator.reporting.terminal.progress import watch_replays
    from simulator.studies.compare.baseline import run_with_comparison

    if messages and out is None:
        raise InputError(Problem("--messages", "--out FOLDER", "none", "messages are stored as a file in this folder"))
    with watch_replays():
        prediction = run_with_comparison(scenario, overrides + (IGNORED if ignore_memory else ()))
    if out is not None:
        from simulator.prediction.run_files import store

        store(out, prediction)
    if messages and out is not None:
        from simulator.api.simulating import follow_messages

        follow_messages(prediction.scenario, out / "messages.parquet")
    print_document(prediction.result, as_json, "full_run_blocks" if full else "run_blocks", "runs")


@command(main)
def check(scenario: ScenarioName, *, overrides: Overrides, as_json: AsJson) -> None:
    """Check a scenario and print it in full.

    Names are replaced by what they stand for, and defaults are written out. The digest identifies the scenario.

    Examples:
        sparsim check quickstart
        sparsim check my.yaml --set cluster.nodes=16
    """
    from simulator.prediction.run import plan_of
    from simulator.scenario.reading import load

    loaded = load(scenario, overrides)
    plan_of(loaded)
    if as_json:
        print_json({"digest": loaded.digest, "scenario": loaded.resolved()})
        return
    from simulator.prediction.run_files import as_yaml

    click.echo(f"# digest {loaded.digest}\n{as_yaml(loaded.resolved())}", nl=False)


@command(main)
def list_(what: Annotated[str, click.Choice(LISTED), "[WHAT]"] = "kinds", *, as_json: AsJson) -> None:
    """List what a scenario can name.

    WHAT is kinds (sparsifiers, topologies, schedulers and fabrics with their parameters; the default), workloads, gpus,
    networks, runtimes, scenarios, sweeps, papers, traces, trainings or aliases (names that people use). Files in
    ./configs and ./scenarios are listed, too.

    Examples:
        sparsim list
        sparsim list gpus
        sparsim list workloads --json
    """
    if what == "kinds":
        from simulator.scenario.catalogue import kinds

        print_document(kinds(), as_json, "kinds_blocks", "runs")
        return
    from simulator.scenario.shipped import list_shipped

    print_document({what: list_shipped(what)}, as_json, "shipped_blocks", "shipped")


@command(main)
def schema(*, out: Annotated[Folder, "Folder to write."] = Path("configs/schema")) -> None:
    """Write the JSON Schemas of scenarios, configs and results.

    Editors check and complete YAML files with them; programs read the units of results.

    Examples:
        sparsim schema --out schema
    """
    from simulator.answers import schema_of
    from simulator.files import write_text
    from simulator.prediction.result import RunResult
    from simulator.scenario.catalogue import schemas
    from simulator.studies.quality.trainings import study_schema

    for name, document in (schemas() | {"trainings": study_schema(), "result": schema_of(RunResult)}).items():
        write_text(out / f"{name}.json", json.dumps(document, indent=2, ensure_ascii=False) + "\n")
