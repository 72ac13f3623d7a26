"""NCCL's own model of the time of a collective, by which it chooses algorithm and protocol, and its constants."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from simulator.component import Spec
from simulator.hardware.machine import PROTOCOLS, Generation, Machine
from simulator.models.curves import Floats
from simulator.models.exchange import Layout
from simulator.records import Record
from simulator.units import BytesPerSecond, Seconds

ALGORITHMS = ("tree", "ring", "collnet", "nvls", "nvls_tree", "pat")
TREE, RING, COLLNET, NVLS, NVLS_TREE, PAT = range(len(ALGORITHMS))
LL, LL128, SIMPLE = range(len(PROTOCOLS))


class Tables(Record, eq=False):
    """Seconds by algorithm and protocol (6, 3): start-up of a call, and of a step over each kind of link.

    `ring_ll`: share of a ring's bandwidth that LL reaches. `every_node`: whether an all-reduce by ring is counted with
    two steps between nodes for every node, or for every node but one. `algorithms`: those that the version has.
    """

    base: Floats
    hop: dict[str, Floats]
    ring_ll: float
    every_node: bool
    algorithms: tuple[str, ...]


def _microseconds(text: str) -> Floats:
    """Rows of numbers in the order of ALGORITHMS, columns in that of PROTOCOLS, as seconds."""
    return 1e-6 * np.array([[float(number) for number in row.split()] for row in text.split("|")])


# Sources: NVIDIA/nccl, src/graph/tuning.cc of 2.6.4 (2020), 2.20 (2024) and 2.30.7 (2025). Order of the rows: tree,
# ring, CollNet direct, NVLS, NVLS tree, PAT.
_NONE = "0 0 0|0 0 0|0 0 0|0 0 0"
_SWITCHED = "0 0 3.7|0 0 23|0 0 23|0 0 4"
BY_VERSION = {
    (2, 0): Tables(
        _microseconds(f"4.4 4.4 0|3.6 3.6 8.4|{_NONE}"),
        {
            "nvlink": _microseconds(f".5 1.9 28|.4 2.5 5.7|{_NONE}"),
            "pci": _microseconds(f"1.0 1.9 28|1.0 2.5 5.7|{_NONE}"),
            "net": _microseconds(f"5.0 7.5 50|.9 2.5 6.6|{_NONE}"),
        },
        0.25,
        True,
        ("tree", "ring"),
    ),
    (2, 12): Tables(
        _microseconds(f"6.8 14.0 0|6.6 14.0 8.4|{_NONE}"),
        {
            "nvlink": _microseconds(f".6 1.25 28|.6 1.9 3.4|{_SWITCHED}"),
            "pci": _microseconds(f"1.0 1.9 28|1.0 2.5 5.7|{_SWITCHED}"),
            "net": _microseconds("5.0 8.5 28|2.7 4.0 14.0|0 0 31|0 0 18|0 0 14|0 0 14"),
        },
        0.25,
        True,
        ("tree", "ring", "collnet", "nvls", "nvls_tree"),
    ),
    (2, 22): Tables(
        _microseconds("6.8 14.0 8.4|6.6 14.0 8.4|0 0 0|0 0 0|0 0 0|8 8 8"),
        {
            "nvlink": _microseconds(".6 1.25 4.0|.6 1.9 3.4|0 0 3.7|0 0 25|0 0 25|0 0 4"),
            "pci": _microseconds("1.0 1.9 4.0|1.0 2.5 5.7|0 0 3.7|0 0 0|0 0 0|0 0 4"),
            "net": _microseconds("5.0 8.5 14|2.7 4.0 14.0|0 0 31|0 0 18|0 0 20.9|0 0 14"),
        },
        0.5,
        False,
        ALGORITHMS,
    ),
}
NEWEST = "2.30"

POST = {"intel": 1e-6, "amd": 2e-6}  # seconds to post one message to the network; three times as much for Simple

# Highest rate of LL over all channels, in bytes per second: on one node; on two nodes, and on more.
LL_MOST_INSIDE = {"volta": 39.0e9, "ampere": 87.7e9, "hopper": 141.0e9, "blackwell": 282.0e9}
LL_MOST_ACROSS = {"intel": (39.0e9, 20.4e9), "amd": (22.5e9, 19.0e9)}
# Highest rate of one channel, in bytes per second: on one node, on two, and on more.
RING_LL128 = {"volta": 20.0e9, "ampere": 20.0e9, "hopper": 36.7e9, "blackwell": 40.0e9}
TREE_LL128 = {
    "volta": (20.0e9, 20.0e9, 20.0e9),
    "ampere": (20.0e9, 20.0e9, 20.0e9),
    "hopper": (36.7e9, 36.7e9, 29.0e9),
    "blackwell": (55.6e9, 31.67e9, 20.0e9),
}
TREE_MOST = {
    "volta": (26.5e9, 18.5e9, 10.0e9),
    "ampere": (24.0e9, 23.6e9, 17.8e9),
    "hopper": (38.7e9, 41.4e9, 36.0e9),
    "blackwell": (70.0e9, 42.8e9, 24.0e9),
}
NVLS_EFFICIENCY = {"volta": 0.0, "ampere": 0.0, "hopper": 0.85, "blackwell": 0.74}
"""Share of the NVLink rate that sums in the switch reach; 0: the switch cannot add."""
TREE_EFFICIENCY, LINES_EFFICIENCY, COLLNET_EFFICIENCY, PAT_EFFICIENCY = 0.92, 0.92, 0.85, 0.75
"""Shares of the links' rate that trees, rings by LL128, CollNet on Hopper and PAT reach."""

