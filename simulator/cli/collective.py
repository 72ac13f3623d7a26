"""`sparsim collective`: one collective by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from simulator.cli.arguments import AsJson, Count, FileName, GpuName
from simulator.cli.root import main, print_document
from simulator.cli.signatures import command, written


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
    size: Annotated[
        str | None, "Payload, such as '1 GiB'.  [default: a table from 64 KiB to 8 GiB]", written(metavar="SIZE")
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

    sizes = SIZES if size is None else (read_quantity("--size", size, "size"),)
    library = read_library(algorithm=algorithm, protocol=protocol)
    layout = Layout(nodes, gpus_per_node)
    links, device = read_part(network, "networks"), read_gpu(gpu)
    answer = price_collective(kind, sizes, links, device, layout, library=library)
    if out is not None:
        from simulator.reporting.figures.collective import write_collective

        write_collective(answer, out)
    print_document(answer, as_json, "collective_blocks", "collective")
