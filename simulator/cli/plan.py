"""`sparsim plan`: a scenario backwards, from a target to what it needs."""

from __future__ import annotations

from typing import Annotated

from simulator.cli.arguments import IGNORED, AsJson, FiniteRange, IgnoreMemory, Overrides, ScenarioName
from simulator.cli.root import main, print_document, say
from simulator.cli.signatures import command, written

_FASTER = "faster than dense"
_UNKNOWNS = ("bandwidth", "inner_steps", "density", "nodes")


@command(main)
def plan(
    scenario: ScenarioName,
    *,
    target: Annotated[str, "What is to be reached.", written("--for", metavar="'QUANTITY VALUE'")] = _FASTER,
    vary: Annotated[
        tuple[str, ...], f"{', '.join(_UNKNOWNS)}; may be repeated. Default: all.", written(metavar="NAME")
    ],
    samples: Annotated[float | None, FiniteRange(1, 1e18), "Samples of the training, for its time and cost."],
    price: Annotated[float | None, FiniteRange(0, 1e9, min_open=True), "What one GPU costs for an hour."],
    overrides: Overrides,
    ignore_memory: IgnoreMemory,
    as_json: AsJson,
) -> None:
    """Say what a scenario needs to meet a target.

    Without --for, the method is to be faster than dense at its best (with a value, so many times as fast).
    QUANTITY is compute utilisation, scaling efficiency, node efficiency (over one node by itself), speed-up (over one
    GPU), throughput or iteration time; with --samples also time, and with --price also cost, of the whole training.
    Bandwidth, local steps, density and number of nodes are each solved for while all else stays as in the scenario,
    with an interval that holds the answer in nine of ten cases, and the measurement that would narrow it most.

    Examples:
        sparsim plan quickstart
        sparsim plan quickstart --for 'scaling efficiency 80 %'
        sparsim plan quickstart --for 'time 3 days' --samples 1e9 --vary bandwidth
    """
    from simulator.scenario.reading import load
    from simulator.studies.planning.planning import plan_backwards
    from simulator.studies.planning.targets import Training
    from simulator.units import show_time

    def tell(seconds: float) -> None:
        say(f"this takes about {show_time(seconds)}; --vary NAME, of fewer unknowns, takes less", err=True)

    loaded = load(scenario, overrides + (IGNORED if ignore_memory else ()))
    made = plan_backwards(loaded, target, vary, Training(samples, price), tell)
    print_document(made, as_json, "plan_blocks", "planning")
