"""`sparsim record`: measuring on this machine, with PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import click

from simulator.cli.arguments import Count, CountOrZero, FiniteRange, Folder, OutFolder, Share
from simulator.cli.root import main
from simulator.cli.signatures import command, written

OutTable = Annotated[Path, "CSV table to write."]
Device = Annotated[str, "cpu, cuda, cuda:N, or auto."]
Seed = Annotated[CountOrZero, "Seed of all random numbers."]
Resume = Annotated[bool, "Continue an existing table; its rows are kept."]
Threads = Annotated[Count | None, "Processor threads that PyTorch uses."]
BatchSize = Annotated[Count | None, "Samples in a batch, for a model without inputs of its own."]
Shape = Annotated[
    str, "Shape of one sample, such as 3x224x224 or tokens:128, for a model without inputs.", written("--input")
]
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
    """Measure on this machine with PyTorch.

    Kernels, the layers of a model, its gradients, and collectives. Needs the extra: pip install "sparsim[torch]"
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
    from simulator.records import replace

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
    rows = f"{done.written} rows" + (f", {done.kept} kept" if done.kept else "")
    click.echo(f"{out}: {rows}, {len(done.skipped)} points skipped, {len(done.wrong)} wrong")
    if done.wrong:
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
    from simulator.record.environment import environment
    from simulator.record.layers import profile, write_workload
    from simulator.record.tasks import task_of
    from simulator.units import show_time

    made = profile(task_of(model, device, batch_size, seed, shape), device, repeats, warmup)
    name = name or Path(model.rpartition(":")[2]).stem
    path = write_workload(out, name, model, made, environment(device))
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
    from simulator.record.tasks import task_of

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
