"""`sparsim train`: a small task, trained on this machine with the method in the loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simulator.cli.arguments import OUT_FOLDER
from simulator.cli.record import DEVICE
from simulator.cli.root import main


@main.command(
    examples="""
    sparsim train mlp-digits --method 'topk 0.01' --workers 4 --iterations 100 --out results/mlp
    sparsim train my_task.py --method 'dgc 0.001' --set momentum=0.95 --out results/mine
"""
)
@click.argument("task")
@OUT_FOLDER
@click.option("--method", help="Kind, density and other parameters, such as 'topk 0.01 granularity=model'.")
@click.option("--workers", type=click.IntRange(1), help="Workers, all in this process.  [default: 4]")
@click.option("--iterations", type=click.IntRange(1), help="Iterations to train.  [default: 400]")
@click.option("--batch-size", type=click.IntRange(1), help="Samples per worker and iteration.  [default: the task's]")
@click.option("--seed", type=click.IntRange(0), help="Seed of all random numbers.  [default: 0]")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Set another key; may be repeated.")
@click.option("--checkpoint-every", type=click.IntRange(1), default=100, show_default=True, help="In iterations.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Processor threads to use.")
@DEVICE
def train(
    *,
    task: str,
    out: Path,
    overrides: tuple[str, ...],
    device: str,
    threads: int,
    checkpoint_every: int,
    **given: Any,
) -> None:
    """Train with the method in the loop.

    Several workers are trained synchronously in this process; what the method sends of their gradients changes the
    weights. TASK is a built-in task (mlp-digits, resnet14-digits, lstm-text, transformer-text) or a Python file.
    Writes training.yaml and curve.csv. After an interruption the same command continues.
    """
    from simulator.record.environment import device_of, need_torch
    from simulator.reporting.terminal.progress import show_count
    from simulator.training.options import read_options

    need_torch("train")
    keys = {name: value for name, value in given.items() if value is not None}
    options = read_options({"task": task, **keys}, overrides)
    from simulator.training.loop import train as run

    place = device_of(device)
    with show_count("iterations", options.iterations) as observe:
        made = run(options, out, device=place, threads=threads, checkpoint_every=checkpoint_every, observe=observe)
    last = made.curve[-1]
    click.echo(f"{out}: {len(made.curve)} iterations, loss {last.loss:.4g}, {made.spec.metric} {last.metric:.4g}")
