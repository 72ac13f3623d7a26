"""`sparsim schedule`: what the training configuration of another program says of a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click

from simulator.cli.arguments import Count
from simulator.cli.root import main
from simulator.cli.signatures import command


@command(main)
def schedule(
    file: Path,
    *,
    gpus: Annotated[Count | None, "GPUs of the job, where the file leaves them to its launcher."],
) -> None:
    """Print what the configuration of another program says of a scenario.

    FILE is a configuration of DeepSpeed (JSON), Megatron-LM (a script with its options), torchtitan (TOML, or Python:
    FILE.py:FUNCTION), Accelerate or MaxText (YAML), or a script in Python that calls DiLoCo or LocalSGD of torchft.
    It is recognised by what stands in it, and never run. What is printed goes into a scenario: its blocks workload,
    parallelism, scheduler and so on, with the key that each line comes from. Comments name what was not read.

    Examples:
        sparsim schedule diloco_180m.toml
        sparsim schedule ds_config.json --gpus 64
    """
    from simulator.studies.start.training_files import read_blocks

    click.echo(read_blocks(file, gpus).text(), nl=False)
