"""The answers that a scenario is written from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from simulator.fabrics.base import Fabric
from simulator.hardware.gpu import Gpu
from simulator.hardware.runtime import Runtime
from simulator.models.layers import Workload
from simulator.records import Record, field

Part = TypeVar("Part")
GOALS: dict[str, str] = {
    "pays": "whether the method pays against the fastest dense training",
    "method": "which method, schedule and topology is fastest",
    "time": "how long an iteration takes, and where the time goes",
    "workers": "how many GPUs are worth it",
    "bandwidth": "from which bandwidth on dense is faster",
}
"""What a person may want to know, with the words that a question lists."""


class NamedPart(NamedTuple, Generic[Part]):
    """A part of a scenario by its name, and what that name stands for."""

    name: str
    read: Part


class NetworkAnswer(Record):
    """A shipped network by its name, or a rate: `nics` NICs per machine of `bandwidth` bytes/s, `latency` in s.

    `stated`: whether the latency was stated. `read`: the network of that name.
    """

    name: str = ""
    read: Fabric | None = None
    bandwidth: float = 0.0
    latency: float = 0.0
    stated: bool = False
    nics: int = 1


class BetweenSites(Record):
    """The way between sites: what it carries per direction in bytes/s, and its round trip in seconds."""

    bandwidth: float
    round_trip: float


AXES = {"tp": "tensor", "cp": "context", "pp": "pipeline", "ep": "expert"}
"""Axes along which several GPUs have parts of one model, by what frameworks call them."""


class AskedMesh(Record):
    """A mesh: its schedule as a scenario writes it, and sizes of the axes that divide a copy of the model."""

    schedule: Mapping[str, Any]
    axes: Mapping[str, int] = field(default_factory=dict)

    @property
    def parallelism(self) -> dict[str, Any]:
        """The key `parallelism` of a scenario; empty where each GPU computes a copy."""
        sizes = {AXES[axis]: size for axis, size in self.axes.items() if size > 1}
        return {key: {"stages": size} if key == "pipeline" else size for key, size in sizes.items()}


class Machines(Record):
    """The GPUs of a machine, and what joins machines."""

    gpu: NamedPart[Gpu]
    gpus_per_machine: int
    network: NetworkAnswer


class Answers(Machines):
    """What a person trains, on what, and what they want to know.

    `methods`: sparsifiers as mappings, as a scenario writes them; the first one is that of the scenario.
    `machines`: of all sites together. `slow_gpu`: another GPU on the last `slow_machines`. `compute_time`: seconds of
    one iteration of one GPU, where it is known. `local_steps`: steps between two exchanges; 0: one in every step.
    `lora`: rank of adapters; 0: the whole model is trained. `recompute`: without it, the training would not fit.
    """

    model: NamedPart[Workload]
    machines: int
    framework: NamedPart[Runtime]
    methods: tuple[Mapping[str, Any], ...]
    goal: str
    batch: int | None = None
    compute_time: float | None = None
    precision: str = ""
    lora: int = 0
    recompute: bool = False
    sites: int = 1
    between: BetweenSites | None = None
    slow_gpu: NamedPart[Gpu] | None = None
    slow_machines: int = 1
    mesh: AskedMesh | None = None
    local_steps: int = 0

    @property
    def workers(self) -> int:
        """The number of GPUs."""
        return self.machines * self.gpus_per_machine

    @property
    def method(self) -> Mapping[str, Any]:
        """The method of the scenario: the first one that is not dense."""
        return next((item for item in self.methods if item["kind"] != "dense"), self.methods[0])
