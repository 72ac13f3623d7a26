"""Constants of NCCL's own model of the time of a collective, by version."""

from __future__ import annotations

import numpy as np

from simulator.hardware.machine import PROTOCOLS, Generation
from simulator.models.curves import Floats
from simulator.records import Record

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
