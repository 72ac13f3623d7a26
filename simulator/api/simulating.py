"""`simulation`: a scenario on the clock before it runs, for processes and changes of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulator.engine.clock.open_simulation import OpenSimulation
from simulator.engine.refusals import as_input_error
from simulator.errors import InputError, Problem
from simulator.prediction.draws import draw_differences
from simulator.prediction.job_setup import plans_of
from simulator.prediction.run import as_measured
from simulator.scenario.changes import with_value
from simulator.scenario.reading import ScenarioSource, load


def simulation(source: ScenarioSource, /, messages: bool = False, **overrides: Any) -> OpenSimulation:
    """The simulation of a scenario before it runs: its `env`, `workers` and `network`, `on(event, function)`, `run()`.

    `source` and `overrides` as in `run`; of a recorded trace selections are those of the closed form. `messages`: every
    message is followed on NICs and links, also of exchanges that have a price; then own messages and changed rates
    count. Where nothing is added, iterations take the times of `run`; with `messages` those of `fidelity: flows`, in
    which measured curves of collectives do not count. What was measured moves the scenario's figures as in `run`. Of
    local steps an iteration is a whole period, whose `time` is that of its `steps`. Iterations follow each other on one
    clock, on which a link that `cluster.links` changes does so once, and not in every iteration, as it does in `run`.

    Raises InputError for a wrong scenario, where its parts cannot work together, and for `messages` of a fold.
    """
    scenario = load(source, overrides)
    where = f"scenario '{scenario.name}'"
    if messages and scenario.fidelity == "fold":
        hint = "a fold follows no messages: set `fidelity` to `auto`"
        raise InputError(Problem(f"{where}: fidelity", "`auto` or `flows`", "`fold`", hint))
    scenario = as_measured(with_value(scenario, "fidelity", "flows") if messages else scenario)
    with as_input_error(where):
        plan, other_jobs = plans_of(scenario, followed=messages)
        consecutive = bool(other_jobs) or plan.remembers
        drawn = list(draw_differences(scenario, plan, consecutive))
        if not consecutive and len(drawn) == 1:  # all iterations are alike, as long as nobody joins them
            drawn *= scenario.iterations
        warmup = scenario.warmup if consecutive else 0
        return OpenSimulation(plan, drawn, other_jobs, warmup=warmup, where=where)


def follow_messages(source: ScenarioSource, path: Path) -> None:
    """Write every message of one iteration of a scenario as Parquet, as `OpenNetwork.write_messages` does.

    Raises InputError where messages cannot be followed, and where the file cannot be written.
    """
    opened = simulation(source, messages=True, iterations=1, warmup=0)
    opened.run()
    if opened.network is not None:
        opened.network.write_messages(path)
