"""Answers from many runs: where the time goes, and what to use."""

from __future__ import annotations

import shlex

import click

from simulator.cli.names import SCENARIO
from simulator.cli.root import AS_JSON, OVERRIDE, main, show


@main.command(
    examples="""
    sparsim explain quickstart
    sparsim explain partitioned_topk --set scheduler.partition='32 MB'
"""
)
@click.argument("scenario", type=SCENARIO)
@OVERRIDE
@AS_JSON
def explain(scenario: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Where one iteration's time goes, term by term: formulas, numbers, evidence, and what would change it."""
    from simulator.scenario.reading import load
    from simulator.studies.explain.explanation import explain as study

    show(study(load(scenario, overrides)), as_json, "print_explanation", "explanation")


@main.command(
    examples="""
    sparsim advise quickstart --set cluster.network.bandwidth='1 Gbit/s'
    sparsim advise quickstart --iterations-to-target iterations.yaml
"""
)
@click.argument("scenario", type=SCENARIO)
@OVERRIDE
@click.option(
    "--iterations-to-target",
    metavar="FILE",
    help="YAML that maps methods to the iterations your training takes with them: rank by time to target.",
)
@AS_JSON
def advise(scenario: str, overrides: tuple[str, ...], iterations_to_target: str | None, as_json: bool) -> None:
    """What to use here, where compression starts to pay, and why."""
    from simulator.scenario.reading import load
    from simulator.studies.advice.advice import advise as study
    from simulator.studies.advice.targets import read_iterations

    loaded = load(scenario, overrides)
    targets = read_iterations(iterations_to_target) if iterations_to_target else None
    document = study(loaded, targets)
    given = [f"--set {shlex.quote(item)}" for item in overrides]
    document["command"] = " ".join(["sparsim run", shlex.quote(scenario), *given, document["settings"]]).strip()
    show(document, as_json, "print_advice", "advice")
