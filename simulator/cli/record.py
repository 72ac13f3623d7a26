"""`sparsim record`: measuring on this machine, with PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simulator.cli.arguments import FILE, FOLDER, OUT_FOLDER, parse_quantity
from simulator.cli.root import main

OUT_TABLE = click.option("--out", required=True, type=FILE, help="CSV table to write.")
DEVICE = click.option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:N, or auto.")
SEED = click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of all random numbers.")
RESUME = click.option("--resume", is_flag=True, help="Continue an existing table; its rows are kept.")
THREADS = click.option("--threads", type=click.IntRange(1), help="Processor threads that PyTorch uses.")
BATCH_SIZE = click.option(
    "--batch-size", type=click.IntRange(1), help="Samples in a batch, for a model without inputs of its own."
)
MODEL_HELP = """\b
MODEL is one of
  mlp, cnn, resnet50, vgg16, bert-base, gpt2   built in
  FILE.py:FUNCTION, MODULE:FUNCTION            your own
  torchvision:NAME, transformers:NAME          of a library that is installed

Your function returns a torch.nn.Module, (model, inputs) or (model, inputs, loss function). The inputs are a batch or an
iterator of batches, and loss(model, batch) returns one number. Without inputs, random ones of the shape --input are
used; without a loss, the mean square of the output. Models of libraries have random weights; nothing is downloaded.
"""
INPUT = click.option(
    "--input",
    "shape",
    default="",
    help="Shape of one sample, such as 3x224x224 or tokens:128, for a model without inputs.",
)


@main.group()
def record() -> None:
    """Measure on this machine with PyTorch.

    Kernels, the layers of a model, its gradients, and collectives. Needs the extra: pip install "sparsim[torch]"
    """


@record.command(
    name="kernels",
    examples="""
    sparsim record kernels --quick --out kernels.csv
    sparsim record kernels --device cuda --dtypes fp32,fp16 --out kernels.csv --resume
""",
)
@OUT_TABLE
@click.option("--quick", is_flag=True, help="Only three sizes, few parameters, and fp32 unless --dtypes is given.")
@click.option("--dtypes", help="Of fp32, fp16 and bf16, separated by commas.  [default: all]")
@click.option("--kernels", "names", help="Names of kernels, separated by commas.  [default: all]")
@click.option("--max-elements", type=click.IntRange(1024), help="Largest size.  [default: as memory allows]")
@click.option(
    "--budget", type=click.FloatRange(0), help="Seconds to repeat each point.  [default: 0.2, with --quick 0.02]"
)
@click.option("--rotate", help="Bytes of inputs to use in turn, such as 256 MiB.  [default: twice the cache]")
@click.option("--clock-policy", default="", help="How the clocks of the device are set, in words, for the table.")
@DEVICE
@THREADS
@SEED
@RESUME
def record_kernels(
    *,
    out: Path,
    quick: bool,
    dtypes: str | None,
    names: str | None,
    max_elements: int | None,
    budget: float | None,
    rotate: str | None,
    clock_policy: str,
    device: str,
    threads: int | None,
    seed: int,
    resume: bool,
) -> None:
    """Time the kernels of selection and exchange.

    Times each kernel over sizes, checks its results, and writes a CSV table.
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


@record.command(
    name="layers",
    epilog=MODEL_HELP,
    examples="""
    sparsim record layers resnet50 --batch-size 64 --out workloads
    sparsim record layers mine.py:build --input 3x224x224 --batch-size 32 --name mine --out workloads
    sparsim record layers torchvision:resnet18 --out workloads
""",
)
@click.argument("model")
@OUT_FOLDER
@click.option("--name", help="Name of the workload and its files.  [default: that of the model]")
@BATCH_SIZE
@INPUT
@click.option("--repeats", type=click.IntRange(1), default=30, show_default=True, help="Iterations to time.")
@click.option("--warmup", type=click.IntRange(0), default=5, show_default=True, help="Iterations before those.")
@DEVICE
@THREADS
@SEED
def record_layers(
    *,
    model: str,
    out: Path,
    name: str | None,
    batch_size: int | None,
    shape: str,
    repeats: int,
    warmup: int,
    device: str,
    threads: int | None,
    seed: int,
) -> None:
    """Time the layers of a model and write a workload.

    Writes NAME.yaml and NAME.layers.csv with the forward and backward time of each tensor.
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


@record.command(
    name="gradients",
    epilog=MODEL_HELP,
    examples="""
    sparsim record gradients cnn --workers 4 --iterations 16 --out traces/cnn
