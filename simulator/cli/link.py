"""`sparsim calibrate link`: a network from one measured synchronisation."""

from __future__ import annotations

from pathlib import Path

import click

from simulator.cli.arguments import SCENARIO, SET, parse_quantity
from simulator.cli.calibration import NAME, OUT, calibrate


@calibrate.command(
    name="link",
    examples="""
    sparsim calibrate link my.yaml --synchronisation '8.25 s' --out configs/networks/mine.yaml
""",
)
@click.argument("scenario", type=SCENARIO)
@click.option("--synchronisation", required=True, metavar="TIME", help="Median of some ten, without the first.")
@OUT
@NAME
@SET
def calibrate_link(scenario: str, *, synchronisation: str, out: Path, name: str, overrides: tuple[str, ...]) -> None:
    """Fit the rate of a link to one probe of ten minutes.

    Run your training with one local step between exchanges (H = 1), leave out the first synchronisation, and take the
    median of some ten others. SCENARIO describes that run. The network that is written predicts other numbers of local
    steps on the same link.
    """
    from simulator.calibration.configs import config_text
    from simulator.files import write_text
    from simulator.scenario.reading import load
    from simulator.studies.fit.link_probe import probe_link
    from simulator.units import show_bandwidth, show_time

    seconds = parse_quantity("--synchronisation", synchronisation, "time")
    probe = probe_link(load(scenario, overrides), seconds)
    fabric = probe.fabric.model_copy(update={"name": name or out.stem})
    write_text(out, config_text("network", fabric))
    click.echo(
        f"the exchange moves {show_bandwidth(fabric.bandwidth)}; at the scenario's bandwidth it would have taken "
        f"{show_time(probe.predicted)}\nwritten to {out}"
    )
