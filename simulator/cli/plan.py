"""`sparsim plan`: a scenario backwards, from a target to what it needs."""

from __future__ import annotations

from typing import Annotated

import click

from simulator.cli.arguments import AsJson, Overrides, ScenarioName
from simulator.cli.root import main, print_document
from simulator.cli.signatures import command, written

_UNKNOWNS = ("bandwidth", "inner_steps", "density", "nodes")


@command(main)
def plan(
    scenario: ScenarioName,
    *,
    target: Annotated[str, "What is to be reached.", written("--for", metavar="'QUANTITY VALUE'")],
    vary: Annotated[
        tuple[str, ...], f"{', '.join(_UNKNOWNS)}; may be repeated. Default: all.", written(metavar="NAME")
    ],
    samples: Annotated[float | None, click.FloatRange(1, 1e18), "Samples of the training, for its time and cost."],
    price: Annotated[float | None, click.FloatRange(0, 1e9, min_open=True), "What one GPU costs for an hour."],
    overrides: Overrides,
    as_json: AsJson,
) -> None:
    """Say what a scenario needs to meet a target.

    QUANTITY is compute utilisation, scaling efficiency, node efficiency (over one node by itself), speed-up (over one
    GPU), throughput or iteration time; with --samples also time, and with --price also cost, of the whole training.
    Bandwidth, local steps, density and number of nodes are each solved for while all else stays as in the scenario,
    with an interval that holds the answer in nine of ten cases, and the measurement that would narrow it most.

    Examples:
        sparsim plan quickstart --for 'scaling efficiency 80 %'
        sparsim plan quickstart --for 'time 3 days' --samples 1e9 --vary bandwidth
    """
    from simulator.scenario.reading import load
    from simulator.studies.planning.planning import plan_backwards
    from simulator.studies.planning.targets import Training

    made = plan_backwards(load(scenario, overrides), target, vary, Training(samples, price))
    print_document(made, as_json, "plan_blocks", "planning")
