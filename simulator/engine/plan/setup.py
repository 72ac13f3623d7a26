"""The setup of a job: the parts of a scenario, seated on places, and the network that it sees from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import add

import numpy as np
import numpy.typing as npt

from simulator.component import expected
from simulator.engine.plan.network_setup import IDLE, Conditions, Fidelity, NetworkSetup
from simulator.engine.rounds.disturbances import NO_DISTURBANCES
from simulator.fabrics.base import Fabric
from simulator.hardware.gpu import Gpu
from simulator.hardware.runtime import Runtime
from simulator.models.curves import Floats
from simulator.models.exchange import AllGather, Communication, Ints, Layout, Placement, Selection
from simulator.models.layers import Workload
from simulator.models.overlap import Overlap
from simulator.models.pipeline import Parallelism
from simulator.models.sharding import Copies, ReduceWire, WireFormat
from simulator.models.small_cache import MOST, LatestResults
from simulator.models.wiring import Wiring
from simulator.records import Record, field, replace
from simulator.schedulers.base import Scheduler
from simulator.sparsifiers.base import Sparsifier
from simulator.topologies.base import Topology


class OtherGpu(Record):
    """Nodes with another GPU: its kernels, and how much longer forward and backward take there."""

    gpu: Gpu
    nodes: tuple[int, ...]
    factor: float


class ExpertShards(Record):
    """The tensors of experts, which fewer GPUs of a group share than all others: `size`, on their own `network`."""

    tensors: Ints
    size: int
    network: NetworkSetup


class Sharding(Record):
    """What the GPUs of a group share: `size` of them, on their `network`.

    `numels`: elements of every whole tensor. `computed`: bytes of an element as it is gathered and computed with, and
    as the backward pass leaves its gradient; `reduced`: in reductions. `frozen`: what is gathered with every tensor
    and not trained, as so many of its elements. `copies`: what is copied around both.
    `gather_wire`, `reduce_wire`: formats of what travels, where it is rounded for that. `experts`: what is different of
    those, where an axis of their own divides them. `sums_whole`: reductions are all-reduces.
    """

    size: int
    numels: tuple[int, ...]
    computed: int
    reduced: int
    frozen: tuple[float, ...]
    copies: Copies
    network: NetworkSetup
    gather_wire: WireFormat | None = None
    reduce_wire: ReduceWire | None = None
    experts: ExpertShards | None = None
    sums_whole: bool = False

    @property
    def gathered(self) -> tuple[float, ...]:
        """Elements that are gathered with every tensor, its own among them."""
        return tuple(map(add, self.numels, self.frozen))

    @property
    def sizes(self) -> tuple[int, ...]:
        """GPUs that share each of the tensors."""
        made = np.full(len(self.numels), self.size)
        if self.experts is not None:
            made[self.experts.tensors] = self.experts.size
        return tuple(made.tolist())

    @property
    def tensors(self) -> tuple[int, ...]:
        """The nodes of the group, and the GPUs and elements of every tensor: what buckets and their work depend on."""
        return self.network.wiring.layout.nodes, *self.sizes, *self.numels


class JointWork(Record):
    """The collectives of one axis (tensor, context or expert) in the layers of a model, on the `network` of its GPUs.

    `calls` (2, L, s): how often each of `steps` takes place in the forward and in the backward pass of a layer, of one
    micro-batch. `beside` (2, L): seconds of compute that run beside them, which hide all but the share `last` (s,).
    """

    network: NetworkSetup
    steps: tuple[Communication, ...]
    calls: Ints
    beside: Floats
    last: Floats

    def exposed(self, seconds: Floats) -> Floats:
        """What a layer waits for on both passes, (2, L), where the steps take so many seconds (s,)."""
        every = self.calls * seconds
        made: Floats = np.maximum((every * self.last).sum(axis=2), every.sum(axis=2) - self.beside)
        return made


class DividedModel(Record):
    """How one GPU's part of a model stands among the others.

    - `axes`: collectives inside of layers.
    - `chunk` (L,): the chunk of each layer of the model, of which the GPU has those of its `stage`.
    - `forward`, `backward` (L,): seconds of a micro-batch.
    - `link`: the network between neighbouring stages, and what is sent there in each direction for a micro-batch.
    - `experts` (L,): whether a layer has those of the experts that the GPU has.
    - `unlike`: stages of which one needs most memory: of those with layers alike the one that keeps most activations.
    """

    parallelism: Parallelism
    axes: tuple[JointWork, ...]
    chunk: Ints
    forward: Floats
    backward: Floats
    link: NetworkSetup | None
    sent: AllGather
    experts: npt.NDArray[np.bool_]
    stage: int
    unlike: tuple[int, ...]

    @property
    def mine(self) -> Ints:
        """The layers of the stage."""
        return np.flatnonzero(np.isin(self.chunk, self.parallelism.pipeline.chunks_of(self.stage)))

    @property
    def mean_over_first(self) -> float:
        """How many times as long as the first stage a stage computes, mean over all."""
        both = self.forward + self.backward
        first = float(both[self.mine].sum()) * self.parallelism.pipeline.stages
        return float(both.sum()) / first if first else 1.0


class Setup(Record):
    """The parts of a scenario from which one iteration is planned.

    `selections`, one per bucket, come from a replay; without them, the closed form gives them, with `concentration` as
    the overlap law. `others`: nodes with another kind of GPU. `orders`: the order in which a worker issues its
    collectives, for workers that do not issue them as their buckets become ready. `hosts`: the nodes of the cluster
    that another job runs on, and `start` when it starts, in seconds. `seat`: the network of a seated job. `followed`:
    every message of its exchanges is followed on the clock, also where they have prices. `sharding`: of a sharded
    model, whose workers here are those that have the same part of it (`simulator.engine.plan.sharding`). `divided`: of
    a model that several GPUs compute together, of which the workload here is one part
    (`simulator.engine.plan.divided_model`). `inside`: of local steps between sites, the job inside one of them, of
    which one GPU is a worker here. `groups`: of workers that exchange at the same time, each its part of the model.
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
    hosts: tuple[int, ...] = ()
    start: float = 0.0
    seat: NetworkSetup | None = None
    followed: bool = False
    sharding: Sharding | None = None
    divided: DividedModel | None = None
    inside: Setup | None = None
    groups: int = 1

    @property
    def layout(self) -> Layout:
        """The workers and servers that take part."""
        return self.topology.layout(self.nodes, self.gpus_per_node)

    @property
    def cycle(self) -> float:
        """Seconds between two moments at which exchanges may start: of the runtime, or of its fusion of tensors."""
        return max(self.runtime.cycle_time, self.scheduler.cycle)

    @property
    def workers(self) -> int:
        """Number of GPUs."""
        return self.nodes * self.gpus_per_node

    @property
    def network(self) -> NetworkSetup:
        """What exchanges are timed on; a job that has not been seated has the cluster for itself."""
        return self.seat or networks_of([self])[0]

    @property
    def alone(self) -> bool:
        """Whether the job's own collectives have the links to themselves."""
        return not (self.topology.concurrent or self.network.shared)

    @property
    def live(self) -> bool:
        """Whether exchanges have no price in advance: they meet others, or find token buckets as earlier ones left."""
        wiring = self.network.wiring
        remembers = wiring.burst is not None and wiring.layout.nodes > 1
        return self.followed or not self.alone or self.scheduler.streams > 1 or remembers


