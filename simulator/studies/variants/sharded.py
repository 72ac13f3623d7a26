"""What frameworks offer for a sharded model as settings: meshes, formats of reductions, and what groups round."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.fabrics.wide_area import WideArea
from simulator.models.sharding import Mesh
from simulator.scenario.scenario import Scenario
from simulator.schedulers.base import Scheduler
from simulator.schedulers.local_steps import LocalSteps
from simulator.schedulers.sharded import Sharded
from simulator.sparsifiers.dense import Dense


def sharded_part(scheduler: Scheduler) -> Sharded | None:
    """The schedule of GPUs that share a model: the scheduler itself, or what takes steps inside of sites."""
    part = getattr(scheduler, "inside", None) or scheduler
    return part if isinstance(part, Sharded) else None


def mesh_of(scenario: Scenario, scheduler: Sharded) -> Mesh:
    """Groups of a schedule on the scenario's cluster, or in one of its sites where local steps lie between them."""
    cluster, parallelism, outer = scenario.cluster, scenario.parallelism, scenario.scheduler
    each = max(1, cluster.gpus_per_node // (parallelism.tensor * parallelism.context))
    inside = isinstance(outer, LocalSteps) and outer.inside is not None
    copies = (_site_of(scenario) if inside else cluster.nodes) * cluster.gpus_per_node // parallelism.copy_size
    size = scheduler.shard or copies
    compressed = not isinstance(scenario.sparsifier, Dense) and not inside
    return Mesh(size, min(size, each), copies // size, scenario.workload.micro_batches, compressed)


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
        sizes.append(_site_of(scenario) * scenario.cluster.gpus_per_node // scenario.parallelism.copy_size)
    for size in (None, *sorted({size for size in sizes if 1 < size < whole.size and whole.size % size == 0})):
        each = exact.model_copy(update={"shard": size})
        yield from each.settings(mesh_of(scenario, each))


def wires_of(scheduler: Sharded, scenario: Scenario) -> Iterator[Sharded]:
    """A schedule with everything that is rounded within its groups; formats between nodes where groups have several."""
    mesh = mesh_of(scenario, scheduler)
    for fields in scheduler.wires:
        made = type(scheduler).model_validate({**scheduler.model_dump(), **fields})
        wire = made.reduce_wire
        if mesh.size > 1 and (mesh.size > mesh.each or wire is None or wire.between is None):
            yield made
