"""`sparsim kernels`: what is known of every kernel on every GPU."""

from __future__ import annotations

from typing import Annotated, Any

import click

from simulator.cli.arguments import AsJson, GpuName
from simulator.cli.root import main, print_document
from simulator.cli.signatures import command


@command(main)
def kernels(
    gpus: Annotated[tuple[GpuName, ...], "[GPU]..."] = (),
    *,
    accuracy: Annotated[bool, "Also judge the estimates on GPUs and kernels that were left out."],
    rates: Annotated[bool, "Print what all GPUs say together as configs/kernel_rates.yaml stores it."],
    as_json: AsJson,
) -> None:
    """Show how the time of each kernel is known on each GPU.

    A kernel was timed on the GPU (measured), on other GPUs (transferred), or nowhere (estimated from what kernels like
    it take). Without arguments, all GPUs that come with the package; with --accuracy alone, only the errors.

    Examples:
        sparsim kernels a100
        sparsim kernels --accuracy
        sparsim kernels --json
    """
    from simulator.calibration.kernel_rates import learn_rates, rates_yaml, shipped_measurements
    from simulator.calibration.kernel_table import accuracy_rows, kernel_rows
    from simulator.scenario.named_parts import read_gpu, shipped_gpus

    if rates:
        click.echo(rates_yaml(learn_rates(shipped_measurements())), nl=False)
        return
    chosen = {name: read_gpu(name) for name in gpus} if gpus else {} if accuracy else shipped_gpus()
    document: dict[str, Any] = {"kernels": kernel_rows(chosen)}
    if accuracy:
        document |= accuracy_rows()
    print_document(document, as_json, "kernels_blocks", "kernels")