def seat_jobs(jobs: Sequence[Setup]) -> list[Setup]:
    """The job in question and then the others, on their places of one network.

    Raises an expected-error for links or nodes that do not exist, and for pushes and pulls on several streams.
    """
    for job in jobs:
        if job.topology.concurrent and job.scheduler.streams > 1:
            got = f"{job.scheduler.streams} streams with topology {job.topology.kind}"
            raise expected("a scheduler with `streams: 1`", got, "all pushes and pulls are under way at once already")
    return [replace(job, seat=network) for job, network in zip(jobs, networks_of(jobs), strict=True)]


def networks_of(jobs: Sequence[Setup]) -> list[NetworkSetup]:
    """The network of the job in question, laid out for all places of all jobs, and what each of the others sees of it.

    Raises an expected-error for links or nodes that do not exist.
    """
    setup, *others = jobs
    if not others:
        return [_network_alone(setup)]
    seats, placement = _place_jobs(setup.layout, others)
    network, endpoint = replace(_network(setup, placement), shared=True), _endpoint(setup)
    made = [network]
    for other, seat in zip(others, seats, strict=True):
        own = placement.node[seat]
        there = Placement(own, placement.rank[seat], np.intersect1d(placement.servers, own))
        local = setup.conditions.slowed(setup.fabric.wire(other.layout, endpoint, there))
        # Disturbances are numbered as links and places of the whole; a neighbour's own choices do not look at them.
        own_view = replace(network, topology=other.topology, wiring=local, disturbances=NO_DISTURBANCES, seats=seat)
        made.append(own_view)
    return made


