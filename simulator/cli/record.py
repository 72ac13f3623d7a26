"""`sparsim record`: measuring on this machine, with PyTorch."""

from __future__ import annotations

from pathlib import Path

import click

from simulator.cli.root import FOLDER, main

TABLE = click.option(
    "--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="CSV table that is written."
)
DEVICE = click.option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:N, or auto.")
SEED = click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
RESUME = click.option("--resume", is_flag=True, help="Go on with a table that is there; its rows are kept.")
THREADS = click.option("--threads", type=click.IntRange(1), help="Threads of PyTorch on the processor.")
BATCH_SIZE = click.option("--batch-size", type=click.IntRange(1), help="Samples of a batch, for networks of ours.")
MODEL_HELP = """MODEL is one of mlp, cnn, resnet50, vgg16, bert-base, gpt2, or MODULE:FUNCTION, a function that returns
(model, inputs, loss function): inputs are a batch or an iterator of batches, and loss(model, batch) is one number."""


@main.group()
def record() -> None:
    """Measure on this machine with PyTorch: kernels, a model's layers, its gradients, collectives.

    Needs the extra: pip install "sparsim[torch]"
    """


@record.command(
    name="kernels",
    examples="""
    sparsim record kernels --quick --out kernels.csv
    sparsim record kernels --device cuda --dtypes fp32,fp16 --out kernels.csv --resume
""",
)
@TABLE
@click.option("--quick", is_flag=True, help="Three sizes and few parameters, fp32 unless --dtypes says otherwise.")
@click.option("--dtypes", help="Comma-separated, of fp32, fp16, bf16.  [default: all]")
@click.option("--kernels", "names", help="Comma-separated names.  [default: all]")
@click.option("--max-elements", type=click.IntRange(1024), help="Largest size.  [default: what memory allows]")
@click.option("--budget", type=click.FloatRange(0), help="Seconds of repeats per point.  [default: 0.2; quick: 0.02]")
@click.option("--rotate", help="Bytes of inputs to go through, such as 256 MiB.  [default: twice the cache]")
@click.option("--clock-policy", default="", help="How the clocks are set, in words, for the table.")
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
    """Time the kernels of selection and exchange over sizes, each result checked, into a CSV table."""
    device = _device("kernels", device, threads)
    from dataclasses import replace

    from simulator.errors import InputError, Problem
    from simulator.record import sweep
    from simulator.record.environment import environment
    from simulator.record.kernels import DTYPES, KERNELS

    types = tuple((dtypes or ("fp32" if quick else ",".join(DTYPES))).split(","))
    if not set(types) <= set(DTYPES):
        raise InputError(Problem("--dtypes", f"some of {', '.join(DTYPES)}", repr(dtypes)))
    effort = sweep.QUICK if quick else sweep.Effort()
    sizes = sweep.sizes_up_to(max_elements or sweep.largest_elements(device), quick)
    done = sweep.record_kernels(
        out,
        sweep.grid(sizes, types, names.split(",") if names else tuple(KERNELS), quick),
        device,
        environment(device, clock_policy),
        effort=effort if budget is None else replace(effort, budget=budget),
        rotate=None if rotate is None else _bytes("--rotate", rotate),
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
    sparsim record layers training.py:task --name mine --out workloads
""",
)
@click.argument("model")
@FOLDER
@click.option("--name", help="Of the workload and its files.  [default: the model's]")
@BATCH_SIZE
@click.option("--repeats", type=click.IntRange(1), default=30, show_default=True, help="Steps that are timed.")
@click.option("--warmup", type=click.IntRange(0), default=5, show_default=True, help="Steps before.")
@DEVICE
@THREADS
@SEED
def record_layers(
    *,
    model: str,
    out: Path,
    name: str | None,
    batch_size: int | None,
    repeats: int,
    warmup: int,
    device: str,
    threads: int | None,
    seed: int,
) -> None:
    """Time MODEL's tensors, forward and backward, and write a workload: NAME.yaml and NAME.layers.csv."""
    device = _device("layers", device, threads)
    from simulator.record.environment import environment
    from simulator.record.layers import profile, write_workload
    from simulator.record.tasks import task_of
    from simulator.units import show_time

    made = profile(task_of(model, device, batch_size, seed), device, repeats, warmup)
    name = name or model.rpartition(":")[2]
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
@FOLDER
@BATCH_SIZE
@click.option("--workers", type=click.IntRange(1, 4096), default=4, show_default=True, help="Trained in this process.")
@click.option("--iterations", type=click.IntRange(1), default=32, show_default=True)
@click.option("--every", type=click.IntRange(1), default=1, show_default=True, help="Of so many iterations ...")
@click.option("--block", type=click.IntRange(1), default=1, show_default=True, help="... record the first so many.")
@click.option("--sample", type=click.FloatRange(0, 1, min_open=True), default=1.0, show_default=True)
@click.option("--learning-rate", type=click.FloatRange(0), default=0.01, show_default=True)
@click.option("--layers", type=click.Path(dir_okay=False, path_type=Path), help="layers.csv whose times to take over.")
@DEVICE
@THREADS
@SEED
def record_gradients(
    *,
    model: str,
    out: Path,
    batch_size: int | None,
    workers: int,
    iterations: int,
    every: int,
    block: int,
    sample: float,
    learning_rate: float,
    layers: Path | None,
    device: str,
    threads: int | None,
    seed: int,
) -> None:
    """Train MODEL data-parallel in this process and write its gradients as a trace.

    Networks of ours learn random labels. For gradients of your own training, use GradientRecorder in it.
    """
    device = _device("gradients", device, threads)
    from simulator.record.gradients import record_training
    from simulator.record.tasks import task_of

    recorded = record_training(
        task_of(model, device, batch_size, seed),
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


@record.command(
    name="merge",
    examples="""
    sparsim record merge traces/mine
""",
)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder written.  [default: FOLDER]")
def record_merge(folder: Path, out: Path | None) -> None:
    """Merge the traces that ranks wrote to FOLDER/rank-00000, ... into one; theirs stay."""
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
@TABLE
@click.option("--processes", type=click.IntRange(1, 64), help="Start so many here, instead of running under torchrun.")
@click.option("--sizes", help="Comma-separated, such as 1KiB,1MiB.  [default: 1 KiB to 256 MiB, times four]")
@click.option("--collectives", "names", help="Comma-separated.  [default: all four]")
@click.option("--repeats", type=click.IntRange(1), default=20, show_default=True)
@click.option("--backend", type=click.Choice(["auto", "nccl", "gloo"]), default="auto", show_default=True)
@DEVICE
@RESUME
def record_collectives(
    *,
    out: Path,
    processes: int | None,
    sizes: str | None,
    names: str | None,
    repeats: int,
    backend: str,
    device: str,
    resume: bool,
) -> None:
    """Time all-reduce, all-gather, reduce-scatter and broadcast of torch.distributed, into a CSV table."""
    _device("collectives", "cpu", None)
    import os

    from simulator.record import collectives

    settings = collectives.Settings(
        out=out,
        sizes=tuple(_bytes("--sizes", text) for text in sizes.split(",")) if sizes else collectives.SIZES,
        collectives=collectives.checked_collectives(names.split(",") if names else collectives.COLLECTIVES),
        repeats=repeats,
        backend=backend,
        device=device,
        resume=resume,
    )
    collectives.record_collectives(settings, processes)
    if processes is not None or os.environ.get("RANK") == "0":
        click.echo(f"{out}: written")


def _device(command: str, name: str, threads: int | None) -> str:
    """PyTorch's device, once it is clear that there is a PyTorch."""
    from simulator.record.environment import device_of, need_torch

    need_torch(command)
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    return device_of(name)


def _bytes(option: str, text: str) -> int:
    """A size with its unit. Raises InputError for anything else."""
    from simulator.errors import InputError, Problem
    from simulator.units import parse

    try:
        return max(1, round(parse(text, "size")))
    except ValueError as error:
        raise InputError(Problem(option, str(error), repr(text))) from None
