"""Sharded jobs: each GPU's part of the model as a job of its own, and the collectives among those that share it."""

from __future__ import annotations

from simulator.component import expected
from simulator.engine.plan.setup import Setup, Sharding, networks_of
from simulator.fabrics.base import Fabric
from simulator.models.layers import Workload
from simulator.models.precision import NumberFormat
from simulator.models.sharding import SPARSE
from simulator.models.small_cache import LatestResults
from simulator.records import replace
from simulator.schedulers.sharded import Sharded
from simulator.sparsifiers.dense import Dense

_parts: LatestResults[Workload] = LatestResults(64)


def shard_job(setup: Setup) -> Setup:
    """The job of one GPU's part of the model: its peers are those with the same part, one in each group.

    A part of a tensor has ceil(elements / size) elements. Gradients arrive at it in the format in which they travel.
    The peers of all parts exchange at the same time, so that those of a node share its NICs. Raises an expected-error
    where groups do not fit the nodes, or the exchanges meet others on the links.
    """
    scheduler = setup.scheduler
    if not isinstance(scheduler, Sharded):
        return setup
    size = scheduler.shard or setup.workers
    if scheduler.shard is None and setup.workers > 1 and not isinstance(setup.sparsifier, Dense):
        raise expected("`sparsifier: dense` where all GPUs share one model", setup.sparsifier.kind, SPARSE)
    _refuse_unfit(setup, size)
    workload, precision = setup.workload, scheduler.with_reductions(setup.workload.precision)
    key = workload.fingerprint, size, precision.sent_as
    inside = min(size, setup.gpus_per_node)
    group = replace(setup, nodes=size // inside, gpus_per_node=inside)
    sharding = Sharding(
        size,
        tuple(layer.numel for layer in workload.layers),
        precision.gradient_bytes,
        precision.value_bytes,
        scheduler.copies,
        networks_of([group])[0],
        scheduler.gather_wire,
        scheduler.reduce_wire,
    )
    replicas = setup.workers // size
    peers = setup.gpus_per_node // inside
    return replace(
        setup,
        workload=_parts.get(key, lambda: _part_of(workload, size, precision.sent_as)),
        runtime=setup.runtime.model_copy(update={"fills_buckets": False}),
        nodes=replicas // peers,
        gpus_per_node=peers,
        fabric=_shared(setup.fabric, inside) if replicas > 1 else setup.fabric,
        sharding=sharding,
    )


def _part_of(workload: Workload, size: int, arriving: NumberFormat) -> Workload:
    """What one of `size` GPUs has of every tensor, in the format in which gradients arrive; times stay."""
    layers = tuple(
        layer.model_copy(update={"numel": -(-layer.numel // size), "rows": None}) for layer in workload.layers
    )
    precision = workload.precision.model_copy(update={"gradients": arriving, "travels": None})
    return workload.model_copy(update={"layers": layers, "precision": precision})


def _shared(fabric: Fabric, groups: int) -> Fabric:
    """The network of a node as one of `groups` that exchange at the same time sees it."""
    rate = fabric.bandwidth * min(1.0, fabric.nics_per_node / groups)
    return fabric.model_copy(update={"bandwidth": rate, "nics_per_node": max(1, fabric.nics_per_node // groups)})


def _refuse_unfit(setup: Setup, size: int) -> None:
    each = setup.gpus_per_node
    if setup.workers % size or (size % each and each % size):
        hint = f"a group fills whole nodes of {each} GPUs, or several fit into one; {setup.workers} GPUs in all"
        raise expected("a number of GPUs that share a model to divide the cluster evenly", str(size), hint)
    if setup.scheduler.streams > 1:
        hint = "a group and the replicas have a communicator each"
        raise expected("a sharded model with `streams: 1`", str(setup.scheduler.streams), hint)
    if setup.live or setup.conditions.background:
        got = "links that change, carry others or have token buckets"
        got = f"topology {setup.topology.kind}" if setup.topology.concurrent else got
        raise expected("collectives that have the links to themselves, for a sharded model", got)
    if setup.others:
        raise expected("GPUs of one kind, for a sharded model", f"{1 + len(setup.others)} kinds")
