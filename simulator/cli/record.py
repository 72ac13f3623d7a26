"""`sparsim record`: measuring and training on this machine, with PyTorch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from simulator.cli.arguments import SET, Count, CountOrZero, FiniteRange, Folder, OutFolder, Shape, Share
from simulator.cli.root import INTERRUPTED, main
from simulator.cli.signatures import command, written
from simulator.errors import InputError, Problem
from simulator.loading.finding import find_file
from simulator.records import replace
from simulator.reporting.terminal.progress import show_count, show_progress

if TYPE_CHECKING:
    from simulator.trainings.options import TrainingOptions

OutTable = Annotated[Path, "CSV table to write."]
Device = Annotated[str, "cpu, cuda, cuda:N, or auto."]
Seed = Annotated[CountOrZero, "Seed of all random numbers."]
Resume = Annotated[bool, "Continue an existing table; its rows are kept."]
Threads = Annotated[Count | None, "Processor threads that PyTorch uses."]
BatchSize = Annotated[Count | None, "Samples in a batch, for a model without inputs of its own."]
MODEL_HELP = """\b
MODEL is one of
  mlp, cnn, resnet50, vgg16, bert-base, gpt2   built in
  FILE.py:FUNCTION, MODULE:FUNCTION            your own
  torchvision:NAME, transformers:NAME          of a library that is installed

