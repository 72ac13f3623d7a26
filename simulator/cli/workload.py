"""`sparsim workload` and `calibrate operators`: what a model consists of, and how long it computes."""

from __future__ import annotations

from pathlib import Path

import click

from simulator.cli.arguments import AS_JSON, FILE, GPU, FileName
from simulator.cli.calibration import calibrate
from simulator.cli.root import main, print_document

_MODEL = FileName("model", "workloads")


@main.command(
    examples="""
    sparsim workload workloads/llama3-8b --gpu gpus/h100
    sparsim workload workloads/gpt2 --gpu gpus/a100 --batch 16 --set sequence=512
    sparsim workload workloads/resnet50-v100
"""
)
@click.argument("model", type=_MODEL)
@click.option("--gpu", type=GPU, help="GPU whose times are estimated; none: only sizes and arithmetic.")
@click.option("--batch", "batch_size", type=click.IntRange(1, 10**9), help="Samples of a step.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Replace a key of the workload.")
@click.option("--input", "shape", help="Shape of one sample of your own model: 3x224x224 or tokens:128.")
@click.option("--out", type=FILE, help="YAML file to write, which a scenario can name as its workload.")
@AS_JSON
def workload(
    *,
    model: str,
    gpu: str | None,
    batch_size: int | None,
    overrides: tuple[str, ...],
    shape: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Show what a model consists of and how long it computes.

    MODEL is a shipped workload, a YAML file, the config.json of a model, or your own PyTorch model: FILE.py:FUNCTION,
    MODULE:FUNCTION, torchvision:NAME or transformers:NAME (extra: pip install "sparsim[torch]"). Own models are built
    on PyTorch's meta device: without memory, data or GPU. Prints tensors, arithmetic, times on a GPU, activations,
    and what each number rests on.
    """
    from simulator.architectures.summary import summarise
    from simulator.engine.refusals import as_input_error
    from simulator.errors import InputError, Problem
    from simulator.scenario.named_parts import read_gpu
    from simulator.scenario.workload_reading import read_workload, with_overrides
    from simulator.studies.storage.workload_files import write_workload

    if ":" in model and not Path(model).is_file():
        from simulator.record.environment import need_torch

        need_torch("workload")
        from simulator.record.meta import describe_model

        loaded = with_overrides(describe_model(model, shape, batch_size), overrides)
    elif shape is not None:
        raise InputError(Problem("--input", "your own model, such as model.py:function", model))
    else:
        loaded = read_workload(model, overrides, batch_size)
    chosen = read_gpu(gpu) if gpu is not None else None
    with as_input_error(f"{model} on {gpu}"):
        document = summarise(loaded, chosen)
    if out is not None:
        write_workload(out, loaded)
    print_document(document, as_json, "workload_blocks", "workload")


@calibrate.command(
    name="operators",
    examples="""
    sparsim calibrate operators operators.csv --out configs/operator_rates.yaml
""",
)
@click.argument("measured", type=FILE)
@click.option("--out", required=True, type=FILE, help="Rates to write.")
@click.option("--source", default="", help="Origin of the measurements, in words, for the file.")
def calibrate_operators(measured: Path, out: Path, source: str) -> None:
    """Fit how operators of models run on GPUs.

    MEASURED is a CSV table of timings in fp32: device, fp32_rate, memory_bandwidth, multiprocessors (of its data
    sheet), model, measurement (what was timed together), kind (product, streaming or rows), batch, m, n, k, nbytes and
    seconds.
    Prints predicted over measured time of each model, from the other GPUs and from the other models.
    """
    from simulator.calibration.operator_priors import operator_rates_yaml, with_convolutions, with_tensor_cores
    from simulator.calibration.operators import fit_operators, read_operators
    from simulator.files import write_text

    fit = fit_operators(read_operators(measured))
    for (device, model), ratio in fit.other_gpu.items():
        other = fit.other_model[device, model]
        click.echo(f"{device}, {model}: {ratio:.2f} from other GPUs, {other:.2f} from other models")
    write_text(out, operator_rates_yaml(with_convolutions(with_tensor_cores(fit.rates)), source))
    click.echo(f"{out}: written")