# Share of a tree's bandwidth that is left at 64 B, 128 B, ..., 512 MiB, by protocol.
TREE_LEFT = np.array(
    [
        [float(share) for share in row.split()]
        for row in (
            "1 1 1 1 .9 .8 .7 .7 .7 .7 .6 .5 .4 .4 .5 .6 .7 .8 .9 1 1 1 1 1",
            "1 1 1 1 1 .9 .8 .8 .8 .7 .6 .6 .6 .6 .6 .6 .8 .9 .9 .9 .9 1 1 1",
            ".9 .9 .9 .9 .9 .9 .9 .8 .7 .6 .6 .5 .5 .5 .5 .6 .7 .8 .7 .7 .8 .9 .9 .9",
        )
    ]
)


def tables_of(version: str) -> Tables:
    """The tables of a version of NCCL such as 2.18 or 2.18.3: those of the newest known version up to it."""
    wanted = _release(version)
    return BY_VERSION[max(known for known in BY_VERSION if known <= max(wanted, (2, 0)))]


def has_ll128(version: str, gpu: Generation) -> bool:
    """Whether a version of NCCL such as 2.14 takes LL128 by itself on GPUs of this generation.

    Up to 2.14 compute capabilities 7.0 and 8.0 only (NVIDIA/nccl, src/graph/tuning.cc, 2.13 of 2022), 9.0 as well since
    the first version for it (2.15; the file of 2.16.5, 2023).
    """
    return gpu in ("volta", "ampere") or _release(version) >= (2, 15)


def _release(version: str) -> tuple[int, ...]:
    """Major and minor number of a version."""
    return tuple(int(part) for part in version.split(".")[:2])


def tree_left(nbytes: Floats) -> Floats:
    """Share of a tree's bandwidth (3, b) that is left for payloads (b,), by protocol; 1 outside of the table."""
    power = np.floor(np.log2(np.maximum(nbytes, 1.0) / 64)).astype(np.int64)
    known = (power >= 0) & (power < TREE_LEFT.shape[1])
    return np.where(known, TREE_LEFT.take(power, axis=1, mode="clip"), 1.0)


_LINK = 20e9  # rate that NCCL gives one channel over NVLink (src/graph/topo.h: 20 GB/s for a link of V100 and A100)
_TWO_CHANNELS = 20e9