Your function returns a torch.nn.Module, (model, inputs) or (model, inputs, loss function). The inputs are a batch or an
iterator of batches, and loss(model, batch) returns one number. Without inputs, random ones of the shape --input are
used; without a loss, the mean square of the output. Models of libraries have random weights; nothing is downloaded.
"""


@main.group()
def record() -> None:
    """Measure and train on this machine with PyTorch.

    Kernels, the layers of a model, its gradients, collectives, and trainings with a method in the loop.
    Needs the extra: pip install "sparsim[torch]"
    """


@command(record)
def record_kernels(
    *,
    out: OutTable,
    quick: Annotated[bool, "Only three sizes, few parameters, and fp32 unless --dtypes is given."],
    dtypes: Annotated[str | None, "Of fp32, fp16 and bf16, separated by commas.  [default: all]"],
    names: Annotated[str | None, "Names of kernels, separated by commas.  [default: all]", written("--kernels")],
    max_elements: Annotated[int | None, click.IntRange(1024), "Largest size.  [default: as memory allows]"],
    budget: Annotated[float | None, FiniteRange(0), "Seconds to repeat each point.  [default: 0.2, with --quick 0.02]"],
    rotate: Annotated[str | None, "Bytes of inputs to use in turn, such as 256 MiB.  [default: twice the cache]"],
    clock_policy: Annotated[str, "How the clocks of the device are set, in words, for the table."] = "",
    device: Device = "auto",
    threads: Threads,
    seed: Seed = 0,
    resume: Resume,
) -> None:
    """Time the kernels of selection and exchange.

    Times each kernel over sizes, checks its results, and writes a CSV table.

    Examples:
        sparsim record kernels --quick --out kernels.csv
        sparsim record kernels --device cuda --dtypes fp32,fp16 --out kernels.csv --resume
    """
    device = _prepare_torch("kernels", device, threads)
    from simulator.record import sweep
    from simulator.record.environment import check_names, environment
    from simulator.record.kernels import DTYPES, KERNELS

    types = check_names("--dtypes", (dtypes or ("fp32" if quick else ",".join(DTYPES))).split(","), DTYPES)
    effort = sweep.QUICK if quick else sweep.Effort()
    sizes = sweep.sizes_up_to(max_elements or sweep.largest_elements(device), quick)
    done = sweep.record_kernels(
        out,
        sweep.grid(sizes, types, names.split(",") if names else tuple(KERNELS), quick),
        device,
        environment(device, clock_policy),
        effort=effort if budget is None else replace(effort, budget=budget),
        rotate=None if rotate is None else _parse_bytes("--rotate", rotate),
        seed=seed,
        resume=resume,
        report=lambda text: click.echo(text, err=True),
    )
    rows = f"{done['written']} rows" + (f", {done['kept']} kept" if done["kept"] else "")
    click.echo(f"{out}: {rows}, {done['skipped']} points skipped, {done['wrong']} wrong")
    if done["wrong"]:
        click.get_current_context().exit(1)


@command(record, epilog=MODEL_HELP)
def record_layers(
    model: str,
    *,
    out: OutFolder,
    name: Annotated[str | None, "Name of the workload and its files.  [default: that of the model]"],
    batch_size: BatchSize,
    shape: Shape = "",
    repeats: Annotated[Count, "Iterations to time."] = 30,
    warmup: Annotated[CountOrZero, "Iterations before those."] = 5,
    device: Device = "auto",
    threads: Threads,
    seed: Seed = 0,
) -> None:
    """Time the layers of a model and write a workload.

    Writes NAME.yaml and NAME.layers.csv with the forward and backward time of each tensor.

    Examples:
        sparsim record layers resnet50 --batch-size 64 --out workloads
        sparsim record layers mine.py:build --input 3x224x224 --batch-size 32 --name mine --out workloads
        sparsim record layers torchvision:resnet18 --out workloads
    """
    device = _prepare_torch("layers", device, threads)
    from simulator.record.layers import profile, write_workload
    from simulator.record.models import task_of
    from simulator.units import show_time

    made = profile(task_of(model, device, batch_size, seed, shape), device, repeats, warmup)
    name = name or Path(model.rpartition(":")[2]).stem
    path = write_workload(out, name, model, made, device)
    times = f"forward {show_time(made.forward)}, backward {show_time(made.backward)}, step {show_time(made.step)}"
    click.echo(f"{path}: {len(made.layers)} tensors, {times}")


@command(record, epilog=MODEL_HELP)
def record_gradients(
    model: str,
    *,
    out: OutFolder,
    batch_size: BatchSize,
    shape: Shape = "",
    workers: Annotated[int, click.IntRange(1, 4096), "Workers to train, in this process."] = 4,
    iterations: Annotated[Count, "Iterations to train."] = 32,
    every: Annotated[Count, "Record the first iterations of so many."] = 1,
    block: Annotated[Count, "How many to record of each --every."] = 1,
    sample: Annotated[Share, "Share of the elements of each tensor to record."] = 1.0,
    learning_rate: Annotated[float, FiniteRange(0), "For SGD."] = 0.01,
    layers: Annotated[Path | None, "layers.csv with the times of this model, to copy into the trace."],
    device: Device = "auto",
    threads: Threads,
    seed: Seed = 0,
) -> None:
    """Train a model and record its gradients as a trace.

    Trains data-parallel in this process. Built-in models learn random labels; for gradients of your own training, use
    GradientRecorder in its code.

    Examples:
        sparsim record gradients cnn --workers 4 --iterations 16 --out traces/cnn
    """
    device = _prepare_torch("gradients", device, threads)
    from simulator.record.gradients import record_training
    from simulator.record.models import task_of

    recorded = record_training(
        task_of(model, device, batch_size, seed, shape),
        out,
        workers=workers,
        iterations=iterations,
        every=every,
        block=block,
        sample=sample,
        learning_rate=learning_rate,
        layers=layers,
        seed=seed,
    )
    click.echo(f"{out}: {workers} workers, {recorded} iterations")


@command(record)
def record_training(
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
        sparsim record training mlp-digits --method 'topk 0.01' --workers 4 --iterations 100 --out results/mlp
        sparsim record training convergence --out results/convergence
        sparsim record training resnet14-digits --workers 16 --record traces/mine --coordinates 2150 --out results/mine
        sparsim record training my_task.py --method 'dgc 0.001' --set momentum=0.95 --out results/mine
    """
    from simulator.traces.sampling import Sampling
    from simulator.trainings.options import read_options

    place = _prepare_torch("training", device, None)
    from simulator.training.task import known_tasks

    given = {"method": method, "workers": workers, "iterations": iterations, "batch_size": batch_size, "seed": seed}
    keys = {name: value for name, value in given.items() if value is not None}
    is_task = task.endswith(".py") or task in known_tasks()
    study = None if is_task else find_file(task, None, "scenarios/trainings")
    try:
        if study is not None:
            if record is not None:
                raise InputError(Problem("--record", "one training", f"the study {study}"))
            stated = [f"{name}={value}" for name, value in keys.items()]
            _train_study(study, out, (*stated, *overrides), processes, place)
        else:
            options = read_options({"task": task, **keys}, overrides)
            sampling = None if coordinates is None else Sampling(coordinates, pieces, pilot, options.seed)
            settings = {"threads": threads, "checkpoint_every": checkpoint_every, "record": record}
            _train_task(options, out, {"device": place, **settings, "sampling": sampling})
    except KeyboardInterrupt:
        click.echo(f"interrupted; the same command continues in {out}", err=True)
        click.get_current_context().exit(INTERRUPTED)


