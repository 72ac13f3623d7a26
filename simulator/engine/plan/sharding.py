"""Sharded jobs: each GPU's part of the model as a job of its own, and the collectives among those that share it."""

from __future__ import annotations

import numpy as np

from simulator.component import expected
from simulator.engine.plan.divided_model import divide_model
from simulator.engine.plan.setup import ExpertShards, Setup, Sharding, group_network, networks_of, refuse_unlike
from simulator.fabrics.single_switch import SingleSwitch
from simulator.fabrics.wide_area import WideArea
from simulator.models.exchange import Shape
from simulator.models.layers import Workload
from simulator.models.pipeline import Parallelism
from simulator.models.precision import Precision
from simulator.models.sharding import SPARSE
from simulator.models.small_cache import LatestResults
from simulator.records import replace
from simulator.schedulers.local_steps import LocalSteps
from simulator.schedulers.sharded import Sharded
from simulator.sparsifiers.dense import Dense

_parts: LatestResults[Workload] = LatestResults(64)


def shard_job(setup: Setup, parallelism: Parallelism, stage: int) -> Setup:
    """The job of one GPU's part of the model: its peers are those with the same part, one in each group or site.

    GPUs that compute together divide the model first, those of local steps between sites inside each of these; it is
    one of those of a `stage`.

    A part of a tensor has ceil(elements / size) elements. Gradients arrive at it in the format in which they travel.
    The peers of all parts exchange at the same time, so that those of a node share its NICs. Raises an expected-error
    where groups do not fit the nodes, or the exchanges meet others on the links.
    """
    scheduler = setup.scheduler
    if isinstance(scheduler, LocalSteps) and (scheduler.inside or scheduler.site):
        return _job_between_sites(setup, scheduler, parallelism, stage)
    return _share_states(divide_model(setup, parallelism, stage))


def _share_states(setup: Setup) -> Setup:
    """The job of one GPU's share under a schedule that shards the model; any other job as it is."""
    scheduler = setup.scheduler
    if not isinstance(scheduler, Sharded):
        return setup
    size = scheduler.shard or setup.workers
    if scheduler.shard is None and setup.workers > 1 and not isinstance(setup.sparsifier, Dense):
        raise expected("`sparsifier: dense` where all GPUs share one model", setup.sparsifier.kind, SPARSE)
    _refuse_unfit(setup, size)
    workload, precision = setup.workload, scheduler.with_reductions(setup.workload.precision)
    arriving = precision.model_copy(update={"gradients": precision.sent_as, "travels": None})
    inside = min(size, setup.gpus_per_node)
    group = replace(setup, nodes=size // inside, gpus_per_node=inside)
    frozen = (0.0,) * len(workload.layers) if scheduler.in_place else _gathered_frozen(workload, precision)
    sharding = Sharding(
        size,
        tuple(layer.numel for layer in workload.layers),
        precision.gradient_bytes,
        precision.value_bytes,
        frozen,
        scheduler.copies,
        networks_of([group])[0],
        scheduler.gather_wire,
        scheduler.reduce_wire,
        _shard_experts(setup, size),
        scheduler.sums_whole,
    )
    replicas = setup.workers // size
    peers = setup.gpus_per_node // inside
    part = _part_of(workload, sharding.sizes, arriving)
    if workload.not_trained:  # in its own format, not in that of what arrives
        held = workload.not_trained / (1 if scheduler.in_place else size)
        part = part.model_copy(update={"frozen_bytes": held})
    return replace(
        setup,
        workload=part,
        runtime=setup.runtime.model_copy(update={"fills_buckets": False}),
        nodes=replicas // peers,
        gpus_per_node=peers,
        fabric=setup.fabric.shared_by(size, inside, size // inside) if replicas > 1 else setup.fabric,
        sharding=sharding,
        groups=setup.groups * size,
    )


def _gathered_frozen(workload: Workload, precision: Precision) -> tuple[float, ...]:
    """What is gathered with each tensor and not trained, as so many elements of the others."""
    each = workload.bytes_of_frozen / precision.gradient_bytes
    return tuple(each * layer.frozen for layer in workload.layers)


def _job_between_sites(setup: Setup, scheduler: LocalSteps, parallelism: Parallelism, stage: int) -> Setup:
    """The job of one GPU's share of the model in each site, beside that inside a site; of one site only the latter."""
    fabric, each, inside = setup.fabric, setup.gpus_per_node, scheduler.inside
    if inside is None or isinstance(inside, LocalSteps):
        got = "none" if inside is None else inside.kind
        raise expected("`inside` to be a schedule that exchanges in every step, where `site` is given", got)
    if not isinstance(fabric, SingleSwitch | WideArea):
        hint = "what the sites of other networks share is not known"
        raise expected("network single_switch or wide_area, for a schedule with `inside`", fabric.kind, hint)
    nodes = scheduler.site or (max(site.nodes for site in fabric.sites) if isinstance(fabric, WideArea) else 1)
    _refuse_unfit(setup, size := nodes * each)
    site = divide_model(replace(setup, nodes=nodes, scheduler=inside, sparsifier=Dense()), parallelism, stage)
    inner = _share_states(site)
    if nodes == setup.nodes:
        return inner
    part = _part_of(site.workload, (site.workers,) * len(site.workload.layers), setup.workload.precision)
    runtime = setup.runtime.model_copy(update={"fills_buckets": False})
    sites = replace(setup, workload=part, runtime=runtime, nodes=setup.nodes // nodes, gpus_per_node=1, groups=size)
    return replace(sites, fabric=fabric.shared_by(size, each), inside=inner)


def _shard_experts(setup: Setup, size: int) -> ExpertShards | None:
    """Those of `size` GPUs that have the same experts share them: one after each group of the expert axis."""
    divided = setup.divided
    if divided is None or (apart := divided.parallelism.expert) == 1:
        return None
    number = size // apart
    return ExpertShards(np.flatnonzero(divided.experts[divided.mine]), number, group_network(setup, number, apart))


def _part_of(workload: Workload, sizes: tuple[int, ...], precision: Precision) -> Workload:
    """What one of so many GPUs has of each tensor, in a precision of its own; times stay.

    A tensor is cut along its first dimension, as FSDP2 does, where that can be done in equal parts.
    """

    def make() -> Workload:
        pairs = zip(workload.layers, sizes, strict=True)
        parts = [
            replace(layer, numel=-(-layer.numel // size), shape=_part_of_shape(layer.shape, size), rows=None)
            for layer, size in pairs
        ]
        return workload.model_copy(update={"layers": tuple(parts), "precision": precision})

    return _parts.get((workload.fingerprint, sizes, precision), make)


def _part_of_shape(shape: Shape, size: int) -> Shape:
    return (shape[0] // size, *shape[1:]) if shape and shape[0] % size == 0 else ()


def _refuse_unfit(setup: Setup, size: int) -> None:
    each = setup.gpus_per_node
    if setup.workers % size or (size % each and each % size):
        hint = f"a group fills whole nodes of {each} GPUs, or several fit into one; {setup.workers} GPUs in all"
        raise expected("a number of GPUs that share a model or a site to divide the cluster evenly", str(size), hint)
    if setup.scheduler.streams > 1:
        hint = "a group and the replicas have a communicator each"
        raise expected("a sharded model, or sites, with `streams: 1`", str(setup.scheduler.streams), hint)
    refuse_unlike(setup, "a sharded model or sites")
