"""`sparsim calibrate link`: a network from one measured synchronisation."""

from __future__ import annotations

from typing import Annotated

import click

from simulator.cli.arguments import Overrides, ScenarioName
from simulator.cli.calibration import Name, OutConfig, calibrate
from simulator.cli.signatures import command, written


@command(calibrate)
def calibrate_link(
    scenario: ScenarioName,
    *,
    synchronisation: Annotated[str, "Median of some ten, without the first.", written(metavar="TIME")],
    out: OutConfig,
    name: Name = "",
    overrides: Overrides,
) -> None:
    """Fit the rate of a link to one probe of ten minutes.

    Run your training with one local step between exchanges (H = 1), leave out the first synchronisation, and take the
    median of some ten others. SCENARIO describes that run. The network that is written predicts other numbers of local
    steps on the same link.

    Examples:
        sparsim calibrate link my.yaml --synchronisation '8.25 s' --out configs/networks/mine.yaml
    """
    from simulator.calibration.configs import config_text
    from simulator.files import write_text
    from simulator.scenario.reading import load
    from simulator.studies.fit.link_probe import probe_link
    from simulator.units import read_quantity, show_bandwidth, show_time

    seconds = read_quantity("--synchronisation", synchronisation, "time")
    probe = probe_link(load(scenario, overrides), seconds)
    fabric = probe.fabric.model_copy(update={"name": name or out.stem})
    write_text(out, config_text("network", fabric))
    click.echo(
        f"the exchange moves {show_bandwidth(fabric.bandwidth)}; at the scenario's bandwidth it would have taken "
        f"{show_time(probe.predicted)}\nwritten to {out}"
    )