@command(record)
def record_merge(folder: Folder, *, out: Annotated[Folder | None, "Folder to write.  [default: FOLDER]"]) -> None:
    """Merge the traces of several ranks into one.

    The ranks wrote them to FOLDER/rank-00000 and so on; they are kept.

    Examples:
        sparsim record merge traces/mine
    """
    from simulator.record.merging import merge

    workers, iterations = merge(folder, out)
    click.echo(f"{out or folder}: {workers} workers, {iterations} iterations")


@command(record)
def record_collectives(
    *,
    out: OutTable,
    processes: Annotated[int | None, click.IntRange(1, 64), "Processes to start here, instead of using torchrun."],
    sizes: Annotated[str | None, "Sizes such as 1KiB,1MiB.  [default: 1 KiB to 256 MiB, each four times the last]"],
    names: Annotated[
        str | None, "Names of collectives, separated by commas.  [default: all four]", written("--collectives")
    ],
    repeats: Annotated[Count, "Calls to time at each size."] = 20,
    backend: Annotated[
        Literal["auto", "nccl", "gloo"], "Backend of torch.distributed; auto is nccl on GPUs and gloo on processors."
    ] = "auto",
    device: Device = "auto",
    resume: Resume,
) -> None:
    """Time the collectives of torch.distributed.

    Writes a CSV table with all-reduce, all-gather, reduce-scatter and broadcast.

    Examples:
        sparsim record collectives --processes 4 --out collectives.csv
        torchrun --nnodes 2 --nproc-per-node 8 -m simulator record collectives --out collectives.csv
    """
    _prepare_torch("collectives", "cpu", None)
    import os

    from simulator.record import collectives
    from simulator.record.environment import check_names

    known = collectives.COLLECTIVES
    chosen = collectives.Settings(
        out=out,
        sizes=tuple(_parse_bytes("--sizes", text) for text in sizes.split(",")) if sizes else collectives.SIZES,
        collectives=check_names("--collectives", names.split(",") if names else known, known),
        repeats=repeats,
        backend=backend,
        device=device,
        resume=resume,
    )
    collectives.record_collectives(chosen, processes)
    if processes is not None or os.environ.get("RANK") == "0":
        click.echo(f"{out}: written")


def _prepare_torch(command: str, device: str, threads: int | None) -> str:
    """PyTorch's name of the device, with the number of threads set. Raises InputError where PyTorch is missing."""
    from simulator.record.environment import device_of, need_torch

    need_torch(f"record {command}")
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    return device_of(device)


def _parse_bytes(option: str, text: str) -> int:
    from simulator.units import read_quantity

    return max(1, round(read_quantity(option, text, "size")))


def _train_task(options: TrainingOptions, out: Path, settings: Mapping[str, Any]) -> None:
    from simulator.training.loop import train as run

    with show_count("iterations", options.iterations) as observe:
        made = run(options, out, observe=observe, **settings)
    last = made.curve[-1]
    metric = "" if math.isnan(last.metric) else f", {made.spec.metric} {last.metric:.4g}"
    click.echo(f"{out}: {len(made.curve)} iterations, loss {last.loss:.4g}{metric}")
    if made.spec.stopped:
        click.echo(f"stopped at {made.spec.stopped}", err=True)


def _train_study(study: Path, out: Path, overrides: Sequence[str], processes: int | None, device: str) -> None:
    from simulator.studies.quality.trainings import train_study

    with show_progress("trainings") as observe:
        done = train_study(study, out, overrides=overrides, processes=processes, device=device, observe=observe)
    click.echo(f"{done.trainings} trainings: {done.reused} reused, {len(done.failed)} failed; {out}")
    for folder, message in done.failed.items():
        click.echo(f"{folder}: {message}", err=True)
    if done.failed:
        click.get_current_context().exit(1)
