"""`sparsim workload` and `calibrate operators`: what a model consists of, and how long it computes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click

from simulator.cli.arguments import SET, AsJson, GpuName, ModelName
from simulator.cli.calibration import calibrate
from simulator.cli.root import main, print_document
from simulator.cli.signatures import command, written
from simulator.errors import InputError, Problem


@command(main)
def workload(
    model: ModelName,
    *,
    gpu: Annotated[GpuName | None, "GPU whose times are estimated; none: only sizes and arithmetic."],
    batch_size: Annotated[int | None, click.IntRange(1, 10**9), "Samples of a step.", written("--batch")],
    overrides: Annotated[tuple[str, ...], "Replace a key of the workload.", SET],
    shape: Annotated[str | None, "Shape of one sample of your own model: 3x224x224 or tokens:128.", written("--input")],
    out: Annotated[Path | None, "YAML file to write, which a scenario can name as its workload."],
    as_json: AsJson,
) -> None:
    """Show what a model consists of and how long it computes.

    MODEL is a shipped workload, a YAML file, the config.json of a model, or your own PyTorch model: FILE.py:FUNCTION,
    MODULE:FUNCTION, torchvision:NAME or transformers:NAME (extra: pip install "sparsim[torch]"). Own models are built
    on PyTorch's meta device: without memory, data or GPU. Prints tensors, arithmetic, times on a GPU, activations,
    and what each number rests on.

    Examples:
        sparsim workload workloads/llama3-8b --gpu gpus/h100
        sparsim workload workloads/gpt2 --gpu gpus/a100 --batch 16 --set sequence=512
        sparsim workload workloads/resnet50-v100
    """
    from simulator.architectures.summary import summarise
    from simulator.engine.refusals import as_input_error
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


@command(calibrate)
def calibrate_operators(
    measured: Path,
    *,
    out: Annotated[Path, "Rates to write."],
    source: Annotated[str, "Origin of the measurements, in words, for the file."] = "",
    trainings: Annotated[
        tuple[str, ...], "Scenarios of measured trainings in 16 bits; without them those rates stay."
    ] = (),
    trainings_source: Annotated[str, "Origin of the trainings, in words."] = "",
) -> None:
    """Fit how operators of models run on GPUs.

    MEASURED is a CSV table of timings in fp32: device, fp32_rate, memory_bandwidth, multiprocessors (of its data
    sheet), model, measurement (what was timed together), kind (product, streaming or rows), batch, m, n, k, nbytes and
    seconds.
    Prints predicted over measured time of each model, from the other GPUs and from the other models.

    Examples:
        sparsim calibrate operators operators.csv --out configs/operator_rates.yaml
    """
    from simulator.calibration.operator_priors import operator_rates_yaml, with_convolutions, with_tensor_cores
    from simulator.calibration.operators import fit_operators, read_operators
    from simulator.errors import InputError
    from simulator.files import write_text
    from simulator.hardware.operator_times import shipped_operator_rates
    from simulator.records import replace
    from simulator.studies.fit.measured_input import read_measured
    from simulator.studies.fit.tensor_cores import fit_tensor_cores, read_trainings

    fit = fit_operators(read_operators(measured))
    for (device, model), ratio in fit.other_gpu.items():
        other = fit.other_model[device, model]
        click.echo(f"{device}, {model}: {ratio:.2f} from other GPUs, {other:.2f} from other models")
    known = shipped_operator_rates()
    rates = replace(fit.rates, edge=known.edge, tensor_devices=known.tensor_devices)
    if trainings:
        found = read_measured(trainings)
        if found.problems:
            raise InputError(found.problems)
        rates = fit_tensor_cores(read_trainings(found.scenarios), rates, trainings_source)
    write_text(out, operator_rates_yaml(with_convolutions(with_tensor_cores(rates)), source))
    click.echo(f"{out}: written")
