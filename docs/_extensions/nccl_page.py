"""The generated page with what NCCL is predicted to reach over nodes, NICs and payloads."""

from __future__ import annotations

import numpy as np
from markup import page, table

from simulator.component import build
from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.prices import price_steps
from simulator.fabrics.base import Fabric
from simulator.models.exchange import AllReduce, Layout
from simulator.topologies.base import Topology

_GPUS = 8
_SIZES = tuple(2**power for power in (13, 16, 20, 24, 27, 30, 33))
_MACHINES = {
    "A100": ("12 NVLinks of 20 GB/s to an NVSwitch, NICs of 200 Gbit/s", 24e9, 12 * 20e9),
    "H100": ("18 NVLinks of 20.6 GB/s to an NVSwitch, NICs of 400 Gbit/s", 48.5e9, 18 * 20.6e9),
}
"""Per GPU: the machine in words, what a NIC carries after headers, and what a GPU's NVLinks carry (bytes/s)."""


def nccl() -> str:
    """Predicted bus bandwidth of all-reduces over nodes, NICs and payloads, with the algorithm that NCCL chooses."""
    parts = []
    for device, (machine, nic, inside) in _MACHINES.items():
        rows = [_row(device, nic, inside, (nodes, nics)) for nodes in (1, 2, 8, 32, 256) for nics in (1, 4, 8)]
        parts += [
            f"## {_GPUS} {device} in a node",
            f"{machine}.",
            table(("nodes", "NICs", *map(_size, _SIZES)), [row for row in rows if row]),
        ]
    return page(
        "# What NCCL chooses and reaches",
        "All-reduces by `topology: nccl` on machines that are described by their hardware alone, without any "
        "measurement: bus bandwidth in GB/s, 2 (p - 1) / p times the payload over the time, and the algorithm and "
        "protocol that NCCL's model chooses (version 2.30). Bus bandwidth is what nccl-tests print; on a ring it is "
        "the rate of the busiest link. A GPU or NIC of your own gives other figures: describe it as a network, and "
        "`sparsim run SCENARIO --json` states choice and reason in `collectives`.",
        *parts,
    )


def _row(device: str, nic: float, inside: float, shape: tuple[int, int]) -> list[str]:
    """One line of the table; one node has no NICs in use, and one line."""
    nodes, nics = shape
    if nodes == 1 and nics > 1:
        return []
    layout = Layout(nodes, _GPUS)
    fabric = build(
        Fabric,
        {
            "kind": "single_switch",
            "bandwidth": nic,
            "latency": 3e-6,
            "nics_per_node": nics,
            "intra_node": {"bandwidth": inside, "latency": 3e-6},
        },
    )
    topology = build(Topology, "nccl")
    network = NetworkSetup(topology, fabric, fabric.wire(layout), device=device)
    seconds = price_steps([AllReduce(size) for size in _SIZES], (), network).seconds
    sizes = np.array(_SIZES, dtype=float)
    label = [""] * len(_SIZES)
    for choice in topology.choices("all_reduce", sizes, layout, network.machine):
        for place in np.flatnonzero(choice.mask).tolist():
            label[place] = choice.label
    bus = 2 * (layout.workers - 1) / layout.workers * sizes / seconds / 1e9
    cells = [f"{rate:.3g} {name.replace('_', ' ')}" for rate, name in zip(bus, label, strict=True)]
    return [str(nodes), str(nics) if nodes > 1 else "-", *cells]


def _size(nbytes: int) -> str:
    return next(
        f"{nbytes >> power} {unit}" for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")) if nbytes >> power
    )
