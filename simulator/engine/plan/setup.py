"""The setup of a job: the parts of a scenario from which one iteration is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simulator.engine.plan.conditions import IDLE, Conditions
from simulator.engine.plan.network_setup import Fidelity
from simulator.fabrics.base import Fabric
from simulator.hardware.gpu import Gpu
from simulator.hardware.runtime import Runtime
from simulator.models.exchange import (
    Layout,
    Selection,
)
from simulator.models.layers import Workload
from simulator.models.overlap import Overlap
from simulator.records import Record, field
from simulator.schedulers.base import Scheduler
from simulator.sparsifiers.base import Sparsifier
from simulator.topologies.base import Topology


class OtherGpu(Record):
    """Nodes with another GPU: its kernels, and how much longer forward and backward take there."""

    gpu: Gpu
    nodes: tuple[int, ...]
    factor: float


class Setup(Record):
    """The parts of a scenario from which one iteration is planned.

    `selections`, one per bucket, come from a replay; without them, the closed form gives them, with `concentration` as
    the overlap law. `others`: nodes with another kind of GPU. `orders`: the order in which a worker issues its
    collectives, for workers that do not issue them as their buckets become ready.
    """

    workload: Workload
    nodes: int
    gpus_per_node: int
    gpu: Gpu
    fabric: Fabric
    runtime: Runtime
    topology: Topology
    sparsifier: Sparsifier
    scheduler: Scheduler
    concentration: Overlap
    selections: tuple[Selection, ...] | None = None
    fidelity: Fidelity = "auto"
    others: tuple[OtherGpu, ...] = ()
    conditions: Conditions = IDLE
    orders: Mapping[int, Sequence[int]] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        """The workers and servers that take part."""
        return self.topology.layout(self.nodes, self.gpus_per_node)


class OtherJobSetup(Record):
    """Another job on the cluster: its setup, the nodes that it runs on, and its start in seconds."""

    setup: Setup
    nodes: tuple[int, ...]
    start: float