class NcclTuning(Spec):
    """What NCCL knows about the machines when it chooses the smallest time = latency + bytes / bandwidth.

    Whatever is left out follows from the cluster: its GPUs, NICs and the links inside a node. The constants are those
    of NVIDIA/nccl, src/graph/tuning.cc, of the newest known version up to `version` (2.6, 2.20 or 2.30.7).

    - `version`: of NCCL, for example 2.18.
    - `gpu`: generation of the GPUs; `cdna`: AMD's, on which RCCL runs.
    - `cpu`: vendor of the CPUs.
    - `intra`: links between the GPUs of a node.
    - `channels`: number that NCCL opens.
    - `intra_bandwidth`: what all channels together carry inside a node; NCCL uses it for two nodes as well.
    - `inter_bandwidth`: what they carry across nodes; the same as inside if only that one is given.
    - `net_latency`: start-up of the network, added to NCCL's constants.
    - `ll128`: whether NCCL uses LL128; it does over NVLink, with GPUs of one kind and NICs near them, on Hopper and
      later GPUs since 2.15.
    - `nvls`: whether sums are made in the NVSwitch, on GPUs from Hopper on.
    - `sharp`: whether sums are made in the switches between nodes (CollNet over InfiniBand SHARP).
    """

    version: str | None = Field(default=None, pattern=r"^\d+\.\d+(\.\d+)?$")
    gpu: Generation | None = None
    cpu: Literal["intel", "amd"] = "intel"
    intra: Literal["nvlink", "pci"] | None = None
    channels: int | None = Field(default=None, ge=1, le=64)
    intra_bandwidth: BytesPerSecond | None = None
    inter_bandwidth: BytesPerSecond | None = None
    net_latency: Seconds = 0.0
    ll128: bool | None = None
    nvls: bool | None = None
    sharp: bool = False

    def knowledge(self, machine: Machine, layout: Layout) -> Knowledge:
        """What NCCL knows, with everything that is not given taken from the hardware."""
        gpu, intra = self.gpu or machine.generation, self.intra or machine.inside
        rccl = gpu == "cdna"
        gpu = "ampere" if gpu == "cdna" else gpu  # RCCL states no highest rates: those of Ampere are assumed
        ring, tree = _inside(machine)
        if self.intra_bandwidth is not None:
            ring = tree = self.intra_bandwidth
        across = self.inter_bandwidth or self.intra_bandwidth
        across = across or min(machine.nics * machine.reported, max(ring, tree))
        if layout.nodes > 1 and (layout.nodes > 2 or self.intra_bandwidth is None):
            ring = tree = across
        channels = self.channels or _channels(machine, layout, max(ring, tree))
        version = self.version or machine.terms.version or NEWEST
        near = (intra == "nvlink" or layout.gpus_per_node == 1) and has_ll128(version, gpu)
        ll128 = machine.terms.ll128 if self.ll128 is None else self.ll128
        switched = machine.switched and NVLS_EFFICIENCY[gpu] > 0 and layout.gpus_per_node > 1
        return Knowledge(
            tables_of(version),
            gpu,
            self.cpu,
            intra,
            channels,
            ring,
            tree,
            machine.port,
            self.net_latency,
            near if ll128 is None else ll128,
            switched if self.nvls is None else self.nvls,
            self.sharp,
            rccl,
        )


def _inside(machine: Machine) -> tuple[float, float]:
    """What rings and trees carry inside a node."""
    if machine.chains and not machine.cycles:
        return machine.host or 0.1 * machine.port, sum(share for _, share in machine.chains) * machine.port
    both = machine.port * (sum(share for _, share in machine.cycles) if machine.cycles else 1.0)
    return both, both


def _channels(machine: Machine, layout: Layout, bandwidth: float) -> int:
    """About as many channels as NCCL's search finds: two for each NIC of 200 Gbit/s or more, or one for each NVLink."""
    if layout.nodes > 1:
        return min(32, machine.nics * (2 if machine.reported >= _TWO_CHANNELS else 1))
    return max(1, min(32, round(bandwidth / _LINK)))


class Knowledge(Record):
    """What NCCL knows of the machines: the fields of `NcclTuning`, none of them open, and the tables of its version.

    `ring` and `tree` are what their channels carry together, `port` what one GPU sends inside its node (bytes/s).
    `rccl`: the library is AMD's, which has neither PAT, unless asked for, nor trees by Simple in one node (ROCm/rccl,
    src/graph/tuning.cc, 2025).
    """

    tables: Tables
    gpu: Generation
    cpu: Literal["intel", "amd"]
    intra: Literal["nvlink", "pci"]
    channels: int
    ring: float
    tree: float
    port: float
    net_latency: float
    ll128: bool
    nvls: bool
    sharp: bool
    rccl: bool = False

    @property
    def plateau(self) -> float:
        """How much longer the start-up of a ring by Simple between nodes is with more than a few bytes."""
        return 1.0 if self.rccl else 1.9 if self.gpu == "volta" else 1.4

    def available(self, primitive: str, layout: Layout) -> npt.NDArray[np.bool_]:
        """Which algorithms and protocols (6, 3) NCCL has for a primitive on these machines."""
        made = np.zeros((len(ALGORITHMS), len(PROTOCOLS)), dtype=bool)
        several, gathers = layout.nodes > 1, primitive in ("all_gather", "reduce_scatter")
        made[RING] = True
        made[TREE] = primitive == "all_reduce"
        made[COLLNET, SIMPLE] = self.sharp and several and primitive == "all_reduce"
        made[NVLS, SIMPLE] = self.nvls and not several and (primitive == "all_reduce" or gathers)
        made[NVLS_TREE, SIMPLE] = self.nvls and several and primitive == "all_reduce"
        made[PAT, SIMPLE] = several and gathers and layout.gpus_per_node == 1
        if self.rccl:
            made[PAT], made[TREE, SIMPLE] = False, made[TREE, SIMPLE] and several
        made[[name not in self.tables.algorithms for name in ALGORITHMS]] = False
        if not self.ll128:
            made[:, LL128] = False
        return made

    def latency(self, primitive: str, layout: Layout) -> Floats:
        """Start-up of the whole collective (6, 3), as NCCL counts its steps."""
        nodes, each, tables = layout.nodes, layout.gpus_per_node, self.tables
        inside, net = tables.hop[self.intra], tables.hop["net"]
        # With one GPU per node nothing hides the hops of a ring, and NCCL uses the latency of the tree's.
        net = net[[TREE if each == 1 and row == RING else row for row in range(len(ALGORITHMS))]]
        net = net + self.net_latency * np.array([1, 1, 2])
        if tables.every_node and primitive == "all_reduce" and nodes > 1:
            across = 2 * nodes
        else:
            across = (2 if primitive == "all_reduce" else 1) * (nodes - 1)
        post = POST[self.cpu] * np.array([1, 1, 3]) if nodes > 1 else np.zeros(3)
        hop = inside.copy()
        hop[RING] = np.maximum(hop[RING], post)
        return start_up(tables.base, (hop, net), primitive, layout, across)

    def bandwidth(self, primitive: str, layout: Layout) -> Floats:
        """Bytes of payload per second, (6, 3)."""
        nodes, ranks, channels, gpu = layout.nodes, layout.workers, self.channels, self.gpu
        scale = min(nodes, 3) - 1
        passes = {"all_reduce": 2 * (ranks - 1), "broadcast": ranks, "reduce": ranks}.get(primitive, ranks - 1)
        made = np.zeros((len(ALGORITHMS), len(PROTOCOLS)))
        rates = ring_rates(self, layout)
        made[RING] = rates * ranks / max(1, passes)
        made[TREE] = tree_rates(self, layout) / 2
        switch = NVLS_EFFICIENCY[gpu] * self.port
        made[NVLS, SIMPLE] = 5 / 6 * switch
        whole = min(TREE_EFFICIENCY * self.tree, channels * TREE_MOST[gpu][scale])
        made[NVLS_TREE, SIMPLE] = min(5 / 6 * switch, whole / 2 if nodes > 2 else 5 / 6 * self.tree)
        made[COLLNET, SIMPLE] = COLLNET_EFFICIENCY * self.tree
        made[PAT, SIMPLE] = PAT_EFFICIENCY * self.ring * ranks / max(1, passes)
        return made


