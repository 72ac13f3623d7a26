"""`sparsim list`: what a scenario can name, and what is known of GPUs, models and files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import click

from simulator.answers import schema_of
from simulator.cli.arguments import SET, AsJson, GpuName, ModelName, OutFolder, Shape
from simulator.cli.root import main, print_document, print_json, say
from simulator.cli.signatures import command, written
from simulator.errors import InputError, Problem
from simulator.files import write_text
from simulator.records import asdict

LISTED = {
    "kinds": "Sparsifiers, topologies, schedulers and fabrics (default).",
    "workloads": "Models, with their sizes and the GPU that timed them.",
    "gpus": "GPUs, with their memory and rates.",
    "networks": "Networks, with their bandwidth and latency.",
    "runtimes": "Runtimes of training frameworks.",
    "scenarios": "Scenarios, with the question of each.",
    "sweeps": "Sweeps, with the question of each.",
    "papers": "Papers whose experiments can be set up again.",
    "traces": "Recorded and generated gradients.",
    "aliases": "Names that people use, and what they mean here.",
    "trainings": "Trainings with several methods, for `sparsim quality`.",
}
"""What is listed; all but the first are read by `simulator.scenario.catalogue`, which is slow to import."""


@main.group("list", invoke_without_command=True)
def list_(*, as_json: AsJson) -> None:
    """List what a scenario can name.

    Files in ./configs and ./scenarios are listed, too.

    Examples:
        sparsim list
        sparsim list gpus
        sparsim list workloads --json
    """
    context = click.get_current_context()
    if context.invoked_subcommand is None:
        _list("kinds", as_json)
    else:  # --json before what is listed
        context.default_map = {context.invoked_subcommand: {"as_json": as_json}}


def _list(what: str, as_json: bool) -> None:
    if what == "kinds":
        from simulator.scenario.catalogue import kinds

        print_document(kinds(), as_json, "kinds_blocks", "listing")
        return
    from simulator.scenario.catalogue import list_shipped

    print_document({what: list_shipped(what)}, as_json, "shipped_blocks", "listing")


def _add(what: str, summary: str) -> None:
    @list_.command(what, help=f"{summary}\n\nExamples:\n    sparsim list {what}")
    def show(*, as_json: AsJson) -> None:
        _list(what, as_json)


for _what, _summary in LISTED.items():
    _add(_what, _summary)


@command(list_)
def list_figures(*, as_json: AsJson) -> None:
    """Figures of `sparsim report`, and what they are drawn from.

    Examples:
        sparsim list figures
    """
    from simulator.reporting.figures.base import figures
    from simulator.reporting.figures.data.sources import KINDS

    if as_json:
        rows = [
            {"kind": k, "title": f.title, "question": f.question, "takes": list(f.takes), "columns": f.columns}
            for k, f in figures().items()
        ]
        print_json({"figures": rows})
        return
    for kind, member in figures().items():
        say(f"{kind}: {member.question}", indent="    ")
        for source in member.takes:
            say(f"    from {KINDS[source]}", indent="        ")


@command(list_)
def list_kernels(
    gpus: Annotated[tuple[GpuName, ...], "[GPU]..."] = (),
    *,
    accuracy: Annotated[bool, "Also judge the estimates on GPUs and kernels that were left out."],
    rates: Annotated[bool, "Print what all GPUs say together as configs/kernel_rates.yaml stores it."],
    as_json: AsJson,
) -> None:
    """Kernels, and how the time of each is known on each GPU.

    A kernel was timed on the GPU (measured), on other GPUs (transferred), or nowhere (estimated from what kernels like
    it take). Without arguments, all GPUs that come with the package; with --accuracy alone, only the errors.

    Examples:
        sparsim list kernels a100
        sparsim list kernels --accuracy
        sparsim list kernels --json
    """
    from simulator.calibration.kernel_rates import (
        accuracy_rows,
        kernel_rows,
        learn_rates,
        rates_yaml,
        shipped_measurements,
    )
    from simulator.scenario.named_parts import read_gpu, shipped_gpus

    if rates:
        learned = learn_rates(shipped_measurements())
        if as_json:
            print_json(asdict(learned))
        else:
            click.echo(rates_yaml(learned), nl=False)
        return
    chosen = {name: read_gpu(name) for name in gpus} if gpus else {} if accuracy else shipped_gpus()
    document: dict[str, Any] = {"kernels": kernel_rows(chosen)}
    if accuracy:
        document |= accuracy_rows()
    print_document(document, as_json, "kernels_blocks", "listing")


@command(list_)
def list_workload(
    model: ModelName,
    *,
    gpu: Annotated[GpuName | None, "GPU whose times are estimated; none: only sizes and arithmetic."],
    batch_size: Annotated[int | None, click.IntRange(1, 10**9), "Samples of a step.", written("--batch")],
    overrides: Annotated[tuple[str, ...], "Replace a key of the workload.", SET],
    shape: Shape = "",
    out: Annotated[Path | None, "YAML file to write, which a scenario can name as its workload."],
    as_json: AsJson,
) -> None:
    """A model: what it consists of and how long it computes.

    MODEL is a shipped workload, a YAML file, the config.json of a model, or your own PyTorch model: FILE.py:FUNCTION,
    MODULE:FUNCTION, torchvision:NAME or transformers:NAME (extra: pip install "sparsim[torch]"). Own models are built
    on PyTorch's meta device: without memory, data or GPU. Prints tensors, arithmetic, times on a GPU, activations,
    and what each number rests on.

    Examples:
        sparsim list workload workloads/llama3-8b --gpu gpus/h100
        sparsim list workload workloads/gpt2 --gpu gpus/a100 --batch 16 --set sequence=512
        sparsim list workload workloads/resnet50-v100
    """
    from simulator.architectures.describing import write_workload
    from simulator.architectures.summary import summarise
    from simulator.engine.refusals import as_input_error
    from simulator.scenario.named_parts import read_gpu, read_workload, with_overrides

    if ":" in model and not Path(model).is_file():
        from simulator.record.environment import need_torch

        need_torch("list workload")
        from simulator.record.meta import describe_model

        loaded = with_overrides(describe_model(model, shape or None, batch_size), overrides)
    elif shape:
        raise InputError(Problem("--input", "your own model, such as model.py:function", model))
    else:
        loaded = read_workload(model, overrides, batch_size)
    chosen = read_gpu(gpu) if gpu is not None else None
    with as_input_error(f"{model} on {gpu}"):
        document = summarise(loaded, chosen)
    if out is not None:
        write_workload(out, loaded)
    print_document(document, as_json, "workload_blocks", "listing")


@command(list_)
def list_schemas(*, out: OutFolder = Path("configs/schema")) -> None:
    """JSON Schemas of scenarios, configs and results, as files.

    Editors check and complete YAML files with them; programs read the units of results.

    Examples:
        sparsim list schemas --out schema
    """
    from simulator.prediction.result import RunResult
    from simulator.scenario.catalogue import schemas
    from simulator.studies.quality.trainings import study_schema
    from simulator.studies.sweep.points import sweep_schema

    others = {"sweep": sweep_schema(), "trainings": study_schema(), "result": schema_of(RunResult)}
    for name, document in (schemas() | others).items():
        write_text(out / f"{name}.json", json.dumps(document, indent=2, ensure_ascii=False) + "\n")
