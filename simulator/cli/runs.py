"""`sparsim run`, `check`, `plan` and `collective`: one scenario, or one collective by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import click

from simulator.cli.arguments import (
    IGNORED,
    AsJson,
    Count,
    FileName,
    FiniteRange,
    Folder,
    GpuName,
    IgnoreMemory,
    Overrides,
    ScenarioName,
)
from simulator.cli.root import main, print_document, print_json, say
from simulator.cli.signatures import command, written
from simulator.errors import InputError, Problem
from simulator.files import as_yaml
from simulator.reporting.terminal.progress import watch_replays


@command(main)
def run(
    scenario: ScenarioName,
    *,
    overrides: Overrides,
    out: Annotated[Folder | None, "Folder to store the result in."],
    messages: Annotated[bool, "Also store messages.parquet in it: every message of one iteration."],
    full: Annotated[bool, "Print all figures: every term, traffic, density, memory, and the largest warnings."],
    ignore_memory: IgnoreMemory,
    as_json: AsJson,
) -> None:
    """Predict the time of one training iteration, and whether the method pays.

    Also shows where the time goes, and with --full what is sent, and the density of the gradients. SCENARIO is a YAML
    file or the name of a shipped one.

    The folder of --out gets result.json, scenario.yaml, traffic.csv (bytes between all pairs), links.csv where
    exchanges shared links, and with --messages messages.parquet (source, destination, nbytes, start_s, end_s,
    exchange). Its messages are those of one iteration in which every message is followed, as `fidelity: flows` does.

    Examples:
        sparsim run quickstart
        sparsim run quickstart --set sparsifier.density=0.01 --set cluster.nodes=16 --out results/nodes16
        sparsim run ring_check --messages --out results/ring
    """
    from simulator.studies.compare.opponent import run_with_comparison

    if messages and out is None:
        raise InputError(Problem("--messages", "--out FOLDER", "none", "messages are stored as a file in this folder"))
    with watch_replays():
        prediction = run_with_comparison(scenario, overrides + (IGNORED if ignore_memory else ()))
    if out is not None:
        from simulator.prediction.run_files import store

        store(out, prediction)
    if messages and out is not None:
        from simulator.api.simulating import follow_messages

        follow_messages(prediction.scenario, out / "messages.parquet")
    print_document(prediction.result, as_json, "full_run_blocks" if full else "run_blocks", "runs")


@command(main)
def check(scenario: ScenarioName, *, overrides: Overrides, as_json: AsJson) -> None:
    """Check a scenario and print it in full.

    Names are replaced by what they stand for, and defaults are written out. The digest identifies the scenario.

    Examples:
        sparsim check quickstart
        sparsim check my.yaml --set cluster.nodes=16
    """
    from simulator.prediction.run import plan_of
    from simulator.scenario.reading import load

    loaded = load(scenario, overrides)
    plan_of(loaded)
    if as_json:
        print_json({"digest": loaded.digest, "scenario": loaded.resolved()})
        return
    click.echo(f"# digest {loaded.digest}\n{as_yaml(loaded.resolved())}", nl=False)


@command(main)
def plan(
    scenario: ScenarioName,
    *,
    target: Annotated[
        str, "What is to be reached.", written("--for", metavar="'QUANTITY VALUE'")
    ] = "faster than dense",
    vary: Annotated[
        tuple[str, ...],
        "bandwidth, inner_steps, density, nodes; may be repeated. Default: all.",
        written(metavar="NAME"),
    ],
    samples: Annotated[float | None, FiniteRange(1, 1e18), "Samples of the training, for its time and cost."],
    price: Annotated[float | None, FiniteRange(0, 1e9, min_open=True), "What one GPU costs for an hour."],
    overrides: Overrides,
    ignore_memory: IgnoreMemory,
    as_json: AsJson,
) -> None:
    """Say what a scenario needs to meet a target.

    Without --for, the method is to be faster than dense at its best (with a value, so many times as fast).
    QUANTITY is compute utilisation, scaling efficiency, node efficiency (over one node by itself), speed-up (over one
    GPU), throughput or iteration time; with --samples also time, and with --price also cost, of the whole training.
    Bandwidth, local steps, density and number of nodes are each solved for while all else stays as in the scenario,
    with an interval that holds the answer in nine of ten cases, and the measurement that would narrow it most.

    Examples:
        sparsim plan quickstart
        sparsim plan quickstart --for 'scaling efficiency 80 %'
        sparsim plan quickstart --for 'time 3 days' --samples 1e9 --vary bandwidth
    """
    from simulator.scenario.reading import load
    from simulator.studies.planning.planning import plan_backwards
    from simulator.studies.planning.targets import Training
    from simulator.units import show_time

    def tell(seconds: float) -> None:
        say(f"this takes about {show_time(seconds)}; --vary NAME, of fewer unknowns, takes less", err=True)

    loaded = load(scenario, overrides + (IGNORED if ignore_memory else ()))
    made = plan_backwards(loaded, target, vary, Training(samples, price), tell)
    print_document(made, as_json, "plan_blocks", "studies")


@command(main)
def collective(
    kind: Annotated[
        Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "point_to_point"], "KIND"
    ],
    *,
    network: Annotated[str, FileName("network", "networks"), "Network, by its name or file."],
    gpu: Annotated[GpuName, "GPU, by its name or file."],
    nodes: Count,
    gpus_per_node: Count = 1,
    sizes: Annotated[
        tuple[str, ...],
        "Payload, such as '1 GiB'; may be repeated.  [default: a table from 64 KiB to 8 GiB]",
        written("--size", metavar="SIZE"),
    ],
    algorithm: Annotated[str | None, "As NCCL_ALGO: ring, or ^tree.  [default: NCCL's own choice]"],
    protocol: Annotated[str | None, "As NCCL_PROTO: LL,Simple, or ^LL128.  [default: NCCL's own choice]"],
    out: Annotated[Path | None, "FILE.csv: the table; FILE.png, .svg or .pdf: the bus bandwidth over the payload."],
    as_json: AsJson,
) -> None:
    """Price one collective of NCCL by itself.

    KIND is all_reduce, all_gather, reduce_scatter, all_to_all, broadcast or point_to_point (every GPU sends to the
    next one). Times are those that `run` would count for the same exchange on an idle network, with their 90 %
    interval. Payloads, algbw and busbw are those of nccl-tests.

    Examples:
        sparsim collective all_reduce --size '1 GiB' --network 400gb-h100-nodes --gpu h100 --nodes 2 --gpus-per-node 8
        sparsim collective all_gather --network slingshot-polaris --gpu a100 --nodes 8 --gpus-per-node 4
    """
    from simulator.models.exchange import Layout
    from simulator.prediction.collective import SIZES, price_collective, read_library
    from simulator.scenario.named_parts import read_gpu, read_part
    from simulator.units import read_quantity

    payloads = [read_quantity("--size", size, "size") for size in sizes] or SIZES
    library = read_library(algorithm=algorithm, protocol=protocol)
    layout = Layout(nodes, gpus_per_node)
    links, device = read_part(network, "networks"), read_gpu(gpu)
    answer = price_collective(kind, payloads, links, device, layout, library=library)
    if out is not None:
        from simulator.reporting.figures.making import write_collective

        write_collective(answer, out)
    print_document(answer, as_json, "collective_blocks", "runs")
