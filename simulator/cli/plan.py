"""`sparsim plan`: a scenario backwards, from a target to what it needs."""

from __future__ import annotations

import click

from simulator.cli.arguments import AS_JSON, SCENARIO, SET
from simulator.cli.root import main, print_document

_UNKNOWNS = ("bandwidth", "inner_steps", "density", "nodes")


@main.command(
    examples="""
    sparsim plan quickstart --for 'scaling efficiency 80 %'
    sparsim plan quickstart --for 'time 3 days' --samples 1e9 --vary bandwidth
"""
)
@click.argument("scenario", type=SCENARIO)
@click.option("--for", "target", required=True, metavar="'QUANTITY VALUE'", help="What is to be reached.")
@click.option("--vary", multiple=True, metavar="NAME", help=f"{', '.join(_UNKNOWNS)}; may be repeated. Default: all.")
@click.option("--samples", type=click.FloatRange(1, 1e18), help="Samples of the training, for its time and cost.")
@click.option("--price", type=click.FloatRange(0, 1e9, min_open=True), help="What one GPU costs for an hour.")
@SET
@AS_JSON
def plan(
    scenario: str,
    *,
    target: str,
    vary: tuple[str, ...],
    samples: float | None,
    price: float | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Say what a scenario needs to meet a target.

    QUANTITY is compute utilisation, scaling efficiency, speed-up (over one GPU), throughput or iteration time; with
    --samples also time, and with --price also cost, of the whole training. Bandwidth, local steps, density and number
    of nodes are each solved for while all else stays as in the scenario, with an interval that holds the answer in nine
    of ten cases, and the measurement that would narrow it most.
    """
    from simulator.scenario.reading import load
    from simulator.studies.planning.planning import plan_backwards
    from simulator.studies.planning.targets import Training

    made = plan_backwards(load(scenario, overrides), target, vary, Training(samples, price))
    print_document(made, as_json, "plan_blocks", "planning")
