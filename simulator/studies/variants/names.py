"""What combinations of a method, a schedule and a topology are called, and what sharded models offer as settings."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.fabrics.wide_area import WideArea
from simulator.models.sharding import Mesh
from simulator.scenario.scenario import Scenario
from simulator.scenario.titles import method_name
from simulator.schedulers.base import Scheduler
from simulator.schedulers.bucketed import Bucketed
from simulator.schedulers.local_steps import LocalSteps
from simulator.schedulers.sharded import Sharded
from simulator.sparsifiers.dense import Dense
from simulator.units import show_bytes, show_time


def sharded_part(scheduler: Scheduler) -> Sharded | None:
    """The schedule of GPUs that share a model: the scheduler itself, or what takes steps inside of sites."""
    part = getattr(scheduler, "inside", None) or scheduler
    return part if isinstance(part, Sharded) else None


def mesh_of(scenario: Scenario, scheduler: Sharded) -> Mesh:
    """Groups of a schedule on the scenario's cluster, or in one of its sites where local steps lie between them."""
    cluster, parallelism, outer = scenario.cluster, scenario.parallelism, scenario.scheduler
    each = max(1, cluster.gpus_per_node // parallelism.tensor)
    inside = isinstance(outer, LocalSteps) and outer.inside is not None
    copies = (_site_of(scenario) if inside else cluster.nodes) * cluster.gpus_per_node // parallelism.parts
    size = scheduler.shard or copies
    compressed = not isinstance(scenario.sparsifier, Dense) and not inside
    passes, staged = scenario.workload.micro_batches, parallelism.pipeline.stages > 1
    return Mesh(size, min(size, each), copies // size, passes, compressed, staged)


def _site_of(scenario: Scenario) -> int:
    """Nodes of the largest site; one where no sites are stated."""
    network, stated = scenario.cluster.network, getattr(scenario.scheduler, "site", None)
    return stated or (max(site.nodes for site in network.sites) if isinstance(network, WideArea) else 1)


def settings_of(scheduler: Sharded, scenario: Scenario) -> Iterator[Sharded]:
    """A schedule without rounding on every mesh: one copy of the model on all GPUs, in every site and in every node.

    Reductions are in the format in which gradients are computed where they travel in a wider one.
    """
    precision = scenario.workload.precision
    narrow = precision.value_bytes > precision.gradient_bytes
    exact = scheduler.exact.model_copy(update={"reduce_in": precision.gradients if narrow else None})
    whole = mesh_of(scenario, exact.model_copy(update={"shard": None}))
    sizes = [whole.each]
    if isinstance(scenario.cluster.network, WideArea):
        sizes.append(_site_of(scenario) * scenario.cluster.gpus_per_node // scenario.parallelism.parts)
    for size in (None, *sorted({size for size in sizes if 1 < size < whole.size and whole.size % size == 0})):
        each = exact.model_copy(update={"shard": size})
        yield from each.settings(mesh_of(scenario, each))


def wires_of(scheduler: Sharded, scenario: Scenario) -> Iterator[Sharded]:
    """A schedule with everything that is rounded within its groups; formats between nodes where groups have several.

    Gathers in fp8 are those of layers that multiply in fp8 (torchao, Transformer Engine).
    """
    mesh, origin = mesh_of(scenario, scheduler), scenario.workload.origin
    in_fp8 = origin is not None and origin.architecture.arithmetic == "fp8"
    for fields in scheduler.wires:
        made = type(scheduler).model_validate({**scheduler.model_dump(), **fields})
        wire = made.reduce_wire
        gathers = in_fp8 or made.gather_wire != "fp8"
        if gathers and mesh.size > 1 and (mesh.size > mesh.each or wire is None or wire.between is None):
            yield made


_SIZES = ("bucket_size", "partition")


def schedule_name(scenario: Scenario) -> str:
    """The schedule with the size of its buckets or slices, where it has one: `bucketed 25 MiB`.

    Buckets that are collected for a time have that too: `bucketed 16 MiB in 25 ms`; sharded models say their groups:
    `fsdp in groups of 8, gathered once, reduced in bf16`.
    """
    scheduler = scenario.scheduler
    if isinstance(scheduler, Sharded):
        return scheduler.name
    sizes = [value for key in _SIZES if isinstance(value := getattr(scheduler, key, None), float)]
    name = scheduler.kind + (f" {show_size(sizes[0])}" if sizes else "")
    if inside := getattr(scheduler, "inside", None):
        return f"{name} with {schedule_name(scenario.model_copy(update={'scheduler': inside}))} inside sites"
    if isinstance(scheduler, Bucketed) and scheduler.rule == "horovod":
        return f"{name} in {show_time(scheduler.cycle_time)}"
    return name


def method_with_rounding(scenario: Scenario) -> str:
    """The method with its density and what groups of a sharded model round: `topk 0.01`, `dense with qgz`."""
    part = sharded_part(scenario.scheduler)
    return method_name(scenario) + (f" with {part.rounded}" if part is not None and part.rounded else "")


def topology_name(scenario: Scenario) -> str:
    """The topology, and where parameter servers are placed: `parameter_server sharded`."""
    placement = getattr(scenario.topology, "placement", None)
    return scenario.topology.kind + (f" {placement}" if placement else "")


def combination_name(scenario: Scenario) -> str:
    """Method, schedule and topology: `topk 0.01 (bucketed 4 MiB, ring)`."""
    return f"{method_name(scenario)} ({schedule_name(scenario)}, {topology_name(scenario)})"


def show_size(nbytes: float) -> str:
    """Bytes of a bucket, in binary units where that is a whole number.

    >>> show_size(4 * 2.0**20), show_size(4e6)
    ('4 MiB', '4 MB')
    """
    mebibytes = nbytes / 2.0**20
    return f"{mebibytes:g} MiB" if mebibytes == round(mebibytes) else show_bytes(nbytes)
