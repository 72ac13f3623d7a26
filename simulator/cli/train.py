"""`sparsim train`: a small task, trained on this machine with the method in the loop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from simulator.cli.arguments import SET, Count, CountOrZero, Folder, OutFolder
from simulator.cli.record import Device
from simulator.cli.root import INTERRUPTED, main
from simulator.cli.signatures import command
from simulator.errors import InputError, Problem

if TYPE_CHECKING:
    from simulator.trainings.options import TrainingOptions


@command(main)
def train(
    task: str,
    *,
    out: OutFolder,
    method: Annotated[str | None, "Kind, density and other parameters, such as 'topk 0.01 granularity=model'."],
    workers: Annotated[Count | None, "Workers, all in this process.  [default: 4]"],
    iterations: Annotated[Count | None, "Iterations to train.  [default: 400]"],
    batch_size: Annotated[Count | None, "Samples per worker and iteration.  [default: the task's]"],
    seed: Annotated[CountOrZero | None, "Seed of all random numbers.  [default: 0]"],
    overrides: Annotated[tuple[str, ...], "Set another key; may be repeated.", SET],
    checkpoint_every: Annotated[Count, "In iterations."] = 100,
    threads: Annotated[Count, "Processor threads to use."] = 1,
    processes: Annotated[Count | None, "Trainings of a study at once.  [default: one per core]"],
    record: Annotated[Folder | None, "Folder of a trace to write the gradients to, before the exchange."],
    coordinates: Annotated[Count | None, "Coordinates of the model to record.  [default: all]"],
    pieces: Annotated[Count, "Equal parts that are held."] = 1024,
    pilot: Annotated[Count, "Iterations to look at before."] = 20,
    device: Device = "auto",
) -> None:
    """Train with the method in the loop.

    Several workers are trained synchronously on this machine; what the method sends of their gradients changes the
    weights. TASK is a built-in task (mlp-digits, resnet14-digits, lstm-text, transformer-text), a Python file, or a
    study: a YAML file or the name of a shipped one, such as convergence. Writes training.yaml and curve.csv; a study
    writes a folder with them for each of its trainings. After an interruption the same command continues.
    Exit code 1: some trainings of a study failed.

    Examples:
        sparsim train mlp-digits --method 'topk 0.01' --workers 4 --iterations 100 --out results/mlp
        sparsim train convergence --out results/convergence
        sparsim train resnet14-digits --workers 16 --record traces/mine --coordinates 2150 --out results/mine
        sparsim train my_task.py --method 'dgc 0.001' --set momentum=0.95 --out results/mine
    """
    from simulator.loading.finding import find_file
    from simulator.record.environment import device_of, need_torch
    from simulator.trainings.options import read_options

    need_torch("train")
    from simulator.record.streams import Recording
    from simulator.traces.sampling import Sampling
    from simulator.training.task import known_tasks

    given = {"method": method, "workers": workers, "iterations": iterations, "batch_size": batch_size, "seed": seed}
    keys = {name: value for name, value in given.items() if value is not None}
    place = device_of(device)
    is_task = task.endswith(".py") or task in known_tasks()
    study = None if is_task else find_file(task, None, "scenarios/trainings")
    try:
        if study is not None:
            if record is not None:
                raise InputError(Problem("--record", "one training", f"the study {study}"))
            stated = [f"{name}={value}" for name, value in keys.items()]
            _train_study(study, out, (*stated, *overrides), processes, place)
        else:
            settings = {"device": place, "threads": threads, "checkpoint_every": checkpoint_every}
            options = read_options({"task": task, **keys}, overrides)
            sampling = None if coordinates is None else Sampling(coordinates, pieces, pilot, options.seed)
            recording = None if record is None else Recording(record, sampling)
            _train_task(options, out, {**settings, "record": recording})
    except KeyboardInterrupt:
        click.echo(f"interrupted; the same command continues in {out}", err=True)
        click.get_current_context().exit(INTERRUPTED)


def _train_task(options: TrainingOptions, out: Path, settings: Mapping[str, Any]) -> None:
    """One training, and its last figures."""
    from simulator.reporting.terminal.progress import show_count
    from simulator.training.loop import train as run

    with show_count("iterations", options.iterations) as observe:
        made = run(options, out, observe=observe, **settings)
    last = made.curve[-1]
    metric = "" if math.isnan(last.metric) else f", {made.spec.metric} {last.metric:.4g}"
    click.echo(f"{out}: {len(made.curve)} iterations, loss {last.loss:.4g}{metric}")
    if made.spec.stopped:
        click.echo(f"stopped at {made.spec.stopped}", err=True)


def _train_study(study: Path, out: Path, overrides: Sequence[str], processes: int | None, device: str) -> None:
    """All trainings of a study; those that failed are listed."""
    from simulator.reporting.terminal.progress import show_progress
    from simulator.studies.quality.trainings import train_study

    with show_progress("trainings") as observe:
        done = train_study(study, out, overrides=overrides, processes=processes, device=device, observe=observe)
    click.echo(f"{done.trainings} trainings: {done.reused} reused, {len(done.failed)} failed; {out}")
    for folder, message in done.failed.items():
        click.echo(f"{folder}: {message}", err=True)
    if done.failed:
        click.get_current_context().exit(1)
