"""What frameworks offer for a sharded model as settings: meshes and formats of reductions."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.scenario.scenario import Scenario
from simulator.schedulers.sharded import Sharded


def settings_of(scheduler: Sharded, scenario: Scenario) -> Iterator[Sharded]:
    """A schedule with one copy of the model on all GPUs and in every node, with reductions as gradients travel and,
    where that is wider than they are computed, in the format in which they are computed."""
    cluster, precision = scenario.cluster, scenario.workload.precision
    shards = [None] if cluster.nodes == 1 else [None, cluster.gpus_per_node]
    narrow = precision.value_bytes > precision.gradient_bytes
    for format_ in (None, precision.gradients) if narrow else (None,):
        for shard in shards:
            yield scheduler.model_copy(update={"shard": shard, "reduce_in": format_})
