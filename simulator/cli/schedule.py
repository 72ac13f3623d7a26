"""`sparsim schedule`: what the training configuration of another tool really runs."""

from __future__ import annotations

from pathlib import Path

import click

from simulator.cli.root import main
from simulator.cli.signatures import command


@command(main)
def schedule(file: Path) -> None:
    """Print the scheduler of a torchtitan, torchft or MaxText configuration.

    FILE is a .toml file of torchtitan with a section fault_tolerance, a .yml file of MaxText with its keys of DiLoCo,
    or a script in Python that calls DiLoCo or LocalSGD of torchft, which is not run. What is printed goes into a
    scenario; its comments say after how many steps tensors are really exchanged.

    Examples:
        sparsim schedule diloco_180m.toml
    """
    from simulator.studies.start.training_files import read_schedule

    click.echo(read_schedule(file).text())