""",
)
@click.argument("model")
@OUT_FOLDER
@BATCH_SIZE
@INPUT
@click.option(
    "--workers", type=click.IntRange(1, 4096), default=4, show_default=True, help="Workers to train, in this process."
)
@click.option("--iterations", type=click.IntRange(1), default=32, show_default=True, help="Iterations to train.")
@click.option(
    "--every", type=click.IntRange(1), default=1, show_default=True, help="Record the first iterations of so many."
)
@click.option(
    "--block", type=click.IntRange(1), default=1, show_default=True, help="How many to record of each --every."
)
@click.option(
    "--sample",
    type=click.FloatRange(0, 1, min_open=True),
    default=1.0,
    show_default=True,
    help="Share of the elements of each tensor to record.",
)
@click.option("--learning-rate", type=click.FloatRange(0), default=0.01, show_default=True, help="For SGD.")
@click.option("--layers", type=FILE, help="layers.csv with the times of this model, to copy into the trace.")
@DEVICE
@THREADS
@SEED
def record_gradients(
    *,
    model: str,
    out: Path,
    batch_size: int | None,
    shape: str,
    device: str,
    threads: int | None,
    seed: int,
    **training: Any,
) -> None:
    """Train a model and record its gradients as a trace.

    Trains data-parallel in this process. Built-in models learn random labels; for gradients of your own training, use
    GradientRecorder in its code.
    """
    device = _prepare_torch("gradients", device, threads)
    from simulator.record.gradients import record_training
    from simulator.record.tasks import task_of

    recorded = record_training(task_of(model, device, batch_size, seed, shape), out, seed=seed, **training)
    click.echo(f"{out}: {training['workers']} workers, {recorded} iterations")


@record.command(
    name="merge",
    examples="""
    sparsim record merge traces/mine
""",
)
@click.argument("folder", type=FOLDER)
@click.option("--out", type=FOLDER, help="Folder to write.  [default: FOLDER]")
def record_merge(folder: Path, out: Path | None) -> None:
    """Merge the traces of several ranks into one.

    The ranks wrote them to FOLDER/rank-00000 and so on; they are kept.
    """
    from simulator.record.merging import merge

    workers, iterations = merge(folder, out)
    click.echo(f"{out or folder}: {workers} workers, {iterations} iterations")


@record.command(
    name="collectives",
    examples="""
    sparsim record collectives --processes 4 --out collectives.csv
    torchrun --nnodes 2 --nproc-per-node 8 -m simulator record collectives --out collectives.csv
""",
)
@OUT_TABLE
@click.option("--processes", type=click.IntRange(1, 64), help="Processes to start here, instead of using torchrun.")
@click.option("--sizes", help="Sizes such as 1KiB,1MiB.  [default: 1 KiB to 256 MiB, each four times the last]")
@click.option("--collectives", "names", help="Names of collectives, separated by commas.  [default: all four]")
@click.option("--repeats", type=click.IntRange(1), default=20, show_default=True, help="Calls to time at each size.")
@click.option(
    "--backend",
    type=click.Choice(["auto", "nccl", "gloo"]),
    default="auto",
    show_default=True,
    help="Backend of torch.distributed; auto is nccl on GPUs and gloo on processors.",
)
@DEVICE
@RESUME
def record_collectives(
    *,
    out: Path,
    processes: int | None,
    sizes: str | None,
    names: str | None,
    **settings: Any,
) -> None:
    """Time the collectives of torch.distributed.

    Writes a CSV table with all-reduce, all-gather, reduce-scatter and broadcast.
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
        **settings,
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
    return max(1, round(parse_quantity(option, text, "size")))
