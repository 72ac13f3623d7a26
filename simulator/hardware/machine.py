"""The hardware of a cluster as a collective library sees it, and what was measured of the library on it."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import numpy as np
from pydantic import Field, field_validator

from simulator.component import Spec, expected
from simulator.models.curves import Floats, map_each
from simulator.models.wiring import Rings
from simulator.records import Record, astuple
from simulator.units import BytesPerSecond, Density, PositiveBytes, Seconds

Generation = Literal["volta", "ampere", "hopper", "blackwell", "cdna"]
Protocol = Literal["LL", "LL128", "Simple"]
PROTOCOLS: tuple[Protocol, ...] = ("LL", "LL128", "Simple")
Pair = Literal[
    "ring LL", "ring LL128", "ring Simple", "tree LL", "tree LL128", "tree Simple", "nvls Simple", "nvls_tree Simple"
]
"""An algorithm with one of the protocols that NCCL has for it."""

_GENERATIONS: tuple[tuple[Generation, tuple[str, ...]], ...] = (
    ("cdna", ("INSTINCT", "RADEON", "MI50", "MI60", "MI100", "MI2", "MI3")),
    ("blackwell", ("B100", "B200", "B300", "GB200", "GB300", "RTX 50")),
    ("hopper", ("H100", "H200", "H800", "H20", "GH200")),
    ("ampere", ("A100", "A800", "A10", "A30", "A40", "A6000", "RTX 30", "RTX30", "RTX 40", "RTX40", "L4", "L40")),
    ("volta", ("V100", "P100", "P102", "T4", "K80", "M40", "RTX 20", "RTX20", "GTX", "TITAN")),
)
"""Part of a device's name by generation, as NCCL groups compute capabilities: 10.0, 9.0 and 8.0 upwards; then volta.
GPUs of AMD, on which RCCL takes its place, are `cdna`."""
_OTHER_MAKERS = ("GAUDI", "TPU", "TRAINIUM", "INFERENTIA", "ASCEND", "PONTE VECCHIO", "DATA CENTER GPU MAX", "MTT ")
"""Parts of names of accelerators on which neither NCCL nor RCCL runs."""
_BY_LINKS: tuple[tuple[float, Generation], ...] = ((6e11, "blackwell"), (3.1e11, "hopper"), (1.6e11, "ampere"))
"""Rates above which the NVLinks of one GPU are of a generation: 120, 240, 370 and 720 GB/s in NCCL's units."""


@lru_cache(1024)
def generation_of(device: str, links: float = 0.0) -> Generation:
    """The generation of a GPU by its name, as NCCL's tuning groups them; older ones are `volta`.

    Where the name says nothing, the rate of its NVLinks does (`links`, bytes/s; 0 if there are none). An accelerator
    that is made by neither NVIDIA nor AMD is an expected-error.
    """
    name = device.upper().replace("_", " ")
    if any(part in name for part in _OTHER_MAKERS):
        hint = "NCCL and RCCL do not run on others: choose a topology such as `ring`, whose steps follow each other"
        raise expected("a GPU of NVIDIA or AMD for topology nccl", device, hint)
    for made, parts in _GENERATIONS:
        if any(part in name for part in parts):
            return made
    return next((made for least, made in _BY_LINKS if links > least), "volta")


class LibraryTerms(Spec):
    """What was measured of NCCL on one network, in addition to the network's rates and start-ups.

    Terms that are left out are those that NCCL itself assumes (NVIDIA/nccl, src/graph/tuning.cc): priors, not
    measurements.

    - `version`: of NCCL, for example 2.18; it decides which constants NCCL chooses by.
    - `ll128`: whether NCCL uses LL128 here; it does over NVLink with NICs near the GPUs, on H100 since 2.15.
    - `reported_bandwidth`: what a NIC reports to the library, by which it chooses; the NIC's bandwidth if left out.
    - `latency`: of the network when these terms were measured; what the network now has more of it, or less, is added
      to every step between nodes.
    - `hop_latency`: by protocol, start-up of one step between nodes in addition to NCCL's constant.
    - `step_overhead`: pairs of bytes and seconds, bytes rising: what one step between nodes takes in addition to its
      bytes at the network's rate, by the bytes of the step (those of all channels together).
    - `efficiency`: by algorithm and protocol, such as `tree LL128`: share of the links' rate that the payload gets.
    """

    version: str | None = Field(default=None, pattern=r"^\d+\.\d+(\.\d+)?$")
    ll128: bool | None = None
    reported_bandwidth: BytesPerSecond | None = None
    latency: Seconds | None = None
    hop_latency: dict[Protocol, Seconds] = Field(default_factory=dict)
    step_overhead: tuple[tuple[PositiveBytes, Seconds], ...] = ()
    efficiency: dict[Pair, Density] = Field(default_factory=dict)

    @field_validator("step_overhead")
    @classmethod
    def _sizes_rise(cls, value: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
        sizes = [size for size, _ in value]
        if sizes != sorted(set(sizes)):
            raise expected("points with rising bytes", str(sizes), "put them in order, and each size once")
        return value

    def overhead_of_step(self, nbytes: Floats) -> Floats:
        """Seconds (b,) beyond the bytes of steps (b,), straight over the logarithm of the bytes, level outside."""
        made: Floats = np.interp(map_each(math.log, np.maximum(nbytes, 1.0)), *_over_logarithms(self.step_overhead))
        return made


@lru_cache(maxsize=64)
def _over_logarithms(points: tuple[tuple[float, float], ...]) -> tuple[Floats, Floats]:
    sizes, seconds = np.array(points).T
    return map_each(math.log, sizes), seconds


NOTHING_MEASURED = LibraryTerms()


class Machine(Record):
    """What a collective library sees of the nodes that a job uses.

    `nics`: NICs of a node that the job's GPUs use, and `reported` what each says that it can carry (bytes/s). `port`:
    what one GPU sends to the others of its node. `inside`: kind of the links inside a node, behind a switch that any
    pair can use at full rate if `switched`; `host`: rate of pairs without such a link. `cycles` and `chains`: over
    direct links between pairs, the rings, and the chains, that carry the most, each with its number of links; empty
    where any order does. `full_mesh`: equal links join every pair. `latency` and `inside_latency`: of one message
    between nodes and inside one. `far_latency`: what a message that goes from node to node, through all of them in
    order and back to the first, takes beyond `latency` for each step, because switches or sites lie between them.
    `start_up_measured`: what a call takes is known apart, so that NCCL's constant for it does not count.
    """

    generation: Generation = "volta"
    nics: int = 1
    reported: float = 1.25e10
    port: float = 1.25e10
    inside: Literal["nvlink", "pci"] = "pci"
    switched: bool = False
    cycles: Rings = ()
    chains: Rings = ()
    full_mesh: bool = False
    latency: float = 0.0
    inside_latency: float = 0.0
    far_latency: float = 0.0
    host: float | None = None
    start_up_measured: bool = False
    terms: LibraryTerms = NOTHING_MEASURED

    def __hash__(self) -> int:
        return hash(astuple(self)[:-1])  # the terms hold dictionaries