def group_network(setup: Setup, size: int, stride: int) -> NetworkSetup:
    """The network of so many GPUs, of which each is `stride` after the one before; others of a node use it as well."""
    each = setup.gpus_per_node
    inside = max(1, min(size, each // stride))
    fabric = setup.fabric.shared_by(setup.workers // size, each // inside) if size > inside else setup.fabric
    return networks_of([replace(setup, nodes=-(-size // inside), gpus_per_node=inside, fabric=fabric)])[0]


_seated: LatestResults[NetworkSetup] = LatestResults(256, lambda network: len(network.wiring.capacity) <= MOST)
_latest: LatestResults[NetworkSetup] = LatestResults(1)
"""The latest network of any size: a fit asks for that of a large cluster hundreds of times."""


def _network_alone(setup: Setup) -> NetworkSetup:
    """The network of a job that has it for itself; points of a sweep share it."""
    parts = setup.fabric.fingerprint, setup.topology.fingerprint, setup.conditions, setup.nodes, setup.gpus_per_node
    numbers = _endpoint(setup), setup.runtime.server_bandwidth, setup.scheduler.streams
    key = (*parts, *numbers, setup.fidelity, setup.gpu.device or setup.gpu.name)
    return _seated.get(key, lambda: _latest.get(key, lambda: _network(setup, setup.layout.placement())))


def _endpoint(setup: Setup) -> float | None:
    return setup.runtime.endpoint_bandwidth if setup.topology.concurrent else None


def _network(setup: Setup, placement: Placement) -> NetworkSetup:
    """The network for places that stand there."""
    conditions = setup.conditions
    wiring = conditions.slowed(_free_servers(setup, _lay(setup, placement)))
    disturbances = conditions.disturbances(wiring)
    return NetworkSetup(
        setup.topology,
        setup.fabric,
        wiring,
        setup.fidelity,
        disturbances,
        healthy=not conditions.links,
        device=setup.gpu.device or setup.gpu.name,
        shared=bool(disturbances.changes),
    )


def _free_servers(setup: Setup, wiring: Wiring) -> Wiring:
    """The wiring with servers on machines of their own at the bandwidth that the runtime states for them."""
    layout, stated = setup.layout, setup.runtime.server_bandwidth
    if stated is None or not layout.servers or layout.colocated:
        return wiring
    servers, capacity = np.arange(layout.workers, layout.places), wiring.capacity.copy()
    worker = np.zeros_like(servers)
    rate = min(setup.fabric.carried(int(wiring.node.max()) + 1), stated)
    capacity[wiring.across(servers, worker).first] = rate
    capacity[wiring.across(worker, servers).last] = rate
    return replace(wiring, capacity=capacity)


def _lay(setup: Setup, placement: Placement) -> Wiring:
    """The fabric's links; every communication stream brings connections of its own, which may fill a NIC together."""
    fabric, streams, endpoint = setup.fabric, setup.scheduler.streams, _endpoint(setup)
    transport = fabric.transport
    if streams == 1 or transport is None or transport.stream_bandwidth is None:
        return fabric.wire(setup.layout, endpoint, placement)
    together = transport.model_copy(update={"streams": streams * transport.streams})
    wiring = fabric.model_copy(update={"transport": together}).wire(setup.layout, endpoint, placement)
    return wiring.with_ceiling(fabric.carried(placement.nodes))


def _place_jobs(layout: Layout, others: Sequence[Setup]) -> tuple[list[Ints], Placement]:
    """The places of every other job, and the nodes and ranks of all places; servers get nodes of their own."""
    mine = layout.placement()
    node, rank, seats, last, servers = mine.node, mine.rank, [], mine.nodes, [mine.servers]
    for job in others:
        other, hosts = job.layout.placement(), np.array(job.hosts)
        own = other.node < len(hosts)
        standing = np.where(own, hosts[np.minimum(other.node, len(hosts) - 1)], last + other.node - len(hosts))
        servers.append(last + other.servers - len(hosts))
        seats.append(len(node) + np.arange(other.places))
        taken = np.bincount(node, minlength=int(standing.max()) + 1)
        node, rank = np.concatenate([node, standing]), np.concatenate([rank, other.rank + taken[standing]])
        last = max(last, int(standing.max()) + 1)
    return seats, Placement(node, rank, np.concatenate(servers))


def refuse_unlike(setup: Setup, what: str) -> None:
    """Raise an expected-error where the groups of GPUs of `what` would differ, or meet others on the links."""
    if setup.live or setup.conditions.background:
        got = "links that change, carry others or have token buckets"
        got = f"topology {setup.topology.kind}" if setup.topology.concurrent else got
        raise expected(f"collectives that have the links to themselves, for {what}", got)
    if setup.others:
        raise expected(f"GPUs of one kind, for {what}", f"{1 + len(setup.others)} kinds")