def ring_rates(known: Knowledge, layout: Layout) -> Floats:
    """Bytes per second (3,) that the rings carry by each protocol."""
    scale, bus = min(layout.nodes, 3) - 1, known.ring
    most = LL_MOST_ACROSS[known.cpu][scale - 1] if scale else LL_MOST_INSIDE[known.gpu]
    lines = min(LINES_EFFICIENCY * bus, known.channels * RING_LL128[known.gpu])
    return np.array([min(most, known.tables.ring_ll * bus), lines, bus])


def tree_rates(known: Knowledge, layout: Layout) -> Floats:
    """Bytes per second (3,) that the trees carry by each protocol, twice the payload's."""
    scale, gpu, channels = min(layout.nodes, 3) - 1, known.gpu, known.channels
    most = LL_MOST_ACROSS[known.cpu][scale - 1] if scale else LL_MOST_INSIDE[gpu]
    whole = min(TREE_EFFICIENCY * known.tree, channels * TREE_MOST[gpu][scale])
    lines = min(whole * (120 / 128 if scale else 7 / 9), channels * TREE_LL128[gpu][scale])
    return np.array([min(whole / 3.8, most), lines, whole]) * (0.85 if layout.gpus_per_node == 1 else 1.0)


def start_up(base: Floats, hops: tuple[Floats, Floats], primitive: str, layout: Layout, across: float) -> Floats:
    """Seconds (6, 3) that a collective takes for no bytes, by algorithm and protocol.

    `base` (6, 3) is that of a call, and `hops` those of a step inside and between nodes; a ring makes `across` of its
    steps between nodes. Trees: 2 (g - 1) steps inside a node and 2 log2(N) between N nodes of g GPUs; NVLS: one
    step; PAT: log2(N) steps and 2.8 of every rank inside (NVIDIA/nccl, src/graph/tuning.cc, v2.30.7, 2025).
    """
    inside, net = hops
    nodes, each, levels = layout.nodes, layout.gpus_per_node, layout.nodes.bit_length() - 1
    steps = (2 if primitive == "all_reduce" else 1) * (layout.workers - 1)
    made = np.zeros_like(base)
    if primitive in ("broadcast", "reduce"):
        made[RING] = (inside if nodes == 1 else net)[RING]
    else:
        made[RING] = max(0, steps - across) * inside[RING] + across * net[RING]
    made[TREE] = 2 * ((each - 1) * inside[TREE] + levels * net[TREE])
    made[COLLNET] = 2 * (min(1, each - 1) * inside[COLLNET] + (each - 1) * 0.4e-6) + net[COLLNET]
    made[NVLS] = inside[NVLS]
    made[NVLS_TREE] = inside[NVLS_TREE] + 2 * levels * net[NVLS_TREE]
    made[PAT] = levels * net[PAT] / 3.5 + 2.8e-6 * layout.workers
    return made + base
